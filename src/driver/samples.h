// Samples: which of a thread's operations are timed under Latency::sampled.
//
// The gaps are drawn at random, so that no rhythm of the index (a split every so many inserts) or
// of the workload can hide from the samples or be all that they see.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/rng.h"
#include "driver/config.h"

namespace perdure::driver {

class Samples {
 public:
  Samples(const BenchConfig& config, unsigned thread)
      : gaps_(2 * static_cast<std::uint64_t>(config.latency_interval) - 1),
        rng_(config.workload.seed, (2ULL << 32) + thread),
        next_(static_cast<std::size_t>(rng_.below(gaps_))) {}

  /// Place of the next operation to time among the prepared steps, or after them.
  [[nodiscard]] std::size_t next() const noexcept { return next_; }
  /// Chooses the next operation to time, 1 to 2 * interval - 1 operations after this one.
  void draw() noexcept { next_ += 1 + static_cast<std::size_t>(rng_.below(gaps_)); }
  /// Forgets the first `executed` steps, which have been run.
  void skip(std::size_t executed) noexcept { next_ -= executed; }

 private:
  std::uint64_t gaps_;  ///< how many different ones there are
  Rng rng_;
  std::size_t next_;
};

}  // namespace perdure::driver
