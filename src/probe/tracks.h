// Tracks: when each thread of a measurement had done how much, and the figures that follow.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/histogram.h"
#include "probe/rig.h"

namespace perdure::probe {

/// One thread's marks, in memory of a fixed size that the measured part only writes to. What the
/// kernel calls here carries no access hooks: under simulation it is the stopwatch and no part of
/// the measured program.
class Track {
 public:
  Track(std::uint64_t marks, Rig::Clock clock, Rig::Spender spender);

  /// What the kernel is given. The track must stay where it is while the kernel runs.
  [[nodiscard]] Lane lane() noexcept;

  [[nodiscard]] std::uint64_t used() const noexcept { return used_; }
  [[nodiscard]] std::uint64_t time(std::uint64_t mark) const noexcept { return time_[mark]; }
  [[nodiscard]] std::uint64_t count(std::uint64_t mark) const noexcept { return count_[mark]; }

 private:
  static void done(void* self, std::uint64_t count) noexcept;
  static void spend(void* self, std::uint64_t ps) noexcept;

  std::unique_ptr<std::uint64_t[]> memory_;
  std::uint64_t* time_;
  std::uint64_t* count_;
  std::uint64_t used_ = 0;
  std::uint64_t capacity_;
  Rig::Clock clock_;
  Rig::Spender spender_;
};

/// The time in which every track was at work: from the latest first mark to the earliest last one.
struct Window {
  std::uint64_t begin = 0, end = 0;
};
[[nodiscard]] Window common_window(const std::vector<Track>& tracks) noexcept;

/// Operations of `track` in the window; the ones that straddle an edge count by their share.
[[nodiscard]] double operations_in(const Track& track, Window window) noexcept;

/// Adds a sample per mark in the window: ps per operation, times `scale`.
void add_latencies(const Track& track, Window window, double ps_per_tick, double scale,
                   Histogram& histogram) noexcept;

/// Ticks and operations between marks, the time outside (count 0 restarts the clock) left out.
struct Work {
  std::uint64_t ticks = 0, operations = 0;
};
[[nodiscard]] Work work_of(const Track& track) noexcept;

}  // namespace perdure::probe
