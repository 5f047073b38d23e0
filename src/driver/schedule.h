// Schedule: when the operations of an open loop are meant to start, however slow the index is.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/rng.h"
#include "driver/clock.h"
#include "driver/config.h"

namespace perdure::driver {

/// Start times of one thread's prepared steps, in ticks of active time (rounds.h, R4). Constant
/// arrivals interleave the threads evenly; Poisson arrivals are independent per thread.
class Schedule {
 public:
  Schedule(const BenchConfig& config, unsigned thread, const Clock& clock, std::size_t most_steps)
      : arrivals_(config.arrivals),
        interval_(clock.ticks_per_second() * config.threads / config.rate_ops_s),
        offset_(interval_ * thread / config.threads),
        seed_(config.workload.seed),
        stream_((1ULL << 32) + thread) {
    times_.reserve(most_steps);
    restart(0);
  }

  /// The next repetition: active time starts at 0 again.
  void restart(unsigned repetition) {
    rng_ = Rng(seed_ + repetition, stream_);
    count_ = 0;
    next_ = 0;
    times_.clear();
  }

  /// Forgets the times of the first `executed` steps and makes times for `steps` in all.
  void prepare(std::size_t executed, std::size_t steps) {
    times_.erase(times_.begin(), times_.begin() + static_cast<std::ptrdiff_t>(executed));
    while (times_.size() < steps) times_.push_back(draw());
  }

  [[nodiscard]] Ticks operator[](std::size_t step) const noexcept { return times_[step]; }

 private:
  [[nodiscard]] Ticks draw() noexcept {
    if (arrivals_ == Arrivals::poisson) {
      next_ -= std::log1p(-rng_.unit()) * interval_;
      return static_cast<Ticks>(next_);
    }
    // A product, not a sum: a sum would drift by its rounding over 10^9 operations.
    return static_cast<Ticks>(offset_ + interval_ * static_cast<double>(count_++));
  }

  Arrivals arrivals_;
  double interval_;
  double offset_;
  std::uint64_t seed_;
  std::uint64_t stream_;
  Rng rng_{0};
  std::uint64_t count_ = 0;
  double next_ = 0;
  std::vector<Ticks> times_;
};

}  // namespace perdure::driver
