#include "pm/simd.h"

#include <immintrin.h>

#include <algorithm>
#include <bit>

namespace perdure::pm {
namespace detail {

namespace {

bool detect_pext(SimdLevel level) noexcept {
  __builtin_cpu_init();
  return level != SimdLevel::sse2 && __builtin_cpu_supports("bmi2");
}

}  // namespace

SimdLevel simd_level = detect_simd_level();
bool has_pext = detect_pext(simd_level);

std::uint64_t extract_bits_plain(std::uint64_t word, std::uint64_t mask) noexcept {
  std::uint64_t bits = 0;
  for (unsigned to = 0; mask != 0; mask &= mask - 1, ++to)
    bits |= (word >> std::countr_zero(mask) & 1) << to;
  return bits;
}

PERDURE_RACY_READ unsigned count_up_to_plain(const std::uint64_t* words, unsigned n,
                                             std::uint64_t limit) noexcept {
  unsigned count = 0;
  for (unsigned i = 0; i < n; ++i) count += words[i] <= limit;
  return count;
}

__attribute__((target("avx2,popcnt"))) PERDURE_RACY_READ unsigned count_up_to_avx2(
    const std::uint64_t* words, unsigned n, std::uint64_t limit) noexcept {
  // Compares as signed numbers, with the highest bit of both sides turned.
  const __m256i turn = _mm256_set1_epi64x(static_cast<long long>(std::uint64_t{1} << 63));
  const __m256i bound = _mm256_xor_si256(_mm256_set1_epi64x(static_cast<long long>(limit)), turn);
  unsigned above = 0;
  for (unsigned i = 0; i < (n + 3) / 4; ++i) {
    const __m256i four = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(words) + i);
    const __m256i greater = _mm256_cmpgt_epi64(_mm256_xor_si256(four, turn), bound);
    above |= static_cast<unsigned>(_mm256_movemask_pd(_mm256_castsi256_pd(greater))) << (4 * i);
  }
  return n - static_cast<unsigned>(_mm_popcnt_u32(above & ((1U << n) - 1)));
}

namespace {

template <unsigned blocks>
__attribute__((target("avx512f"))) void rank_blocks(const std::int32_t* values, unsigned count,
                                                    std::int32_t* ranks) noexcept {
  const __m512i one = _mm512_set1_epi32(1);
  __m512i mine[blocks];
  __m512i rank[blocks];
  for (unsigned b = 0; b < blocks; ++b) {
    mine[b] = _mm512_loadu_si512(values + 16 * b);
    rank[b] = _mm512_setzero_si512();
  }
  for (unsigned i = 0; i < count; ++i) {
    const __m512i other = _mm512_set1_epi32(values[i]);
    for (unsigned b = 0; b < blocks; ++b)
      rank[b] =
          _mm512_mask_add_epi32(rank[b], _mm512_cmpgt_epi32_mask(mine[b], other), rank[b], one);
  }
  for (unsigned b = 0; b < blocks; ++b) _mm512_storeu_si512(ranks + 16 * b, rank[b]);
}

}  // namespace

void rank_avx512(const std::int32_t* values, unsigned count, std::int32_t* ranks) noexcept {
  switch ((count + 15) / 16) {
    case 1:
      return rank_blocks<1>(values, count, ranks);
    case 2:
      return rank_blocks<2>(values, count, ranks);
    case 3:
      return rank_blocks<3>(values, count, ranks);
    default:
      return rank_blocks<4>(values, count, ranks);
  }
}

}  // namespace detail

SimdLevel detect_simd_level() noexcept {
  if (detail::instruction::simulated) return SimdLevel::sse2;
  static const SimdLevel level = [] {
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512bw")) return SimdLevel::avx512;
    return __builtin_cpu_supports("avx2") ? SimdLevel::avx2 : SimdLevel::sse2;
  }();
  return level;
}

void configure_simd(SimdLevel level) noexcept {
  detail::simd_level = std::min(level, detect_simd_level());
  detail::has_pext = detail::detect_pext(detail::simd_level);
}

const char* name_of(SimdLevel level) noexcept {
  switch (level) {
    case SimdLevel::sse2:
      return "sse2";
    case SimdLevel::avx2:
      return "avx2";
    case SimdLevel::avx512:
      return "avx512";
  }
  return "?";
}

}  // namespace perdure::pm
