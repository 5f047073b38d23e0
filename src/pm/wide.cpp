#include "pm/wide.h"

#include <immintrin.h>

#include "pm/instructions.h"
#include "pm/persist.h"
#include "pm/simd.h"

namespace perdure::pm {
#ifdef PERDURE_SIM

// One access per line, of which the simulator is told; the bytes themselves are moved unseen.

__attribute__((no_sanitize("thread"))) std::uint64_t load_wide(const void* address,
                                                               std::size_t bytes) noexcept {
  const auto* const from = static_cast<const std::uint64_t*>(address);
  constexpr std::size_t words_per_line = cache_line_bytes / sizeof *from;
  std::uint64_t sum = 0;
  for (std::size_t word = 0; word < bytes / sizeof *from; word += words_per_line) {
    detail::instruction::note_read(from + word, cache_line_bytes);
    sum ^= from[word];
  }
  return sum;
}

__attribute__((no_sanitize("thread"))) void store_wide(void* address, std::uint64_t word,
                                                       std::size_t bytes) noexcept {
  auto* const to = static_cast<volatile std::uint64_t*>(address);
  constexpr std::size_t words_per_line = cache_line_bytes / sizeof word;
  for (std::size_t line = 0; line < bytes / sizeof word; line += words_per_line) {
    detail::instruction::note_write(static_cast<std::uint64_t*>(address) + line, cache_line_bytes);
    for (std::size_t i = 0; i < words_per_line; ++i) to[line + i] = word;
  }
}

void stream_wide(void* address, std::uint64_t word, std::size_t bytes) noexcept {
  auto* const to = static_cast<std::byte*>(address);
  for (std::size_t done = 0; done < bytes; done += cache_line_bytes)
    detail::instruction::stream_line(to + done, word);
}

#else
namespace {

__attribute__((target("avx512f"))) std::uint64_t load_avx512(const std::byte* at,
                                                             std::size_t bytes) noexcept {
  __m512i sum = _mm512_setzero_si512();
  for (const std::byte* const end = at + bytes; at < end; at += cache_line_bytes)
    sum = _mm512_xor_si512(sum, _mm512_load_si512(at));
  asm volatile("" : "+v"(sum));  // all of it is used
  return static_cast<std::uint64_t>(sum[0]);
}

__attribute__((target("avx512f"))) void store_avx512(std::byte* at, std::uint64_t word,
                                                     std::size_t bytes) noexcept {
  const __m512i value = _mm512_set1_epi64(static_cast<long long>(word));
  for (const std::byte* const end = at + bytes; at < end; at += cache_line_bytes)
    _mm512_store_si512(at, value);
}

__attribute__((target("avx512f"))) void stream_avx512(std::byte* at, std::uint64_t word,
                                                      std::size_t bytes) noexcept {
  const __m512i value = _mm512_set1_epi64(static_cast<long long>(word));
  for (const std::byte* const end = at + bytes; at < end; at += cache_line_bytes)
    _mm512_stream_si512(reinterpret_cast<__m512i*>(at), value);
}

__attribute__((target("avx2"))) std::uint64_t load_avx2(const std::byte* at,
                                                        std::size_t bytes) noexcept {
  __m256i sum = _mm256_setzero_si256();
  for (const std::byte* const end = at + bytes; at < end; at += sizeof sum)
    sum = _mm256_xor_si256(sum, _mm256_load_si256(reinterpret_cast<const __m256i*>(at)));
  asm volatile("" : "+x"(sum));
  return static_cast<std::uint64_t>(sum[0]);
}

__attribute__((target("avx2"))) void store_avx2(std::byte* at, std::uint64_t word,
                                                std::size_t bytes) noexcept {
  const __m256i value = _mm256_set1_epi64x(static_cast<long long>(word));
  for (const std::byte* const end = at + bytes; at < end; at += sizeof value)
    _mm256_store_si256(reinterpret_cast<__m256i*>(at), value);
}

__attribute__((target("avx2"))) void stream_avx2(std::byte* at, std::uint64_t word,
                                                 std::size_t bytes) noexcept {
  const __m256i value = _mm256_set1_epi64x(static_cast<long long>(word));
  for (const std::byte* const end = at + bytes; at < end; at += sizeof value)
    _mm256_stream_si256(reinterpret_cast<__m256i*>(at), value);
}

std::uint64_t load_sse2(const std::byte* at, std::size_t bytes) noexcept {
  __m128i sum = _mm_setzero_si128();
  for (const std::byte* const end = at + bytes; at < end; at += sizeof sum)
    sum = _mm_xor_si128(sum, _mm_load_si128(reinterpret_cast<const __m128i*>(at)));
  asm volatile("" : "+x"(sum));
  return static_cast<std::uint64_t>(sum[0]);
}

void store_sse2(std::byte* at, std::uint64_t word, std::size_t bytes) noexcept {
  const __m128i value = _mm_set1_epi64x(static_cast<long long>(word));
  for (const std::byte* const end = at + bytes; at < end; at += sizeof value)
    _mm_store_si128(reinterpret_cast<__m128i*>(at), value);
}

void stream_sse2(std::byte* at, std::uint64_t word, std::size_t bytes) noexcept {
  const __m128i value = _mm_set1_epi64x(static_cast<long long>(word));
  for (const std::byte* const end = at + bytes; at < end; at += sizeof value)
    _mm_stream_si128(reinterpret_cast<__m128i*>(at), value);
}

}  // namespace

std::uint64_t load_wide(const void* address, std::size_t bytes) noexcept {
  const auto* const at = static_cast<const std::byte*>(address);
  if (detail::simd_level == SimdLevel::avx512) return load_avx512(at, bytes);
  if (detail::simd_level == SimdLevel::avx2) return load_avx2(at, bytes);
  return load_sse2(at, bytes);
}

void store_wide(void* address, std::uint64_t word, std::size_t bytes) noexcept {
  auto* const at = static_cast<std::byte*>(address);
  if (detail::simd_level == SimdLevel::avx512) return store_avx512(at, word, bytes);
  if (detail::simd_level == SimdLevel::avx2) return store_avx2(at, word, bytes);
  store_sse2(at, word, bytes);
}

void stream_wide(void* address, std::uint64_t word, std::size_t bytes) noexcept {
  auto* const at = static_cast<std::byte*>(address);
  if (detail::simd_level == SimdLevel::avx512) return stream_avx512(at, word, bytes);
  if (detail::simd_level == SimdLevel::avx2) return stream_avx2(at, word, bytes);
  stream_sse2(at, word, bytes);
}

#endif
}  // namespace perdure::pm
