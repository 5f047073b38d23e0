// A key as the bits that the trie branches on: bit 0 is the highest of the first byte.
//
// K1  of two keys the one with a zero at the first bit where they differ is the smaller, and two
//     keys that differ do so at some bit. For byte strings that takes more than their bytes,
//     because one may begin another: after max_key_bytes bytes, zero from the string's end on,
//     follows the length. It decides only between strings that differ in zero bytes at the end.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "index/index.h"

namespace perdure::hot {

/// Where two keys do not differ.
inline constexpr unsigned no_bit = ~0U;

template <class Keys>
class KeyBits;

template <>
class KeyBits<IntegerKeys> {
 public:
  explicit KeyBits(std::uint64_t key) noexcept : key_(key) {}
  /// The eight bytes from `byte` on, the first on top. Integers are one such word.
  [[nodiscard]] std::uint64_t word(unsigned /*byte: 0*/) const noexcept { return key_; }
  [[nodiscard]] std::uint8_t byte(unsigned at) const noexcept {
    return static_cast<std::uint8_t>(key_ >> (56 - 8 * at));
  }
  [[nodiscard]] static unsigned first_difference(const KeyBits& a, const KeyBits& b) noexcept {
    return a.key_ == b.key_ ? no_bit : static_cast<unsigned>(std::countl_zero(a.key_ ^ b.key_));
  }

 private:
  std::uint64_t key_;
};

template <>
class KeyBits<ByteKeys> {
 public:
  explicit KeyBits(std::string_view key) noexcept : key_(key) {}
  [[nodiscard]] std::uint64_t word(unsigned byte) const noexcept {
    if (byte + 8 <= key_.size()) [[likely]] {
      std::uint64_t word = 0;
      std::memcpy(&word, key_.data() + byte, 8);
      return __builtin_bswap64(word);
    }
    std::uint64_t word = 0;
    for (unsigned i = 0; i < 8; ++i) word = word << 8 | this->byte(byte + i);
    return word;
  }
  [[nodiscard]] std::uint8_t byte(unsigned at) const noexcept {
    if (at < key_.size()) return static_cast<std::uint8_t>(key_[at]);
    if (at < max_key_bytes) return 0;
    return static_cast<std::uint8_t>(at == max_key_bytes       ? key_.size() >> 8
                                     : at == max_key_bytes + 1 ? key_.size()
                                                               : 0);
  }
  [[nodiscard]] static unsigned first_difference(const KeyBits& a, const KeyBits& b) noexcept {
    const auto longest = static_cast<unsigned>(std::max(a.key_.size(), b.key_.size()));
    for (unsigned at = 0; at < longest; at += 8)
      if (const std::uint64_t differs = a.word(at) ^ b.word(at); differs != 0)
        return 8 * at + static_cast<unsigned>(std::countl_zero(differs));
    const auto lengths = static_cast<std::uint16_t>(a.key_.size() ^ b.key_.size());
    return lengths == 0 ? no_bit
                        : static_cast<unsigned>(8 * max_key_bytes) +
                              static_cast<unsigned>(std::countl_zero(lengths));
  }

 private:
  std::string_view key_;
};

static_assert(max_key_bytes % 8 == 0, "no word of first_difference reaches the length");

/// The bit of `key` at `position`.
template <class Keys>
[[nodiscard]] bool bit_at(const KeyBits<Keys>& key, unsigned position) noexcept {
  return (key.byte(position / 8) >> (7 - position % 8) & 1) != 0;
}

}  // namespace perdure::hot
