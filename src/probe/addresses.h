// Addresses: where operation n of a thread goes. A generator is a few words that stay in registers,
// because under simulation every access to memory is an access of the measured program.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "core/rng.h"

namespace perdure::probe {

/// A keyed bijection of [0, n): four rounds of xor-shift and odd multiplication on the power of two
/// that covers n, walked until the result is below n (less than two steps on average). Not the
/// multiplication alone: that is a low-discrepancy sequence, which visits banks, sets and channels
/// far more evenly than chance does.
class Permutation {
 public:
  explicit constexpr Permutation(std::uint64_t n, std::uint64_t key) noexcept
      : n_(n),
        bits_(n > 2 ? static_cast<unsigned>(std::bit_width(n - 1)) : 1),
        mask_(bits_ == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits_) - 1),
        add_(mix64(key + 0x9e3779b97f4a7c15ULL)),
        multiply_(mix64(add_) | 1) {}

  [[nodiscard]] constexpr std::uint64_t size() const noexcept { return n_; }

  /// The image of i, i < n.
  [[nodiscard]] constexpr std::uint64_t operator()(std::uint64_t i) const noexcept {
    if (n_ <= 1) return 0;
    do i = step(i);
    while (i >= n_);
    return i;
  }

 private:
  [[nodiscard]] constexpr std::uint64_t step(std::uint64_t x) const noexcept {
    const unsigned shift = bits_ / 2 + 1;
    x = (x + add_) & mask_;
    for (unsigned round = 0; round < 4; ++round) {
      x ^= x >> shift;
      x = (x * multiply_ + (add_ >> (8 * round))) & mask_;
    }
    return x ^ (x >> shift);
  }

  std::uint64_t n_;
  unsigned bits_;
  std::uint64_t mask_;
  std::uint64_t add_;
  std::uint64_t multiply_;
};

/// Offsets of whole accesses within one thread's slice [0, slice_bytes). `next` gives them in
/// order.
class SequentialAddresses {
 public:
  /// Starts at slot `first`, so that threads do not all begin on the same DIMM.
  constexpr SequentialAddresses(std::uint64_t slice_bytes, std::uint64_t access_bytes,
                                std::uint64_t first) noexcept
      : access_(access_bytes),
        end_(slice_bytes / access_bytes * access_bytes),
        at_(end_ == 0 ? 0 : first % (end_ / access_bytes) * access_bytes) {}

  [[nodiscard]] constexpr std::uint64_t next() noexcept {
    const std::uint64_t at = at_;
    at_ += access_;
    if (at_ >= end_) at_ = 0;
    return at;
  }

 private:
  std::uint64_t access_;
  std::uint64_t end_;
  std::uint64_t at_;
};

/// Every slot once in random order, then again in another order. Slots begin `apart` bytes after
/// one another, and overlap where that is less than an access.
class RandomAddresses {
 public:
  constexpr RandomAddresses(std::uint64_t slice_bytes, std::uint64_t access_bytes,
                            std::uint64_t apart, std::uint64_t key) noexcept
      : apart_(apart),
        key_(key),
        permutation_(slice_bytes < access_bytes ? 0 : (slice_bytes - access_bytes) / apart + 1,
                     key) {}

  [[nodiscard]] constexpr std::uint64_t next() noexcept {
    const std::uint64_t at = permutation_(i_) * apart_;
    if (++i_ >= permutation_.size()) {
      i_ = 0;
      permutation_ = Permutation(permutation_.size(), ++key_);
    }
    return at;
  }

 private:
  std::uint64_t apart_;
  std::uint64_t key_;
  Permutation permutation_;
  std::uint64_t i_ = 0;
};

/// Arithmetic steps, which may be shorter than an access; each round starts one access further on,
/// so that the whole slice is visited. Begins where `first` steps have been taken.
class StrideAddresses {
 public:
  constexpr StrideAddresses(std::uint64_t slice_bytes, std::uint64_t access_bytes,
                            std::uint64_t stride_bytes, std::uint64_t first) noexcept
      : access_(access_bytes),
        stride_(stride_bytes),
        last_(slice_bytes < access_bytes ? 0 : slice_bytes - access_bytes) {
    const std::uint64_t steps = last_ / stride_ + 1;
    const std::uint64_t phases = (std::min(stride_ - 1, last_) / access_) + 1;
    phase_ = first / steps % phases * access_;
    at_ = phase_ + first % steps * stride_;
    if (at_ > last_) at_ = phase_;
  }

  [[nodiscard]] constexpr std::uint64_t next() noexcept {
    const std::uint64_t at = at_;
    at_ += stride_;
    if (at_ > last_) {
      phase_ += access_;
      if (phase_ >= stride_ || phase_ > last_) phase_ = 0;
      at_ = phase_;
    }
    return at;
  }

 private:
  std::uint64_t access_;
  std::uint64_t stride_;
  std::uint64_t last_;
  std::uint64_t at_ = 0;
  std::uint64_t phase_ = 0;
};

/// Always the same slot.
class SameAddress {
 public:
  explicit constexpr SameAddress(std::uint64_t offset) noexcept : offset_(offset) {}
  [[nodiscard]] constexpr std::uint64_t next() const noexcept { return offset_; }

 private:
  std::uint64_t offset_;
};

}  // namespace perdure::probe
