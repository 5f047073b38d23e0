// The first eight bytes of a byte-string key as an integer that sorts as they do: most comparisons
// of byte keys end here, without touching the text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace perdure {

inline constexpr std::size_t key_prefix_bytes = 8;

/// Big-endian, padded with zero bytes: a < b implies key_prefix(a) <= key_prefix(b). Equal prefixes
/// decide nothing ("a" and "a\0" share one): compare the texts.
[[nodiscard]] inline std::uint64_t key_prefix(std::string_view key) noexcept {
  std::uint64_t word = 0;
  if (key.size() >= key_prefix_bytes)
    std::memcpy(&word, key.data(), key_prefix_bytes);
  else if (!key.empty())
    std::memcpy(&word, key.data(), key.size());
  return __builtin_bswap64(word);
}

}  // namespace perdure
