// Flags: what a command can be told, in one table.
//
// A flag is declared once: its name, its kind of value (values.h), its help, and the field that it
// fills. CLI11 parses by this table, `list flags` prints it, and what studies may set comes from
// that list. Every complaint has the project's one-line form.
//
// Texts are filled in by `parse`. Everything else waits for `assign`, so that a command can first
// set the fields to the defaults that depend on texts: flags override these.
#pragma once

#include <algorithm>
#include <concepts>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "cli/values.h"
#include "core/result.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace perdure::cli {

namespace detail {
template <class Field>
struct Held {
  using type = Field;
};
template <class T>
struct Held<std::optional<T>> {
  using type = T;
};
template <class T>
struct Held<std::vector<T>> {
  using type = T;
};

/// What `read` makes of the text, in the type of its field, which may be narrower. Errors: usage.
template <class Value, class T>
Result<Value> value_of(const std::function<Result<T>(const std::string&, const std::string&)>& read,
                       const std::string& text, const std::string& flag) {
  auto value = read(text, flag);
  if (!value) return value.error();
  if constexpr (std::integral<T> && std::integral<Value> && !std::same_as<T, Value>)
    if (!std::in_range<Value>(*value))
      return usage("out of range", flag + " " + text,
                   "give " + std::to_string(std::numeric_limits<Value>::max()) + " or less");
  return static_cast<Value>(std::move(value).value());
}
}  // namespace detail

/// The flags of one command. Fields must outlive it.
class FlagTable {
 public:
  FlagTable(std::string command, std::string purpose);
  ~FlagTable();
  FlagTable(const FlagTable&) = delete;
  FlagTable& operator=(const FlagTable&) = delete;

  /// The heading in the help of the flags that follow.
  void group(std::string name) { group_ = std::move(name); }

  /// A flag with a value. A vector as its field holds that value alone.
  template <class T, class Field>
  void add(const char* name, Kind<T> kind, Field& field, const char* help) {
    using Value = typename detail::Held<Field>::type;
    const auto fill = [read = kind.read, flag = std::string(name),
                       &field](const std::string& text) -> Result<void> {
      auto value = detail::value_of<Value>(read, text, flag);
      if (!value) return value.error();
      field = Field{std::move(value).value()};
      return {};
    };
    add_option({name, std::move(kind.name), std::move(kind.choices), help, fill,
                std::is_same_v<Value, std::string>});
  }

  /// A flag with a list: 64,256. Of choices the list keeps each once.
  template <class T, class Value>
  void add_list(const char* name, Kind<T> kind, std::vector<Value>& field, const char* help) {
    const auto fill = [read = kind.read, once = !kind.choices.empty(), flag = std::string(name),
                       &field](const std::string& text) -> Result<void> {
      for (const std::string& part : parts_of(text)) {
        auto value = detail::value_of<Value>(read, part, flag);
        if (!value) return value.error();
        if (!once || std::ranges::find(field, *value) == field.end()) field.push_back(*value);
      }
      return {};
    };
    add_option({name, std::move(kind.name), std::move(kind.choices), help, fill,
                std::is_same_v<Value, std::string>});
  }

  /// A flag with a text that may be given several times.
  void add_repeated(const char* name, const Kind<std::string>& kind,
                    std::vector<std::string>& field, const char* help);

  /// A flag without a value, which sets its field to `value`.
  void add_switch(const char* name, bool& field, const char* help, bool value = true);

  /// Arguments without a flag.
  void add_words(const char* name, std::vector<std::string>& field, const char* help);

  /// Parses (without the program and the command) and fills in texts. Returns an exit code where
  /// the command ends with that: the help is printed, or an error is reported.
  [[nodiscard]] std::optional<int> parse(const std::vector<std::string>& arguments);

  /// Fills in everything else that was given. Errors: usage.
  [[nodiscard]] Result<void> assign() const;

  /// `parse` and `assign`, for a command whose defaults depend on nothing.
  [[nodiscard]] std::optional<int> read(const std::vector<std::string>& arguments);

  [[nodiscard]] bool given(std::string_view name) const;
  /// The flag as it was given: "--keys random:16"; its name alone if it was not.
  [[nodiscard]] std::string written(std::string_view name) const;
  /// The first flag of a group that was given.
  [[nodiscard]] std::optional<std::string> first_given(std::string_view group) const;

  /// Every flag with its command, name, kind, choices, whether it repeats, group and help.
  [[nodiscard]] nlohmann::ordered_json json() const;

 private:
  struct Flag {
    std::string name;
    std::string kind;
    std::vector<std::string> choices;
    std::string help;
    std::function<Result<void>(const std::string& text)> fill;
    bool is_text = false;
    bool repeats = false;
    std::string group{};
    CLI::Option* option = nullptr;
  };

  static std::vector<std::string> parts_of(const std::string& text);
  void add_option(Flag flag);
  [[nodiscard]] const Flag& find(std::string_view name) const;
  [[nodiscard]] Result<void> fill(bool texts) const;
  [[nodiscard]] std::optional<Error> refusal(const std::vector<std::string>& arguments,
                                             bool& help_printed);

  std::unique_ptr<CLI::App> app_;
  std::string group_;
  std::vector<Flag> flags_;
};

}  // namespace perdure::cli
