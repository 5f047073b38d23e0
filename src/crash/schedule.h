// Schedule: which thread runs when. A thread runs until it ends or waits; preemptions are listed,
// so a schedule is data: it can be drawn, enumerated, shrunk and written to a file.
//
// Two kinds are tried after the undisturbed one:
//   - random priorities with a few changes (PCT: Burckhardt et al., ASPLOS 2010). The thread of the
//     highest priority runs; at a change point the running one gets the lowest. Of n
//     threads and k steps, a bug that takes d ordered steps shows with a chance of 1 / (n k^(d-1))
//     or more.
//   - depth-first, bounded in preemptions: those between a flush and the fence that follows it,
//     where something is visible and not yet durable.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "core/rng.h"

namespace perdure::crash {

struct Preemption {
  /// In place of a thread: the running one gets the lowest priority, and the highest runs.
  static constexpr std::uint8_t demote = 0xff;
  /// The running thread is stopped for ever before this step, and the highest priority runs.
  static constexpr std::uint8_t stop = 0xfe;

  std::uint64_t step;   ///< meetings of the run so far: atomic accesses, stores, flushes, fences
  std::uint8_t thread;  ///< that runs next
  friend bool operator==(const Preemption&, const Preemption&) = default;
};

/// A thread that a schedule has stopped for ever.
struct Stopped {
  std::uint8_t thread = 0;
  const void* at = nullptr;     ///< code: the step that it has not done
  std::uint8_t waiting = 0;     ///< of a run that hangs: the thread that does not end
  const void* waits = nullptr;  ///< code: where it was last
};

struct Schedule {
  std::uint8_t first = 0;
  std::vector<Preemption> preemptions{};  ///< ascending steps
  /// The threads, the highest priority first; empty: a thread that ends or waits is followed by the
  /// next number.
  std::vector<std::uint8_t> order{};
  /// Bit t: every hardware transaction of thread t aborts, so that it takes the software path.
  std::uint8_t software = 0;
  /// How often a thread that waits pauses before it hands over: code that gives up after some tries
  /// does so only where this is more.
  std::uint16_t pauses = 1;
};
inline constexpr std::uint16_t most_pauses_in_a_row = 4096;

/// What a run tells about where preemptions matter.
struct Steps {
  std::uint64_t count = 0;
  std::vector<std::uint64_t> flushes;  ///< steps between a flush and its fence
  /// Of several threads: steps just before and after a lock is taken, and after it is released.
  std::vector<std::uint64_t> locks{};
  /// Of a mutant: steps from the mutated place to the next fence of the thread.
  std::vector<std::uint64_t> exposed{};
  /// Where preemptions matter most.
  [[nodiscard]] const std::vector<std::uint64_t>& telling() const noexcept {
    return exposed.empty() ? flushes : exposed;
  }
};

/// Where change points are drawn from.
enum class Near : std::uint8_t { anything, flushes, locks };

/// Mostly 1, one time in five 16 to 64, and seldom more than a thousand.
[[nodiscard]] inline std::uint16_t draw_pauses(Rng& rng) {
  constexpr std::uint64_t seldom = 32;
  const std::uint64_t drawn = rng.below(seldom);
  if (drawn == 0) return 1100;
  return static_cast<std::uint16_t>(drawn < seldom / 4 ? 16 + rng.below(49) : 1);
}

/// A PCT schedule for bugs of depth `depth` (1 or more): random priorities, `depth` - 1 change
/// points, drawn from steps near something, or from everywhere where there is no such step.
[[nodiscard]] inline Schedule draw_schedule(const Steps& steps, unsigned threads, unsigned depth,
                                            Near what, Rng& rng) {
  const std::vector<std::uint64_t>& near = what == Near::locks ? steps.locks : steps.telling();
  Schedule schedule;
  schedule.order.resize(threads);
  std::iota(schedule.order.begin(), schedule.order.end(), std::uint8_t{0});
  std::shuffle(schedule.order.begin(), schedule.order.end(), rng);
  schedule.first = schedule.order.front();
  if (threads == 1 || steps.count == 0) return schedule;
  for (unsigned left = depth; left > 1; --left) {
    const bool anywhere = what == Near::anything || near.empty();
    const std::uint64_t step =
        anywhere ? 1 + rng.below(steps.count) : near[rng.below(near.size())] + 1;
    schedule.preemptions.push_back({step, Preemption::demote});
  }
  std::sort(schedule.preemptions.begin(), schedule.preemptions.end(),
            [](const Preemption& a, const Preemption& b) { return a.step < b.step; });
  return schedule;
}

/// `schedule` with whoever runs at `step` stopped for ever there.
[[nodiscard]] inline Schedule with_stop(Schedule schedule, std::uint64_t step) {
  const auto at = std::find_if(schedule.preemptions.begin(), schedule.preemptions.end(),
                               [step](const Preemption& each) { return each.step >= step; });
  if (at != schedule.preemptions.end() && at->step == step)
    at->thread = Preemption::stop;
  else
    schedule.preemptions.insert(at, {step, Preemption::stop});
  return schedule;
}

/// Depth-first over schedules whose preemptions are all between a flush and its fence, at most
/// `bound` of them. The next step of a path depends on the run so far, so the caller reports what
/// each schedule met.
class DepthFirst {
 public:
  /// `steps`: of the undisturbed run. `rng` decides what is tried first.
  DepthFirst(const Steps& steps, unsigned threads, unsigned bound, Rng& rng)
      : threads_(threads), bound_(bound), rng_(rng) {
    extend({}, steps);
    for (std::uint8_t first = 1; first < threads; ++first) open_.push_back({first, {}});
    std::shuffle(open_.begin(), open_.end(), rng_);
  }
  [[nodiscard]] bool done() const noexcept { return open_.empty(); }
  [[nodiscard]] Schedule next() {
    Schedule schedule = std::move(open_.back());
    open_.pop_back();
    return schedule;
  }
  /// `schedule` was run and met `steps`: its extensions come next, or, of one without preemptions,
  /// beside all others.
  void ran(const Schedule& schedule, const Steps& steps) {
    if (schedule.preemptions.size() >= bound_) return;
    const auto from = schedule.preemptions.empty() ? 0 : static_cast<std::ptrdiff_t>(open_.size());
    extend(schedule, steps);
    std::shuffle(open_.begin() + from, open_.end(), rng_);
  }

 private:
  void extend(const Schedule& schedule, const Steps& steps) {
    const std::uint64_t after = schedule.preemptions.empty() ? 0 : schedule.preemptions.back().step;
    const auto push = [&](std::uint64_t step, std::uint8_t to) {
      open_.push_back(schedule);
      open_.back().preemptions.push_back({step, to});
    };
    for (const std::uint64_t flush : steps.telling()) {
      if (flush + 1 <= after) continue;
      // Of two threads the other one: to go on as before would be no preemption. What a mutant
      // exposes any other thread may be harmed by, and the next one is most often yet to begin.
      const bool next_one = threads_ == 2 || !steps.exposed.empty();
      if (next_one) push(flush + 1, Preemption::demote);
      for (std::uint8_t to = 0; !next_one && to < threads_; ++to) push(flush + 1, to);
    }
  }

  unsigned threads_;
  unsigned bound_;
  Rng& rng_;
  std::vector<Schedule> open_;
};

}  // namespace perdure::crash
