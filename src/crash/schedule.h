// Schedule: which thread runs when. A thread runs until it ends or waits; preemptions are listed,
// so a schedule is data: it can be drawn, enumerated, shrunk and written to a file.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/rng.h"

namespace perdure::crash {

struct Preemption {
  std::uint64_t step;   ///< meetings of the run so far: atomic accesses, stores, flushes, fences
  std::uint8_t thread;  ///< who goes on
  friend bool operator==(const Preemption&, const Preemption&) = default;
};

struct Schedule {
  std::uint8_t first = 0;
  std::vector<Preemption> preemptions;  ///< ascending steps
};

/// What an undisturbed run tells about where preemptions matter.
struct Steps {
  std::uint64_t count = 0;
  std::vector<std::uint64_t> flushes;  ///< steps between a publish and its fence
};

/// A random schedule of at most `most` preemptions, half of them between a flush and its fence
/// (after Burckhardt et al., ASPLOS 2010: few ordered preemptions reveal most bugs).
[[nodiscard]] inline Schedule draw_schedule(const Steps& steps, unsigned threads, unsigned most,
                                            Rng& rng) {
  Schedule schedule;
  schedule.first = static_cast<std::uint8_t>(rng.below(threads));
  if (threads == 1 || steps.count == 0) return schedule;
  for (std::uint64_t left = 1 + rng.below(most); left > 0; --left) {
    const bool near_flush = !steps.flushes.empty() && rng.below(2) == 0;
    const std::uint64_t step = near_flush ? steps.flushes[rng.below(steps.flushes.size())] + 1
                                          : 1 + rng.below(steps.count);
    schedule.preemptions.push_back({step, static_cast<std::uint8_t>(rng.below(threads))});
  }
  std::sort(schedule.preemptions.begin(), schedule.preemptions.end(),
            [](const Preemption& a, const Preemption& b) { return a.step < b.step; });
  return schedule;
}

/// All schedules with one preemption between a flush and its fence, in order (depth-first, bound
/// 1).
[[nodiscard]] inline std::vector<Schedule> enumerate_schedules(const Steps& steps,
                                                               unsigned threads) {
  std::vector<Schedule> all;
  for (std::uint8_t first = 0; first < threads; ++first)
    for (const std::uint64_t step : steps.flushes)
      for (std::uint8_t to = 0; to < threads; ++to) all.push_back({first, {{step + 1, to}}});
  return all;
}

}  // namespace perdure::crash
