// Values of flags: each kind reads a text, checks its range or its choices, and has a name.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/result.h"

namespace perdure::cli {

/// How the value of a flag is written, and what it means.
template <class T>
struct Kind {
  std::string name;  ///< as `list flags` prints it: "count"
  /// Errors: usage, with `flag` in `where`.
  std::function<Result<T>(const std::string& text, const std::string& flag)> read;
  std::vector<std::string> choices{};
};

/// A complaint about the command line.
[[nodiscard]] inline Error usage(std::string what, std::string where, std::string remedy) {
  return {ErrorCode::usage, std::move(what), std::move(where), std::move(remedy)};
}

/// "where: what; remedy" for a value that is none of `choices`.
[[nodiscard]] Error not_one_of(std::string_view value, std::string_view where,
                               std::span<const std::string> choices);

/// Any text. `name` and `choices` are for `list flags` only.
[[nodiscard]] Kind<std::string> text(std::string name = "text",
                                     std::vector<std::string> choices = {});

/// A whole number, as core/units.h reads counts: "10M", "1_000".
[[nodiscard]] Kind<std::uint64_t> count(
    std::uint64_t least = 0, std::uint64_t most = std::numeric_limits<std::uint64_t>::max());

/// A size, as core/units.h reads sizes in bytes: "64KiB".
[[nodiscard]] Kind<std::uint64_t> bytes(
    std::uint64_t least = 0, std::uint64_t most = std::numeric_limits<std::uint64_t>::max());

/// A decimal number: "0.5".
[[nodiscard]] Kind<double> number(double least = 0,
                                  double most = std::numeric_limits<double>::infinity());

/// The index in `names` of the text.
[[nodiscard]] Result<std::size_t> find_choice(const std::string& text, const std::string& flag,
                                              std::span<const std::string> names);

/// One of several names, each with its value.
template <class T>
[[nodiscard]] Kind<T> one_of(const std::vector<std::pair<std::string, T>>& choices) {
  std::vector<std::string> names;
  for (const auto& [name, value] : choices) names.push_back(name);
  return {"choice",
          [choices, names](const std::string& text, const std::string& flag) -> Result<T> {
            const auto found = find_choice(text, flag, names);
            if (!found) return found.error();
            return choices[*found].second;
          },
          names};
}

/// One of several values, called as `name_of` calls them.
template <class T, std::size_t n>
[[nodiscard]] Kind<T> one_of(const std::array<T, n>& values) {
  std::vector<std::pair<std::string, T>> choices;
  for (const T value : values) choices.emplace_back(name_of(value), value);
  return one_of(choices);
}

}  // namespace perdure::cli
