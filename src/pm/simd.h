// Byte matching over fingerprints, counting over sorted keys, and the bits and partial keys of
// tries, with SIMD chosen at run time.
//
// The arrays may change under the reader's hands: the answer is only a hint until the caller has
// validated a version or holds the lock. That is why ThreadSanitizer is told to look away here and
// nowhere else.
#pragma once

#include <immintrin.h>

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "pm/instructions.h"
#include "pm/wide_registers.h"

namespace perdure::pm {

enum class SimdLevel : std::uint8_t { sse2, avx2, avx512 };

namespace detail {
extern SimdLevel simd_level;
extern bool has_pext;  ///< and the level is not sse2
[[nodiscard]] std::uint64_t extract_bits_plain(std::uint64_t word, std::uint64_t mask) noexcept;
[[nodiscard]] unsigned count_up_to_plain(const std::uint64_t* words, unsigned n,
                                         std::uint64_t limit) noexcept;
[[nodiscard]] unsigned count_up_to_avx2(const std::uint64_t* words, unsigned n,
                                        std::uint64_t limit) noexcept;
void rank_avx512(const std::int32_t* values, unsigned count, std::int32_t* ranks) noexcept;

// Assembly, so that it is inlined into portable code: an operation on an index is held back by how
// many instructions it has, because the next one overlaps with its misses only as far as the
// reorder buffer reaches. Registers from 16 on leave nothing that VZEROUPPER would have to
// clear. Sanitizers do not see these reads.

[[nodiscard]] inline std::uint64_t match_64_avx512(const std::uint8_t* bytes,
                                                   std::uint8_t wanted) noexcept {
  std::uint64_t mask = 0;
  asm volatile(
      "vpbroadcastb %2, %%zmm16\n\t"
      "vpcmpeqb (%1), %%zmm16, %%k1\n\t"
      "kmovq %%k1, %0"
      : "=r"(mask)
      : "r"(bytes), "r"(std::uint32_t{wanted})
      : PERDURE_WIDE_REGISTERS "memory");
  return mask;
}

[[nodiscard]] inline unsigned count_8_avx512(const void* words, std::uint64_t limit) noexcept {
  std::uint32_t up_to = 0;
  asm volatile(
      "vpbroadcastq %2, %%zmm16\n\t"
      "vpcmpnltuq (%1), %%zmm16, %%k1\n\t"
      "kmovd %%k1, %0\n\t"
      "popcnt %0, %0"
      : "=r"(up_to)
      : "r"(words), "r"(limit)
      : PERDURE_WIDE_REGISTERS "cc", "memory");
  return up_to;
}

/// How many are <= limit of those of 16 words whose bit is set in `counted`.
template <std::uint32_t counted>
[[nodiscard]] inline unsigned count_16_avx512(const void* words, std::uint64_t limit) noexcept {
  std::uint32_t up_to = 0;
  asm volatile(
      "vpbroadcastq %2, %%zmm16\n\t"
      "vpcmpnltuq (%1), %%zmm16, %%k1\n\t"
      "vpcmpnltuq 64(%1), %%zmm16, %%k2\n\t"
      "kunpckbw %%k1, %%k2, %%k1\n\t"
      "kmovd %%k1, %0\n\t"
      "and %3, %0\n\t"
      "popcnt %0, %0"
      : "=&r"(up_to)
      : "r"(words), "r"(limit), "i"(counted)
      : PERDURE_WIDE_REGISTERS "cc", "memory");
  return up_to;
}

/// What brings each nibble above the lowest to the low end; the last lane is not used.
inline constexpr std::array<std::uint64_t, 16> nibble_shifts{4,  8,  12, 16, 20, 24, 28, 32,
                                                             36, 40, 44, 48, 52, 56, 60, 64};

/// Bit i is set where words[nibble i + 1 of `order`] < limit, i < 15. Reads 16 words.
[[nodiscard]] inline std::uint32_t below_in_order_avx512(const void* words, std::uint64_t order,
                                                         std::uint64_t limit) noexcept {
  std::uint32_t below = 0;
  asm volatile(
      "vpbroadcastq %2, %%zmm16\n\t"
      "vpbroadcastq %3, %%zmm17\n\t"
      "vpsrlvq (%4), %%zmm16, %%zmm18\n\t"
      "vpsrlvq 64(%4), %%zmm16, %%zmm19\n\t"
      "vmovdqu64 (%1), %%zmm20\n\t"
      "vmovdqu64 64(%1), %%zmm21\n\t"
      "vpermi2q %%zmm21, %%zmm20, %%zmm18\n\t"
      "vpermi2q %%zmm21, %%zmm20, %%zmm19\n\t"
      "vpcmpltuq %%zmm17, %%zmm18, %%k1\n\t"
      "vpcmpltuq %%zmm17, %%zmm19, %%k2\n\t"
      "kunpckbw %%k1, %%k2, %%k1\n\t"
      "kmovd %%k1, %0"
      : "=r"(below)
      : "r"(words), "r"(order), "r"(limit), "r"(nibble_shifts.data())
      : PERDURE_WIDE_REGISTERS "memory");
  return below;
}

/// Bit i is set where `word` has all bits of key i, i < count <= 32: of keys of one byte, or of
/// two. Does both, because which it is comes from memory as late as the keys: a branch on it would
/// be unpredictable, and throw away what the core has begun after it. Keys from `count` on are
/// not read.
[[nodiscard]] inline std::uint32_t match_short_subsets_avx512(const void* keys, bool of_bytes,
                                                              std::uint32_t word,
                                                              std::uint32_t count) noexcept {
  std::uint32_t of_one = 0;
  std::uint32_t of_two = 0;
  asm volatile(
      "mov $-1, %0\n\t"
      "bzhi %4, %0, %0\n\t"
      "kmovd %0, %%k1\n\t"
      "vpbroadcastb %3, %%zmm16\n\t"
      "vpbroadcastw %3, %%zmm17\n\t"
      "vptestnmb (%2), %%zmm16, %%k2%{%%k1%}\n\t"
      "vptestnmw (%2), %%zmm17, %%k1%{%%k1%}\n\t"
      "kmovd %%k2, %0\n\t"
      "kmovd %%k1, %1"
      : "=&r"(of_one), "=&r"(of_two)
      : "r"(keys), "r"(~word), "r"(count)
      : PERDURE_WIDE_REGISTERS "cc", "memory");
  return of_bytes ? of_one : of_two;
}

// As assembly, so that they are inlined into code for processors without them.

[[nodiscard]] inline unsigned count_bits_popcnt(std::uint64_t word) noexcept {
  std::uint64_t count = 0;
  asm("popcnt %1, %0" : "=r"(count) : "rm"(word) : "cc");
  return static_cast<unsigned>(count);
}

[[nodiscard]] inline std::uint64_t extract_bits_bmi2(std::uint64_t word,
                                                     std::uint64_t mask) noexcept {
  std::uint64_t bits = 0;
  asm("pext %2, %1, %0" : "=r"(bits) : "r"(word), "rm"(mask));
  return bits;
}

}  // namespace detail

/// The widest level this CPU and its operating system support. Cost: cached. A simulated machine
/// always says sse2, so that results do not depend on the host; there every call below is one wide
/// read, whatever the host takes for it (`count_below_in_order`: a read for each word it looks at).
[[nodiscard]] SimdLevel detect_simd_level() noexcept;
/// Lowers the level for measuring and testing; never above what is supported.
void configure_simd(SimdLevel level) noexcept;
[[nodiscard]] const char* name_of(SimdLevel level) noexcept;

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define PERDURE_RACY_READ __attribute__((no_sanitize("thread"), noinline))
#elif defined(__has_feature)
#define PERDURE_RACY_READ __attribute__((no_sanitize("thread")))
#else
#define PERDURE_RACY_READ
#endif

/// Bit i is set where bytes[i] == wanted, i < 16. Any alignment.
[[nodiscard]] PERDURE_RACY_READ inline std::uint32_t match_16(const std::uint8_t* bytes,
                                                              std::uint8_t wanted) noexcept {
  detail::instruction::note_read(bytes, 16);
  const __m128i block = _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes));
  const __m128i equal = _mm_cmpeq_epi8(block, _mm_set1_epi8(static_cast<char>(wanted)));
  return static_cast<std::uint32_t>(_mm_movemask_epi8(equal));
}

