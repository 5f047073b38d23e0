#include "pm/hints.h"

#include <algorithm>
#include <chrono>
#include <thread>

namespace perdure::pm {

void Backoff::wait() noexcept {
  constexpr unsigned longest_spin = 64;
  constexpr unsigned turns_before_yield = 32;
  for (unsigned i = 0, n = std::min(1U << std::min(turn_, 16U), longest_spin); i < n; ++i) pause();
  if (++turn_ > turns_before_yield) detail::instruction::yield();
}

void nap() noexcept {
  constexpr unsigned simulated_turns = 64;
  if constexpr (simulated)
    for (unsigned i = 0; i < simulated_turns; ++i) pause();
  else
    std::this_thread::sleep_for(std::chrono::microseconds(100));
}

}  // namespace perdure::pm
