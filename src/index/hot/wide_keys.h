// What insertions, and searches for byte strings, do with partial keys where there are AVX-512 and
// BMI2: up to 32 keys at once. Callers check the processor first (`Node::is_wide`), which a
// simulated machine never has, so it need not be told of these accesses.
//
// Every function names its target; one that is `always_inline` can be used only in another of that
// target.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace perdure::hot {

/// Vectors of keys of one byte or two. A lane whose bit is not in a mask is neither read nor
/// written.
template <class Key>
struct Lanes;

template <>
struct Lanes<std::uint8_t> {
  [[gnu::always_inline, gnu::target("avx512f,avx512bw")]] static __m512i all(
      std::uint32_t key) noexcept {
    return _mm512_set1_epi8(static_cast<char>(key));
  }
  [[gnu::always_inline, gnu::target("avx512f,avx512bw")]] static __m512i load(
      __m512i others, std::uint64_t mask, const std::uint8_t* keys) noexcept {
    return _mm512_mask_loadu_epi8(others, mask, keys);
  }
  [[gnu::always_inline, gnu::target("avx512f,avx512bw")]] static void store(
      std::uint8_t* keys, std::uint64_t mask, __m512i lanes) noexcept {
    _mm512_mask_storeu_epi8(keys, mask, lanes);
  }
  [[gnu::always_inline, gnu::target("avx512f,avx512bw")]] static __m512i add(__m512i a,
                                                                             __m512i b) noexcept {
    return _mm512_add_epi8(a, b);
  }
  [[gnu::always_inline, gnu::target("avx512f,avx512bw")]] static __m512i set(
      __m512i others, std::uint64_t mask, std::uint32_t key) noexcept {
    return _mm512_mask_set1_epi8(others, mask, static_cast<char>(key));
  }
  /// Bit i: the lanes of `a` and `b` have no bit in common.
  [[gnu::always_inline, gnu::target("avx512f,avx512bw")]] static std::uint32_t disjoint(
      std::uint64_t mask, __m512i a, __m512i b) noexcept {
    return static_cast<std::uint32_t>(_mm512_mask_testn_epi8_mask(mask, a, b));
  }
};

template <>
struct Lanes<std::uint16_t> {
  [[gnu::always_inline, gnu::target("avx512f,avx512bw")]] static __m512i all(
      std::uint32_t key) noexcept {
    return _mm512_set1_epi16(static_cast<short>(key));
  }
  [[gnu::always_inline, gnu::target("avx512f,avx512bw")]] static __m512i load(
      __m512i others, std::uint32_t mask, const std::uint16_t* keys) noexcept {
    return _mm512_mask_loadu_epi16(others, mask, keys);
  }
  [[gnu::always_inline, gnu::target("avx512f,avx512bw")]] static void store(
      std::uint16_t* keys, std::uint32_t mask, __m512i lanes) noexcept {
    _mm512_mask_storeu_epi16(keys, mask, lanes);
  }
  [[gnu::always_inline, gnu::target("avx512f,avx512bw")]] static __m512i add(__m512i a,
                                                                             __m512i b) noexcept {
    return _mm512_add_epi16(a, b);
  }
  [[gnu::always_inline, gnu::target("avx512f,avx512bw")]] static __m512i set(
      __m512i others, std::uint32_t mask, std::uint32_t key) noexcept {
    return _mm512_mask_set1_epi16(others, mask, static_cast<short>(key));
  }
  [[gnu::always_inline, gnu::target("avx512f,avx512bw")]] static std::uint32_t disjoint(
      std::uint32_t mask, __m512i a, __m512i b) noexcept {
    return _mm512_mask_testn_epi16_mask(mask, a, b);
  }
};

/// The lowest `count` bits, all from 32 on.
[[nodiscard, gnu::always_inline, gnu::target("bmi2")]] inline std::uint32_t low_bits(
    unsigned count) noexcept {
  return _bzhi_u32(~std::uint32_t{0}, count);
}