/// Bit i is set where bytes[i] == wanted, i < 64. `bytes` is 64-byte aligned.
[[nodiscard]] PERDURE_RACY_READ inline std::uint64_t match_64(const std::uint8_t* bytes,
                                                              std::uint8_t wanted) noexcept {
  if (detail::simd_level == SimdLevel::avx512) return detail::match_64_avx512(bytes, wanted);
  std::uint64_t mask = 0;
  for (unsigned part = 0; part < 4; ++part)
    mask |= static_cast<std::uint64_t>(match_16(bytes + 16 * part, wanted)) << (16 * part);
  return mask;
}

/// How many of the first n words are <= limit, as unsigned numbers. n is 8, 15 or 16; for 15 a
/// sixteenth word is read too.
template <unsigned n>
[[nodiscard]] inline unsigned count_up_to(const std::atomic<std::uint64_t>* words,
                                          std::uint64_t limit) noexcept {
  static_assert(n == 8 || n == 15 || n == 16);
  const auto* const plain = reinterpret_cast<const std::uint64_t*>(words);
  if constexpr (detail::instruction::simulated) {
    detail::instruction::note_read(plain, n * sizeof *plain);
    return detail::count_up_to_plain(plain, n, limit);
  }
  if (detail::simd_level == SimdLevel::avx512) {
    if constexpr (n == 8)
      return detail::count_8_avx512(plain, limit);
    else
      return detail::count_16_avx512<(1U << n) - 1>(plain, limit);
  }
  if (detail::simd_level == SimdLevel::avx2) return detail::count_up_to_avx2(plain, n, limit);
  unsigned count = 0;
#pragma GCC unroll 16
  for (unsigned i = 0; i < n; ++i) count += words[i].load(std::memory_order_acquire) <= limit;
  return count;
}

