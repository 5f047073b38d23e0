// Counting over sorted 32-bit words; what simd.h says holds here, too.
#pragma once

#include <atomic>
#include <cstdint>

#include "pm/simd.h"

namespace perdure::pm {
namespace detail {

[[nodiscard]] unsigned count_words32_plain(const std::uint32_t* words, unsigned n,
                                           std::uint32_t limit) noexcept;
[[nodiscard]] unsigned count_words32_avx2(const std::uint32_t* words, unsigned n,
                                          std::uint32_t limit) noexcept;

/// How many of 32 words are <= limit. Assembly: see simd.h.
[[nodiscard]] inline unsigned count_32_words32_avx512(const void* words,
                                                      std::uint32_t limit) noexcept {
  std::uint32_t up_to = 0;
  asm volatile(
      "vpbroadcastd %2, %%zmm16\n\t"
      "vpcmpnltud (%1), %%zmm16, %%k1\n\t"
      "vpcmpnltud 64(%1), %%zmm16, %%k2\n\t"
      "kunpckwd %%k1, %%k2, %%k1\n\t"
      "kmovd %%k1, %0\n\t"
      "popcnt %0, %0"
      : "=r"(up_to)
      : "r"(words), "r"(limit)
      : PERDURE_WIDE_REGISTERS "cc", "memory");
  return up_to;
}

}  // namespace detail

/// How many of the first n words are <= limit. n is 32 or 64.
template <unsigned n>
[[nodiscard, gnu::always_inline]] inline unsigned count_words32_up_to(
    const std::atomic<std::uint32_t>* words, std::uint32_t limit) noexcept {
  static_assert(n == 32 || n == 64);
  const auto* const plain = reinterpret_cast<const std::uint32_t*>(words);
  if constexpr (detail::instruction::simulated) {
    detail::instruction::note_read(plain, n * sizeof *plain);
    return detail::count_words32_plain(plain, n, limit);
  }
  if (detail::simd_level == SimdLevel::avx512) {
    unsigned count = detail::count_32_words32_avx512(plain, limit);
    if constexpr (n == 64) count += detail::count_32_words32_avx512(plain + 32, limit);
    return count;
  }
  if (detail::simd_level == SimdLevel::avx2) return detail::count_words32_avx2(plain, n, limit);
  return detail::count_words32_plain(plain, n, limit);
}

}  // namespace perdure::pm
