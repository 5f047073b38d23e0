// What a search does with the partial keys of a node: which of them are subsets of a key's bits.
//
// A node is linked whole and its partial keys never change (node.h N4), so these reads race with
// nothing. They go past the pm:: facade because nobody else needs them; `note_read` tells the
// simulator of each, as pm/simd.h does.
#pragma once

#include <emmintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "index/hot/wide_keys.h"
#include "pm/simd.h"

namespace perdure::hot {

/// Bit i is set where keys[i] has of the bits of `mask` those of `value` and no others, i < 32.
/// Reads 32 keys. Any alignment.
[[nodiscard]] PERDURE_RACY_READ inline std::uint32_t match_masked(const std::uint8_t* keys,
                                                                  std::uint32_t mask,
                                                                  std::uint32_t value) noexcept {
  pm::detail::instruction::note_read(keys, 32);
  const __m128i counted = _mm_set1_epi8(static_cast<char>(mask));
  const __m128i wanted = _mm_set1_epi8(static_cast<char>(value & mask));
  std::uint32_t equal = 0;
#pragma GCC unroll 2
  for (unsigned part = 0; part < 2; ++part) {
    const __m128i block = _mm_loadu_si128(reinterpret_cast<const __m128i*>(keys) + part);
    const __m128i same = _mm_cmpeq_epi8(_mm_and_si128(block, counted), wanted);
    equal |= static_cast<std::uint32_t>(_mm_movemask_epi8(same)) << 16 * part;
  }
  return equal;
}

[[nodiscard]] PERDURE_RACY_READ inline std::uint32_t match_masked(const std::uint16_t* keys,
                                                                  std::uint32_t mask,
                                                                  std::uint32_t value) noexcept {
  pm::detail::instruction::note_read(keys, 64);
  const __m128i counted = _mm_set1_epi16(static_cast<short>(mask));
  const __m128i wanted = _mm_set1_epi16(static_cast<short>(value & mask));
  const auto same = [&](unsigned part) {
    const __m128i block = _mm_loadu_si128(reinterpret_cast<const __m128i*>(keys) + part);
    return _mm_cmpeq_epi16(_mm_and_si128(block, counted), wanted);
  };
  const int low = _mm_movemask_epi8(_mm_packs_epi16(same(0), same(1)));
  const int high = _mm_movemask_epi8(_mm_packs_epi16(same(2), same(3)));
  return static_cast<std::uint32_t>(low) | static_cast<std::uint32_t>(high) << 16;
}

[[nodiscard]] PERDURE_RACY_READ inline std::uint32_t match_masked(const std::uint32_t* keys,
                                                                  std::uint32_t mask,
                                                                  std::uint32_t value) noexcept {
  pm::detail::instruction::note_read(keys, 128);
  const __m128i counted = _mm_set1_epi32(static_cast<int>(mask));
  const __m128i wanted = _mm_set1_epi32(static_cast<int>(value & mask));
  std::uint32_t equal = 0;
  for (unsigned part = 0; part < 8; ++part) {
    const __m128i block = _mm_loadu_si128(reinterpret_cast<const __m128i*>(keys) + part);
    const __m128i same = _mm_cmpeq_epi32(_mm_and_si128(block, counted), wanted);
    equal |= static_cast<std::uint32_t>(_mm_movemask_ps(_mm_castsi128_ps(same))) << 4 * part;
  }
  return equal;
}

/// Bit i is set where `word` has all bits of keys[i], i < 32. Reads 32 keys. Any alignment.
template <class Key>
[[nodiscard]] inline std::uint32_t match_subsets(const Key* keys, std::uint32_t word) noexcept {
  if constexpr (sizeof(Key) > 1)
    if (pm::detail::simd_level == pm::SimdLevel::avx512) return match_subsets_wide(keys, word);
  return match_masked(keys, ~word, 0);
}

/// Copies `count` words, those from the one at `gap` on one place further than the others. `from`
/// and `to` do not overlap. What is in the gap afterwards is undefined.
inline void copy_with_gap(const std::uint64_t* from, unsigned count, unsigned gap,
                          std::uint64_t* to) noexcept {
  if (pm::detail::simd_level == pm::SimdLevel::avx512 && count <= 32)
    return copy_with_gap_wide(from, count, gap, to);
  std::memcpy(to, from, gap * sizeof *to);
  std::memcpy(to + gap + 1, from + gap, (count - gap) * sizeof *to);
}

}  // namespace perdure::hot
