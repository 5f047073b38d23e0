#include "pm/hints.h"

#include <algorithm>

namespace perdure::pm {

void Backoff::wait() noexcept {
  constexpr unsigned longest_spin = 64;
  constexpr unsigned turns_before_yield = 32;
  for (unsigned i = 0, n = std::min(1U << std::min(turn_, 16U), longest_spin); i < n; ++i) pause();
  if (++turn_ > turns_before_yield) detail::instruction::yield();
}

}  // namespace perdure::pm
