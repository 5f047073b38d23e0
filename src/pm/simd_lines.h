// Counting and matching over the words of cache lines; what simd.h says holds here, too.
#pragma once

#include <atomic>
#include <cstdint>

#include "pm/simd.h"

namespace perdure::pm {
namespace detail {

[[nodiscard]] unsigned count_words32_plain(const std::uint32_t* words, unsigned n,
                                           std::uint32_t limit) noexcept;
/// Bit i is set where words[i] <= limit, i < 32.
[[nodiscard]] std::uint32_t words32_up_to_avx2(const std::uint32_t* words,
                                               std::uint32_t limit) noexcept;

/// How many of the words from `first` on are <= limit. Assembly: see simd.h.
template <unsigned first>
[[nodiscard]] inline unsigned count_words32_avx512(const void* words,
                                                   std::uint32_t limit) noexcept {
  std::uint32_t up_to = 0;
  asm volatile(
      "vpbroadcastd %2, %%zmm16\n\t"
      "vpcmpnltud (%1), %%zmm16, %%k1\n\t"
      "vpcmpnltud 64(%1), %%zmm16, %%k2\n\t"
      "kunpckwd %%k1, %%k2, %%k1\n\t"
      "kmovd %%k1, %0\n\t"
      "and %3, %0\n\t"
      "popcnt %0, %0"
      : "=&r"(up_to)
      : "r"(words), "r"(limit), "i"(~std::uint32_t{0} << first)
      : PERDURE_WIDE_REGISTERS "cc", "memory");
  return up_to;
}

[[nodiscard]] std::uint32_t match_line_plain(const std::uint64_t* words,
                                             std::uint64_t wanted) noexcept;

/// Bit i is set where word i of a cache line is `wanted`.
[[nodiscard]] inline std::uint32_t match_line_avx512(const void* line,
                                                     std::uint64_t wanted) noexcept {
  std::uint32_t found = 0;
  asm volatile(
      "vpbroadcastq %2, %%zmm16\n\t"
      "vpcmpeqq (%1), %%zmm16, %%k1\n\t"
      "kmovd %%k1, %0"
      : "=r"(found)
      : "r"(line), "r"(wanted)
      : PERDURE_WIDE_REGISTERS "memory");
  return found & 0xff;
}

}  // namespace detail

/// Bit i is set where word i of a cache line is `wanted`, i < 8.
[[nodiscard, gnu::always_inline]] inline std::uint32_t match_line(const void* line,
                                                                  std::uint64_t wanted) noexcept {
  const auto* const words = static_cast<const std::uint64_t*>(line);
  if constexpr (detail::instruction::simulated) {
    detail::instruction::note_read(words, 8 * sizeof *words);
    return detail::match_line_plain(words, wanted);
  }
  if (detail::simd_level == SimdLevel::avx512) return detail::match_line_avx512(line, wanted);
  return detail::match_line_plain(words, wanted);
}

/// How many of words[first .. 31] are <= limit, in two cache lines of which the words before
/// `first` are something else.
template <unsigned first>
[[nodiscard, gnu::always_inline]] inline unsigned count_words32_up_to(
    const void* lines, std::uint32_t limit) noexcept {
  static_assert(first < 32);
  constexpr unsigned n = 32 - first;
  const auto* const words = static_cast<const std::uint32_t*>(lines);
  if constexpr (detail::instruction::simulated) {
    detail::instruction::note_read(words + first, n * sizeof *words);
    return detail::count_words32_plain(words + first, n, limit);
  }
  if (detail::simd_level == SimdLevel::avx512)
    return detail::count_words32_avx512<first>(lines, limit);
  if (detail::simd_level == SimdLevel::avx2)
    return count_bits(detail::words32_up_to_avx2(words, limit) & ~std::uint32_t{0} << first);
  return detail::count_words32_plain(words + first, n, limit);
}

}  // namespace perdure::pm
