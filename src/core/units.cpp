#include "core/units.h"

#include <array>
#include <limits>
#include <optional>
#include <span>

namespace perdure {
namespace {

__extension__ using Wide = unsigned __int128;

struct Unit {
  std::string_view name;
  std::uint64_t factor;
};

constexpr std::uint64_t kilo = 1000;
constexpr std::uint64_t kibi = 1024;

// Listed from the largest, the spelling to print first: format() takes the first that divides.
constexpr std::array<Unit, 5> count_units{{{"T", kilo* kilo* kilo* kilo},
                                           {"G", kilo* kilo* kilo},
                                           {"M", kilo* kilo},
                                           {"k", kilo},
                                           {"K", kilo}}};
constexpr std::array<Unit, 14> byte_units{{{"TiB", kibi* kibi* kibi* kibi},
                                           {"GiB", kibi* kibi* kibi},
                                           {"MiB", kibi* kibi},
                                           {"KiB", kibi},
                                           {"B", 1},
                                           {"T", kibi* kibi* kibi* kibi},
                                           {"G", kibi* kibi* kibi},
                                           {"M", kibi* kibi},
                                           {"K", kibi},
                                           {"k", kibi},
                                           {"TB", kilo* kilo* kilo* kilo},
                                           {"GB", kilo* kilo* kilo},
                                           {"MB", kilo* kilo},
                                           {"KB", kilo}}};

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// A decimal number digits x 10^exponent at the front of `text`, which is advanced past it.
struct Decimal {
  Wide digits = 0;
  int exponent = 0;
};

constexpr Wide digits_limit = Wide{1} << 100;

std::optional<Decimal> take_decimal(std::string_view& text) {
  Decimal number;
  bool any = false;
  bool point = false;
  bool after_digit = false;
  std::size_t at = 0;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (is_digit(c)) {
      if (number.digits >= digits_limit) return std::nullopt;
      number.digits = number.digits * 10 + static_cast<unsigned>(c - '0');
      if (point) --number.exponent;
      any = after_digit = true;
    } else if (c == '_' && after_digit && at + 1 < text.size() && is_digit(text[at + 1])) {
      after_digit = false;
    } else if (c == '.' && !point && after_digit && at + 1 < text.size() &&
               is_digit(text[at + 1])) {
      point = true;
      after_digit = false;
    } else {
      break;
    }
  }
  if (!any) return std::nullopt;
  text.remove_prefix(at);
  if (!text.empty() && (text[0] == 'e' || text[0] == 'E')) {
    int exponent = 0;
    std::size_t end = 1;
    for (; end < text.size() && is_digit(text[end]); ++end) {
      exponent = exponent * 10 + (text[end] - '0');
      if (exponent > 30) return std::nullopt;
    }
    if (end == 1) return std::nullopt;
    number.exponent += exponent;
    text.remove_prefix(end);
  }
  return number;
}

/// digits x 10^exponent x factor, if that is a whole number of 64 bits.
std::optional<std::uint64_t> whole(Decimal number, std::uint64_t factor) {
  constexpr Wide limit = std::numeric_limits<std::uint64_t>::max();
  if (number.digits == 0) return 0;
  for (; number.exponent < 0 && number.digits % 10 == 0; ++number.exponent) number.digits /= 10;
  Wide scale = factor;
  for (; number.exponent < 0; ++number.exponent) {
    // Ten divides the product only through the unit: 1.5k = 15 x 1000 / 10.
    if (scale % 10 == 0) {
      scale /= 10;
    } else if (scale % 2 == 0 && number.digits % 5 == 0) {
      scale /= 2;
      number.digits /= 5;
    } else {
      return std::nullopt;
    }
  }
  for (; number.exponent > 0; --number.exponent) {
    scale *= 10;
    if (scale > limit) return std::nullopt;
  }
  if (number.digits > limit / scale) return std::nullopt;
  return static_cast<std::uint64_t>(number.digits * scale);
}

Error no_number(std::string_view text, std::string_view where, std::string_view what,
                std::string_view remedy) {
  return {ErrorCode::usage, "'" + std::string(text) + "' is not " + std::string(what),
          std::string(where), std::string(remedy)};
}

Result<std::uint64_t> parse(std::string_view text, std::string_view where,
                            std::span<const Unit> units, std::string_view what,
                            std::string_view remedy) {
  std::string_view rest = text;
  const std::optional<Decimal> number = take_decimal(rest);
  if (!number) return no_number(text, where, what, remedy);
  std::uint64_t factor = rest.empty() ? 1 : 0;
  for (const Unit& unit : units)
    if (rest == unit.name) factor = unit.factor;
  if (factor == 0) return no_number(text, where, what, remedy);
  const std::optional<std::uint64_t> value = whole(*number, factor);
  if (!value) return no_number(text, where, "a whole number below 2^64", remedy);
  return *value;
}

std::string format(std::uint64_t value, std::span<const Unit> units, std::string_view none) {
  if (value != 0)
    for (const Unit& unit : units)
      if (value % unit.factor == 0)
        return std::to_string(value / unit.factor) + std::string(unit.name);
  return std::to_string(value) + std::string(none);
}

}  // namespace

Result<std::uint64_t> parse_count(std::string_view text, std::string_view where) {
  return parse(text, where, count_units, "a count",
               "write a number, with k, M or G for powers of 1000, as in 10M or 1_000_000");
}

Result<std::uint64_t> parse_bytes(std::string_view text, std::string_view where) {
  return parse(text, where, byte_units, "a size in bytes",
               "write a number with KiB, MiB or GiB, as in 64KiB or 1G");
}

std::string format_count(std::uint64_t count) { return format(count, count_units, ""); }

std::string format_bytes(std::uint64_t bytes) { return format(bytes, byte_units, "B"); }

}  // namespace perdure
