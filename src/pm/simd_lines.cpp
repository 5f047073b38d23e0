#include "pm/simd_lines.h"

#include <immintrin.h>

namespace perdure::pm::detail {

PERDURE_RACY_READ unsigned count_words32_plain(const std::uint32_t* words, unsigned n,
                                               std::uint32_t limit) noexcept {
  unsigned count = 0;
  for (unsigned i = 0; i < n; ++i) count += words[i] <= limit;
  return count;
}

PERDURE_RACY_READ std::uint32_t match_line_plain(const std::uint64_t* words,
                                                 std::uint64_t wanted) noexcept {
  std::uint32_t found = 0;
#pragma GCC unroll 8
  for (unsigned i = 0; i < 8; ++i) found |= static_cast<std::uint32_t>(words[i] == wanted) << i;
  return found;
}

__attribute__((target("avx2"))) PERDURE_RACY_READ std::uint32_t words32_up_to_avx2(
    const std::uint32_t* words, std::uint32_t limit) noexcept {
  const __m256i bound = _mm256_set1_epi32(static_cast<int>(limit));
  std::uint32_t up_to = 0;
  for (unsigned i = 0; i < 4; ++i) {
    const __m256i eight = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(words) + i);
    // The greater one of limit and word is limit where the word is no greater.
    const __m256i at_most = _mm256_cmpeq_epi32(_mm256_max_epu32(eight, bound), bound);
    up_to |= static_cast<std::uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(at_most)))
             << (8 * i);
  }
  return up_to;
}

}  // namespace perdure::pm::detail
