// Rounds: how a phase is timed, so that generating operations is never part of it.
//
// Generating an operation costs as much as a short one, so it must stay out of the timed path; and
// a thread must not run against idle neighbours while they generate, or contention is flattered.
// Therefore all threads generate together and run together:
//
//   fill | meet | run, until one thread is out of steps | meet | fill | meet | run ...
//
// R1  Time counts only between the two meetings of a round: `active`. A round lasts from the moment
//     the last thread arrived to the moment the last thread stopped.
// R2  While time counts, every thread that has steps left runs them.
// R3  Throughput is operations of all threads / active time: no per-thread rates are added up.
// A simulation needs none of this (Filling::alone): making steps takes no virtual time, so every
// thread makes its own when it has none, and the phase is one round.
// R4  An open loop's schedule stands still with `active`, so its backlog is kept over a fill.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "driver/clock.h"
#include "driver/worker_team.h"

namespace perdure::driver {

/// How a phase is watched from outside while its threads run.
struct WatchedPhase {
  std::string name;    ///< for the progress line
  double seconds = 0;  ///< of active time, then the phase is stopped; 0: it ends by itself
  std::uint64_t operations = 0;  ///< expected, for the progress line; 0: unknown
};

/// How many operations one thread has done in this phase, in a cache line of its own.
struct alignas(128) OperationCounter {
  std::atomic<std::uint64_t> done{0};
};

/// When the threads of a phase prepare their steps.
enum class Filling : std::uint8_t {
  together,  ///< all meet, untimed, whenever one is out of steps
  alone,     ///< each prepares its own when it has none, where that takes no time
};

class Rounds {
 public:
  Rounds(unsigned threads, const Clock& clock, Filling filling = Filling::together)
      : clock_(clock),
        filling_(filling),
        meeting_(threads),
        counters_(threads),
        ends_(threads),
        left_(threads) {}

  /// Runs one phase on this thread; every thread of the team calls it once.
  ///   fill()                 prepares steps, untimed; true when there are any
  ///   run(active, start)     executes steps until it has none or `round_over()`; `start` is the
  ///                          round's begin and `active` the time counted before it
  ///   more()                 true when steps are left, prepared or not
  /// `ends_round`: a thread that runs out of prepared steps ends the round for all.
  template <class Fill, class Run, class More>
  void work(unsigned thread, bool ends_round, Fill&& fill, Run&& run, More&& more) {
    if (filling_ == Filling::alone) {
      while (!round_over() && (look_(), fill())) run(active_before_, round_start_);
      ends_[thread] = clock_.now();
      left_[thread] = 0;
      return;
    }
    for (;;) {
      const bool any = fill();
      meeting_.arrive([this] { begin_round(); });
      if (any) run(active_before_, round_start_);
      ends_[thread] = clock_.now();
      const bool left = more();
      // A thread whose stream has ended leaves the others to finish theirs.
      if (ends_round && left) round_over_.store(true, std::memory_order_relaxed);
      left_[thread] = left ? 1 : 0;
      meeting_.arrive([this] { end_round(); });
      if (ended_) return;
    }
  }

  /// Filling::alone: before the first thread starts, and after the last has ended. `look` is called
  /// whenever a thread needs steps.
  void begin_alone(std::function<void()> look) {
    look_ = std::move(look);
    begin_round();
  }
  void end_alone(Ticks end) noexcept;

  /// Asked once per operation: one load of a line that nobody writes while the round lasts.
  [[nodiscard]] bool round_over() const noexcept {
    return round_over_.load(std::memory_order_relaxed);
  }

  /// Ends the phase: threads stop after the operation under way. From any thread.
  void stop() noexcept {
    stopping_.store(true, std::memory_order_seq_cst);
    round_over_.store(true, std::memory_order_seq_cst);
  }

  [[nodiscard]] OperationCounter& counter(unsigned thread) noexcept { return counters_[thread]; }

  /// Operations done so far, over all threads. From any thread.
  [[nodiscard]] std::uint64_t operations() const noexcept;
  /// Time counted so far. From any thread.
  [[nodiscard]] Ticks active() const noexcept;

 private:
  void begin_round() noexcept;
  void end_round() noexcept;

  const Clock& clock_;
  const Filling filling_;
  std::function<void()> look_;
  Meeting meeting_;
  alignas(128) std::atomic<bool> round_over_{false};
  alignas(128) std::atomic<bool> stopping_{false};
  // (round start - time counted before) * 2 + 1 while a round runs, time counted * 2 otherwise: one
  // word, so that the watching thread never sees half of a change.
  std::atomic<std::uint64_t> state_{0};
  Ticks active_before_ = 0;
  Ticks round_start_ = 0;
  bool ended_ = false;
  std::vector<OperationCounter> counters_;
  std::vector<Ticks> ends_;
  std::vector<unsigned char> left_;
};

}  // namespace perdure::driver