/// Bit i is set where keys[i] has of the bits of `mask` those of `value` and no others, among the
/// keys whose bit is set in `valid`.
template <class Key>
[[nodiscard, gnu::always_inline, gnu::target("avx512f,avx512bw")]] inline std::uint32_t
match_masked_wide(const Key* keys, std::uint32_t valid, std::uint32_t mask,
                  std::uint32_t value) noexcept {
  using L = Lanes<Key>;
  const __m512i differs =
      _mm512_xor_si512(L::load(_mm512_setzero_si512(), valid, keys), L::all(value));
  return L::disjoint(valid, differs, L::all(mask));
}

/// Where keys go, and what becomes of them. Lanes are those of the keys as they will be.
struct KeyShift {
  std::uint32_t before;  ///< lanes of the keys that stay where they are
  std::uint32_t after;   ///< of those that move by one
  std::uint32_t gap;     ///< of the new key, between them
  std::uint32_t high;    ///< the bits that move up by one place
  std::uint32_t marked;  ///< lanes of the keys that get
  std::uint32_t mark;    ///< these bits
  std::uint32_t fresh;   ///< the new key
};

template <class Key>
[[gnu::always_inline, gnu::target("avx512f,avx512bw")]] inline void shift_keys(const Key* from,
                                                                               const KeyShift& by,
                                                                               Key* to) noexcept {
  using L = Lanes<Key>;
  const __m512i none = _mm512_setzero_si512();
  __m512i keys = L::load(L::load(none, by.before, from), by.after, from - 1);
  keys = L::add(keys, _mm512_and_si512(keys, L::all(by.high)));
  keys = _mm512_or_si512(keys, L::set(none, by.marked, by.mark));
  L::store(to, by.before | by.after | by.gap, L::set(keys, by.gap, by.fresh));
}

/// `copy_with_gap` of up to 32 words: by masks, because the place of the gap is unpredictable.
[[gnu::target("avx512f")]] inline void copy_with_gap_wide(const std::uint64_t* from, unsigned count,
                                                          unsigned gap,
                                                          std::uint64_t* to) noexcept {
  std::uint64_t before = (std::uint64_t{1} << gap) - 1;
  std::uint64_t all = (std::uint64_t{2} << count) - 1;
  std::uint64_t after = all & ~(before << 1 | 1);
  do {
    const __m512i words = _mm512_maskz_loadu_epi64(static_cast<__mmask8>(before), from);
    _mm512_mask_storeu_epi64(
        to, static_cast<__mmask8>(all),
        _mm512_mask_loadu_epi64(words, static_cast<__mmask8>(after), from - 1));
    from += 8;
    to += 8;
    before >>= 8;
    after >>= 8;
  } while ((all >>= 8) != 0);
}

/// Bit i is set where `word` has all bits of keys[i], i < 32. Reads 32 keys.
[[nodiscard, gnu::target("avx512f,avx512bw")]] inline std::uint32_t match_subsets_wide(
    const std::uint16_t* keys, std::uint32_t word) noexcept {
  const __m512i all = _mm512_loadu_si512(keys);
  const __m512i wanted = _mm512_set1_epi16(static_cast<short>(word));
  return _mm512_cmpeq_epi16_mask(_mm512_and_si512(all, wanted), all);
}
[[nodiscard, gnu::target("avx512f")]] inline std::uint32_t match_subsets_wide(
    const std::uint32_t* keys, std::uint32_t word) noexcept {
  const __m512i others = _mm512_set1_epi32(static_cast<int>(~word));
  const std::uint32_t low = _mm512_testn_epi32_mask(_mm512_loadu_si512(keys), others);
  const std::uint32_t high = _mm512_testn_epi32_mask(_mm512_loadu_si512(keys + 16), others);
  return low | high << 16;
}

}  // namespace perdure::hot
