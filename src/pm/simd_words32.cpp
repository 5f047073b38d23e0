#include "pm/simd_words32.h"

#include <immintrin.h>

namespace perdure::pm::detail {

PERDURE_RACY_READ unsigned count_words32_plain(const std::uint32_t* words, unsigned n,
                                               std::uint32_t limit) noexcept {
  unsigned count = 0;
  for (unsigned i = 0; i < n; ++i) count += words[i] <= limit;
  return count;
}

__attribute__((target("avx2"))) PERDURE_RACY_READ unsigned count_words32_avx2(
    const std::uint32_t* words, unsigned n, std::uint32_t limit) noexcept {
  const __m256i bound = _mm256_set1_epi32(static_cast<int>(limit));
  unsigned count = 0;
  for (unsigned i = 0; i < n / 8; ++i) {
    const __m256i eight = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(words) + i);
    // The greater one of limit and word is limit where the word is no greater.
    const __m256i up_to = _mm256_cmpeq_epi32(_mm256_max_epu32(eight, bound), bound);
    const auto bits = static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(up_to)));
    count += static_cast<unsigned>(__builtin_popcount(bits));
  }
  return count;
}

}  // namespace perdure::pm::detail
