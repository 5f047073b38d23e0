// Divisor: division by a number that is known at the start. An address is divided several times on
// its way to memory, and the machine's own division takes some dozens of cycles.
#pragma once

#include <bit>
#include <cstdint>

#include "platform/model/cache_tags.h"

namespace perdure::platform {

class Divisor {
 public:
  /// 0 counts as 1.
  explicit Divisor(std::uint64_t by) noexcept
      : by_(by == 0 ? 1 : by),
        power_(std::has_single_bit(by_)),
        shift_(static_cast<unsigned>(std::countr_zero(by_))),
        // Rounded up, so by * reciprocal exceeds 2^64 by at most `by`; exact up to `exact_`.
        reciprocal_(~std::uint64_t{0} / by_ + 1),
        exact_(~std::uint64_t{0} / by_) {}

  [[nodiscard]] std::uint64_t quotient(std::uint64_t of) const noexcept {
    if (power_) return of >> shift_;
    if (of >= exact_) return of / by_;
    return static_cast<std::uint64_t>(static_cast<Wide>(of) * reciprocal_ >> 64);
  }
  [[nodiscard]] std::uint64_t remainder(std::uint64_t of) const noexcept {
    return of - quotient(of) * by_;
  }

 private:
  std::uint64_t by_;
  bool power_;
  unsigned shift_;
  std::uint64_t reciprocal_, exact_;
};

}  // namespace perdure::platform
