// Arithmetic that can be undone: what keys and key sets are made with.
#pragma once

#include <cstdint>

#include "core/rng.h"

namespace perdure::workload {

inline constexpr std::uint64_t golden_ratio = 0x9e3779b97f4a7c15ULL;

/// The inverse of an odd number modulo 2^64; each step doubles the number of right bits.
constexpr std::uint64_t inverse_of(std::uint64_t odd) noexcept {
  std::uint64_t inverse = odd;
  for (int i = 0; i < 5; ++i) inverse *= 2 - odd * inverse;
  return inverse;
}

/// Undoes core/rng.h's mix64.
constexpr std::uint64_t unmix64(std::uint64_t x) noexcept {
  x = (x ^ (x >> 31) ^ (x >> 62)) * inverse_of(0x94d049bb133111ebULL);
  x = (x ^ (x >> 27) ^ (x >> 54)) * inverse_of(0xbf58476d1ce4e5b9ULL);
  return x ^ (x >> 30) ^ (x >> 60);
}
static_assert(unmix64(mix64(0x0123456789abcdefULL)) == 0x0123456789abcdefULL);

/// A keyed permutation of [0, 2^n) that is one multiplication, for n of at most 16 or so: places
/// among few, such as the hosts of a network. Neighbours go far apart, but at equal distances.
class SmallShuffle {
 public:
  SmallShuffle(unsigned bits, std::uint64_t key) noexcept
      : mask_((std::uint64_t{1} << bits) - 1), factor_(key | 1), offset_(key >> 32) {}

  [[nodiscard]] std::uint64_t operator()(std::uint64_t place) const noexcept {
    return (place * factor_ + offset_) & mask_;
  }
  /// The place that operator() sends to `value`.
  [[nodiscard]] std::uint64_t inverse(std::uint64_t value) const noexcept {
    return ((value - offset_) * inverse_of(factor_)) & mask_;
  }

 private:
  std::uint64_t mask_;
  std::uint64_t factor_;
  std::uint64_t offset_;
};

}  // namespace perdure::workload