/// True when all of n words are 0.
[[nodiscard]] PERDURE_RACY_READ inline bool are_zero(const std::atomic<std::uint64_t>* words,
                                                     unsigned n) noexcept {
  if (n == 0) return true;
  const auto* const plain = reinterpret_cast<const std::uint64_t*>(words);
  detail::instruction::note_read(plain, n * sizeof *plain);
  std::uint64_t all = 0;
#pragma GCC unroll 8
  for (unsigned i = 0; i < n; ++i) all |= plain[i];
  return all == 0;
}

/// How many of the words that `order` names are < limit, where these ascend: it has their number in
/// the lowest nibble, and the place of each, in order, in the nibbles above. At most 15, of 16
/// words that can be read. Without a branch on any of them where the level is avx512.
[[nodiscard, gnu::always_inline]] inline unsigned count_below_in_order(
    const std::atomic<std::uint64_t>* words, std::uint64_t order, std::uint64_t limit) noexcept {
  const unsigned count = order & 15;
  if (detail::simd_level == SimdLevel::avx512) {
    const std::uint32_t above = ~detail::below_in_order_avx512(words, order, limit) | 1U << count;
    return static_cast<unsigned>(__builtin_ctz(above));
  }
  unsigned i = 0;
  while (i < count && words[order >> (4 + 4 * i) & 15].load(std::memory_order_acquire) < limit) ++i;
  return i;
}

/// ranks[i]: how many of the first `count` values are below values[i], i < count. Values of 64 are
/// read, ranks of 64 may be written. The caller's own memory: nobody changes it meanwhile.
inline void rank_by_counting(const std::array<std::int32_t, 64>& values, unsigned count,
                             std::array<std::int32_t, 64>& ranks) noexcept {
  if (detail::simd_level == SimdLevel::avx512)
    return detail::rank_avx512(values.data(), count, ranks.data());
  constexpr unsigned block = 16;
  for (unsigned first = 0; first < count; first += block) {
    std::array<std::int32_t, block> rank{};
    std::array<std::int32_t, block> mine;
    for (unsigned k = 0; k < block; ++k) mine[k] = values[first + k];
    for (unsigned i = 0; i < count; ++i) {
      const std::int32_t other = values[i];
      for (unsigned k = 0; k < block; ++k) rank[k] += static_cast<std::int32_t>(other < mine[k]);
    }
    for (unsigned k = 0; k < block; ++k) ranks[first + k] = rank[k];
  }
}

/// How many bits are set. std::popcount calls a function where code must run on any processor.
[[nodiscard]] inline unsigned count_bits(std::uint64_t word) noexcept {
  if (!detail::has_pext) {
    word -= word >> 1 & 0x5555555555555555U;
    word = (word & 0x3333333333333333U) + (word >> 2 & 0x3333333333333333U);
    word = (word + (word >> 4)) & 0x0f0f0f0f0f0f0f0fU;
    return static_cast<unsigned>(word * 0x0101010101010101U >> 56);
  }
  return detail::count_bits_popcnt(word);
}

/// The bits of `word` that `mask` chooses, side by side at the low end, in their order.
[[nodiscard]] inline std::uint64_t extract_bits(std::uint64_t word, std::uint64_t mask) noexcept {
  return detail::has_pext ? detail::extract_bits_bmi2(word, mask)
                          : detail::extract_bits_plain(word, mask);
}

}  // namespace perdure::pm
