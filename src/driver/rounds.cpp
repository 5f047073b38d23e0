#include "driver/rounds.h"

#include <algorithm>

namespace perdure::driver {

void Rounds::begin_round() noexcept {
  round_over_.store(false, std::memory_order_seq_cst);
  // After the reset, or a stop that came between two rounds would be lost.
  if (stopping_.load(std::memory_order_seq_cst)) round_over_.store(true, std::memory_order_seq_cst);
  round_start_ = clock_.now();
  state_.store((round_start_ - active_before_) * 2 + 1, std::memory_order_release);
}

// The end of the run, not the last thread's own reading, which came a few instructions before: so
// the phase lasts as long as the machine's time split adds up to.
void Rounds::end_alone(Ticks end) noexcept {
  std::ranges::fill(ends_, end);
  end_round();
}

void Rounds::end_round() noexcept {
  const Ticks last = *std::ranges::max_element(ends_);
  if (last > round_start_) active_before_ += last - round_start_;
  state_.store(active_before_ * 2, std::memory_order_release);
  const bool none_left = std::ranges::none_of(left_, [](unsigned char left) { return left != 0; });
  ended_ = none_left || stopping_.load(std::memory_order_seq_cst);
}

std::uint64_t Rounds::operations() const noexcept {
  std::uint64_t sum = 0;
  for (const OperationCounter& counter : counters_)
    sum += counter.done.load(std::memory_order_relaxed);
  return sum;
}

Ticks Rounds::active() const noexcept {
  const std::uint64_t state = state_.load(std::memory_order_acquire);
  if ((state & 1) == 0) return state / 2;
  const Ticks offset = state / 2;
  const Ticks now = clock_.now();
  return now > offset ? now - offset : 0;
}

}  // namespace perdure::driver
