#include "cli/values.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "cli/format.h"
#include "core/suggest.h"
#include "core/units.h"

namespace perdure::cli {
namespace {

/// `error`, unless the text is a list, of which this flag takes one.
Error refused(Error error, const std::string& text, const std::string& flag) {
  if (text.find(',') == std::string::npos) return error;
  return usage("takes one value", flag, "give one of them");
}

/// `value`, if it is in the range. The limits are printed as the flag takes them.
template <class T, class Format>
Result<T> within(T value, T least, T most, const std::string& text, const std::string& flag,
                 Format format) {
  if (value >= least && value <= most) return value;
  using Limits = std::numeric_limits<T>;
  const bool endless = most == (Limits::has_infinity ? Limits::infinity() : Limits::max());
  return usage("out of range", flag + " " + text,
               "give " + format(least) + (endless ? " or more" : " to " + format(most)));
}

std::string decimal(double value) { return print("%g", value); }

}  // namespace

Error not_one_of(std::string_view value, std::string_view where,
                 std::span<const std::string> choices) {
  std::string list;
  for (const std::string& choice : choices) list += (list.empty() ? "" : ", ") + choice;
  return {ErrorCode::usage, "'" + std::string(value) + "' is not known", std::string(where),
          suggestion(value, choices, "give one of " + list)};
}

Kind<std::string> text(std::string name, std::vector<std::string> choices) {
  return {std::move(name),
          [](const std::string& given, const std::string&) -> Result<std::string> { return given; },
          std::move(choices)};
}

Kind<std::uint64_t> count(std::uint64_t least, std::uint64_t most) {
  return {"count", [=](const std::string& text, const std::string& flag) -> Result<std::uint64_t> {
            const auto value = parse_count(text, flag);
            if (!value) return refused(value.error(), text, flag);
            return within(*value, least, most, text, flag,
                          [](std::uint64_t limit) { return std::to_string(limit); });
          }};
}

Kind<std::uint64_t> bytes(std::uint64_t least, std::uint64_t most) {
  return {"bytes", [=](const std::string& text, const std::string& flag) -> Result<std::uint64_t> {
            const auto value = parse_bytes(text, flag);
            if (!value) return refused(value.error(), text, flag);
            return within(*value, least, most, text, flag, format_bytes);
          }};
}

Kind<double> number(double least, double most) {
  return {"number", [=](const std::string& text, const std::string& flag) -> Result<double> {
            const char* const end = text.data() + text.size();
            double value = 0;
            const auto read = std::from_chars(text.data(), end, value);
            if (read.ec != std::errc{} || read.ptr != end || !std::isfinite(value))
              return refused(usage("'" + text + "' is not a number", flag, "write it as 5 or 0.5"),
                             text, flag);
            return within(value, least, most, text, flag, decimal);
          }};
}

Result<std::size_t> find_choice(const std::string& text, const std::string& flag,
                                std::span<const std::string> names) {
  const auto found = std::ranges::find(names, text);
  if (found == names.end()) return refused(not_one_of(text, flag, names), text, flag);
  return static_cast<std::size_t>(found - names.begin());
}

}  // namespace perdure::cli
