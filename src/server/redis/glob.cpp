#include "server/redis/glob.h"

#include <algorithm>
#include <cstddef>

namespace perdure::server::redis {
namespace {

unsigned char byte_of(char c) noexcept { return static_cast<unsigned char>(c); }

/// Whether the set that begins at pattern[at], after its bracket, has `c`; `at` moves to its end.
/// A set that is not closed ends with the pattern.
bool set_has(std::string_view pattern, std::size_t& at, char c) noexcept {
  const bool negated = at < pattern.size() && pattern[at] == '^';
  if (negated) ++at;
  bool has = false;
  while (at < pattern.size() && pattern[at] != ']') {
    if (pattern[at] == '\\' && at + 1 < pattern.size()) {
      has = has || pattern[at + 1] == c;
      at += 2;
    } else if (at + 2 < pattern.size() && pattern[at + 1] == '-') {
      const auto [low, high] = std::minmax({byte_of(pattern[at]), byte_of(pattern[at + 2])});
      has = has || (byte_of(c) >= low && byte_of(c) <= high);
      at += 3;
    } else {
      has = has || pattern[at] == c;
      ++at;
    }
  }
  if (at < pattern.size()) ++at;
  return has != negated;
}

/// Whether the element of the pattern at `at`, which is no star, matches `c`; moves behind it.
bool element_matches(std::string_view pattern, std::size_t& at, char c) noexcept {
  const char element = pattern[at++];
  if (element == '?') return true;
  if (element == '[') return set_has(pattern, at, c);
  if (element == '\\' && at < pattern.size()) return pattern[at++] == c;
  return element == c;
}

}  // namespace

// A failed match goes back to the last star only, which then takes one byte more: an earlier star
// could not do better.
bool matches_glob(std::string_view pattern, std::string_view text) noexcept {
  constexpr std::size_t none = std::string_view::npos;
  std::size_t at = 0;
  std::size_t in_text = 0;
  std::size_t after_star = none;
  std::size_t star_ends = 0;
  while (in_text < text.size()) {
    if (at < pattern.size() && pattern[at] == '*') {
      after_star = ++at;
      star_ends = in_text;
    } else if (at < pattern.size() && element_matches(pattern, at, text[in_text])) {
      ++in_text;
    } else if (after_star != none) {
      at = after_star;
      in_text = ++star_ends;
    } else {
      return false;
    }
  }
  while (at < pattern.size() && pattern[at] == '*') ++at;
  return at == pattern.size();
}

}  // namespace perdure::server::redis
