// ThinkTime: what a thread of a closed loop waits between one operation and the next.
#pragma once

#include <cmath>

#include "driver/clock.h"
#include "driver/config.h"
#include "driver/rounds.h"
#include "driver/target.h"

namespace perdure::driver {

class ThinkTime {
 public:
  ThinkTime(const BenchConfig& config, const Clock& clock)
      : clock_(clock),
        ticks_(static_cast<Ticks>(std::llround(static_cast<double>(config.workload.think_ns) *
                                               clock.ticks_per_second() / 1e9))) {}

  [[nodiscard]] bool any() const noexcept { return ticks_ != 0; }
  /// Waits, but not beyond the end of the round; returns the time at the end. Time must pass: no
  /// simulation without its model calls it.
  Ticks pass(const Rounds& rounds) const noexcept {
    Ticks now = clock_.now();
    for (const Ticks until = now + ticks_; now < until && !rounds.round_over(); now = clock_.now())
      wait_a_turn(clock_, now, until);
    return now;
  }

 private:
  const Clock& clock_;
  const Ticks ticks_;
};

}  // namespace perdure::driver
