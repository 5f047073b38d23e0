#include "support/samples.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <set>

namespace perdure::testing {
namespace {

template <class Key>
void shuffle(std::vector<Key>& keys, Rng& rng) {
  for (std::size_t i = keys.size(); i > 1; --i) std::swap(keys[i - 1], keys[rng.below(i)]);
}

std::vector<std::uint64_t> hard_integers() {
  std::vector<std::uint64_t> keys;
  for (const unsigned bit : {7U, 8U, 15U, 16U, 31U, 32U, 47U, 48U, 62U, 63U}) {
    const std::uint64_t power = 1ULL << bit;
    keys.insert(keys.end(), {power - 1, power, power + 1});
  }
  keys.insert(keys.end(), {0, 1, 2, ~0ULL, ~0ULL - 1, ~0ULL - 2, 0x00ff00ff00ff00ffULL,
                           0xff00000000000000ULL, 0x0000000000ff0000ULL});
  return keys;
}

std::vector<std::string> hard_strings() {
  std::vector<std::string> keys{"",
                                "a",
                                "b",
                                "aa",
                                "ab",
                                std::string(1, '\x7f'),
                                std::string(1, '\x80'),
                                std::string(1, '\xff')};
  for (const std::size_t length :
       {1U, 2U, 7U, 8U, 9U, 15U, 16U, 17U, 63U, 64U, 65U, 255U, 256U, 257U, 1023U, 2047U, 2048U}) {
    keys.emplace_back(length, '\0');
    keys.emplace_back(length, '\xff');
    std::string prefix(length, 'p');  // shares all but its last byte with its siblings
    keys.push_back(prefix);
    prefix.back() = '\0';
    keys.push_back(prefix);
    prefix.back() = '\x80';
    keys.push_back(prefix);
  }
  return keys;
}

/// The stamp in digits and a colon, then `fill` letters that follow from it.
std::string filled(std::uint64_t stamp, std::size_t fill) {
  std::string text = std::to_string(stamp) + ":";
  text.append(fill, static_cast<char>('a' + mix64(stamp) % 26));
  return text;
}

std::uint64_t stamp_before_colon(std::string_view value) {
  std::uint64_t stamp = 0;
  const auto colon = value.find(':');
  if (colon == std::string_view::npos) return bad_stamp;
  const auto [end, failure] = std::from_chars(value.data(), value.data() + colon, stamp);
  return failure == std::errc{} && end == value.data() + colon ? stamp : bad_stamp;
}

}  // namespace

const char* name_of(Shape shape) noexcept {
  switch (shape) {
    case Shape::dense:
      return "dense";
    case Shape::adversarial:
      return "adversarial";
    case Shape::random:
      return "random";
  }
  return "?";
}

std::vector<std::uint64_t> Samples<IntegerKeys>::universe(Shape shape, std::size_t size, Rng& rng) {
  std::set<Key> chosen;
  if (shape == Shape::adversarial) {
    const auto hard = hard_integers();
    chosen.insert(hard.begin(), hard.end());
  }
  for (std::uint64_t i = 0; chosen.size() < size; ++i)
    chosen.insert(shape == Shape::dense ? i : shape == Shape::random ? rng() : rng() & 0xffff);
  std::vector<Key> keys(chosen.begin(), chosen.end());
  shuffle(keys, rng);
  return keys;
}

std::vector<std::string> Samples<ByteKeys>::universe(Shape shape, std::size_t size, Rng& rng) {
  std::set<Key> chosen;
  if (shape == Shape::adversarial) {
    const auto hard = hard_strings();
    chosen.insert(hard.begin(), hard.end());
  }
  for (std::uint64_t i = 0; chosen.size() < size; ++i) {
    if (shape == Shape::dense) {
      chosen.insert(numbered(i));
      continue;
    }
    // A prefix of a few bytes from a small alphabet makes shared prefixes and prefixes of others.
    const std::uint64_t limit = shape == Shape::random ? 40 : 12;
    std::string key(rng.below(limit), '\0');
    for (char& c : key)
      c = static_cast<char>(shape == Shape::random ? rng.below(256)
                                                   : std::array{0UL, 1UL, 255UL}[rng.below(3)]);
    if (shape == Shape::adversarial && rng.below(4) == 0)
      key.insert(0, std::string(rng.below(2036), 'q'));
    chosen.insert(key);
  }
  std::vector<Key> keys(chosen.begin(), chosen.end());
  shuffle(keys, rng);
  return keys;
}

std::string Samples<ByteKeys>::numbered(std::uint64_t i) {
  std::string text = "user/000000000000";
  for (std::size_t at = text.size(); i > 0; i /= 10) text[--at] = static_cast<char>('0' + i % 10);
  return text;
}

std::uint64_t Samples<ByteKeys>::number_of(std::string_view key) {
  std::uint64_t number = 0;
  const auto digits = key.substr(std::min<std::size_t>(5, key.size()));
  const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return failure == std::errc{} && end == digits.data() + digits.size() ? number : bad_stamp;
}

std::string Samples<ByteKeys>::value(Rng& rng) {
  const std::uint64_t draw = rng.below(1000);
  const std::size_t length = draw < 50    ? 0
                             : draw < 900 ? rng.below(48)
                             : draw < 995 ? rng.below(1200)
                             : draw < 998 ? max_value_bytes - rng.below(3)
                                          : rng.below(max_value_bytes);
  std::string text(length, static_cast<char>(rng.below(256)));
  for (std::size_t i = 0; i < std::min<std::size_t>(length, 16); ++i)
    text[i] = static_cast<char>(rng.below(256));
  return text;
}

std::string Samples<ByteKeys>::stamped(std::uint64_t stamp) {
  const std::uint64_t mixed = mix64(stamp);
  return filled(stamp, mixed % 100 == 0 ? mixed % 3000 : mixed % 40);
}

std::uint64_t Samples<ByteKeys>::stamp_of(std::string_view value) {
  const std::uint64_t stamp = stamp_before_colon(value);
  return stamp != bad_stamp && stamped(stamp) == value ? stamp : bad_stamp;
}

std::string Samples<SlotKeys>::value(Rng& rng) {
  std::string text(rng.below(4) == 0 ? max_slot_value_bytes : rng.below(max_slot_value_bytes),
                   '\0');
  for (char& c : text) c = static_cast<char>(rng.below(256));
  return text;
}

std::string Samples<SlotKeys>::stamped(std::uint64_t stamp) {
  const std::uint64_t mixed = mix64(stamp);
  return filled(stamp, mixed % 4 == 0 ? 0 : 40 + mixed % 50);
}

std::uint64_t Samples<SlotKeys>::stamp_of(std::string_view value) {
  const std::uint64_t stamp = stamp_before_colon(value);
  return stamp != bad_stamp && stamped(stamp) == value ? stamp : bad_stamp;
}

std::string Samples<ByteKeys>::show(std::string_view key) {
  static constexpr char hex[] = "0123456789abcdef";
  std::string text = "\"";
  for (const char c : key.substr(0, 24)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 32 && byte < 127 && c != '\\')
      text += c;
    else
      text += std::string("\\x") + hex[byte >> 4] + hex[byte & 15];
  }
  text += '"';
  if (key.size() > 24) text += "..(" + std::to_string(key.size()) + " B)";
  return text;
}

}  // namespace perdure::testing
