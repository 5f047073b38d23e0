// What an insertion does to the partial keys of a trie's node, in few instructions: for AVX-512 and
// BMI2, in assembly for the reasons in simd.h. Keys are of one byte or of two, 32 at the most; the
// caller holds the lock of the node that has them.
#pragma once

#include <cstdint>

#include "pm/simd.h"
#include "pm/wide_registers.h"

namespace perdure::pm::detail {

/// The lowest `count` bits, all from 32 on.
[[nodiscard]] inline std::uint32_t low_bits(unsigned count) noexcept {
  std::uint32_t bits = 0;
  asm("bzhi %1, %2, %0" : "=r"(bits) : "r"(count), "r"(~std::uint32_t{0}) : "cc");
  return bits;
}

/// Bit i is set where keys[i] has of the bits of `mask` those of `value` and no others, among the
/// keys whose bit is set in `valid`.
[[nodiscard]] inline std::uint32_t match_masked_avx512(const std::uint8_t* keys,
                                                       std::uint32_t valid, std::uint32_t mask,
                                                       std::uint32_t value) noexcept {
  std::uint32_t equal = 0;
  asm volatile(
      "kmovd %2, %%k1\n\t"
      "vmovdqu8 (%1), %%zmm16%{%%k1%}%{z%}\n\t"
      "vpbroadcastb %4, %%zmm17\n\t"
      "vpxord %%zmm17, %%zmm16, %%zmm16\n\t"
      "vpbroadcastb %3, %%zmm17\n\t"
      "vptestnmb %%zmm17, %%zmm16, %%k1%{%%k1%}\n\t"
      "kmovd %%k1, %0"
      : "=r"(equal)
      : "r"(keys), "r"(valid), "r"(mask), "r"(value)
      : PERDURE_WIDE_REGISTERS "memory");
  return equal;
}
[[nodiscard]] inline std::uint32_t match_masked_avx512(const std::uint16_t* keys,
                                                       std::uint32_t valid, std::uint32_t mask,
                                                       std::uint32_t value) noexcept {
  std::uint32_t equal = 0;
  asm volatile(
      "kmovd %2, %%k1\n\t"
      "vmovdqu16 (%1), %%zmm16%{%%k1%}%{z%}\n\t"
      "vpbroadcastw %4, %%zmm17\n\t"
      "vpxord %%zmm17, %%zmm16, %%zmm16\n\t"
      "vpbroadcastw %3, %%zmm17\n\t"
      "vptestnmw %%zmm17, %%zmm16, %%k1%{%%k1%}\n\t"
      "kmovd %%k1, %0"
      : "=r"(equal)
      : "r"(keys), "r"(valid), "r"(mask), "r"(value)
      : PERDURE_WIDE_REGISTERS "memory");
  return equal;
}

/// Where keys go, and what becomes of them. Lanes are those of the keys as they will be.
struct KeyShift {
  std::uint32_t before;  ///< lanes of the keys that stay where they are
  std::uint32_t behind;  ///< of those that move by one
  std::uint32_t gap;     ///< of the new key, between them
  std::uint32_t high;    ///< the bits that move up by one place
  std::uint32_t marked;  ///< lanes of the keys that get
  std::uint32_t mark;    ///< these bits
  std::uint32_t fresh;   ///< the new key
};

[[gnu::always_inline]] inline void shift_keys_avx512(const std::uint8_t* from, const KeyShift& by,
                                                     std::uint8_t* to) noexcept {
  asm volatile(
      "kmovd %2, %%k1\n\t"
      "kmovd %3, %%k2\n\t"
      "vmovdqu8 (%0), %%zmm16%{%%k1%}%{z%}\n\t"
      "vmovdqu8 -1(%0), %%zmm16%{%%k2%}\n\t"
      "vpbroadcastb %5, %%zmm17\n\t"
      "vpandd %%zmm16, %%zmm17, %%zmm17\n\t"
      "vpaddb %%zmm17, %%zmm16, %%zmm16\n\t"
      "kord %%k1, %%k2, %%k2\n\t"
      "kmovd %6, %%k1\n\t"
      "vpbroadcastb %7, %%zmm17%{%%k1%}%{z%}\n\t"
      "vpord %%zmm17, %%zmm16, %%zmm16\n\t"
      "kmovd %4, %%k1\n\t"
      "vpbroadcastb %8, %%zmm16%{%%k1%}\n\t"
      "kord %%k1, %%k2, %%k2\n\t"
      "vmovdqu8 %%zmm16, (%1)%{%%k2%}"
      :
      : "r"(from), "r"(to), "r"(by.before), "r"(by.behind), "r"(by.gap), "r"(by.high),
        "r"(by.marked), "r"(by.mark), "r"(by.fresh)
      : PERDURE_WIDE_REGISTERS "memory");
}
[[gnu::always_inline]] inline void shift_keys_avx512(const std::uint16_t* from, const KeyShift& by,
                                                     std::uint16_t* to) noexcept {
  asm volatile(
      "kmovd %2, %%k1\n\t"
      "kmovd %3, %%k2\n\t"
      "vmovdqu16 (%0), %%zmm16%{%%k1%}%{z%}\n\t"
      "vmovdqu16 -2(%0), %%zmm16%{%%k2%}\n\t"
      "vpbroadcastw %5, %%zmm17\n\t"
      "vpandd %%zmm16, %%zmm17, %%zmm17\n\t"
      "vpaddw %%zmm17, %%zmm16, %%zmm16\n\t"
      "kord %%k1, %%k2, %%k2\n\t"
      "kmovd %6, %%k1\n\t"
      "vpbroadcastw %7, %%zmm17%{%%k1%}%{z%}\n\t"
      "vpord %%zmm17, %%zmm16, %%zmm16\n\t"
      "kmovd %4, %%k1\n\t"
      "vpbroadcastw %8, %%zmm16%{%%k1%}\n\t"
      "kord %%k1, %%k2, %%k2\n\t"
      "vmovdqu16 %%zmm16, (%1)%{%%k2%}"
      :
      : "r"(from), "r"(to), "r"(by.before), "r"(by.behind), "r"(by.gap), "r"(by.high),
        "r"(by.marked), "r"(by.mark), "r"(by.fresh)
      : PERDURE_WIDE_REGISTERS "memory");
}

}  // namespace perdure::pm::detail
