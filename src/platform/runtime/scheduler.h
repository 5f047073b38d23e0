// Scheduler: runs the simulated thread with the smallest clock; equal clocks, the smallest number.
//
// A thread calls `yield` where order matters. The others that can run lie in a heap by (clock,
// number); events by (time, order of arrival). With the model off clocks stand still, and a yield
// takes the thread to the end of a round.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "platform/model/time.h"
#include "platform/runtime/simulated_thread.h"

namespace perdure::platform::runtime {

enum class CarrierKind : std::uint8_t { fibers, threads };

class Scheduler {
 public:
  static constexpr std::size_t stack_bytes = std::size_t{1} << 20;

  /// `background`: further threads, which sleep and are woken (background.h).
  void start(unsigned threads, unsigned background, CarrierKind carrier);
  [[nodiscard]] unsigned foreground() const noexcept { return foreground_; }
  [[nodiscard]] std::vector<std::unique_ptr<SimulatedThread>>& threads() noexcept {
    return threads_;
  }

  /// Runs `job` on every thread, from this OS thread, until all have ended. Rethrows the first
  /// failure by number.
  void run(const std::function<void(unsigned)>& job);
  [[nodiscard]] bool running() const noexcept { return running_; }
  /// When the last run ended for all but the background threads.
  [[nodiscard]] Time foreground_end() const noexcept { return foreground_end_; }
  /// How long all others have waited at the ends of runs for what background threads had left.
  [[nodiscard]] Time background_time() const noexcept { return background_time_; }
  /// Simulated threads beside the one that runs are not at their end.
  [[nodiscard]] bool others_wait() const noexcept { return !waiting_.empty(); }

  /// The smallest clock among those that wait, and events; the largest time when there is none.
  [[nodiscard]] Time next_clock() const noexcept { return next_clock_; }

  /// Lets the thread with the smallest clock run; returns when that is `thread` again.
  void yield(SimulatedThread& thread);
  /// The same with clocks that stand still: after every other thread that can run.
  void yield_untimed(SimulatedThread& thread);

  /// All threads but those in the background have ended.
  [[nodiscard]] bool all_ended() const noexcept { return foreground_left_ == 0; }
  /// A background thread sleeps until it is woken or all others have ended, of which one has not.
  void sleep(SimulatedThread& thread);
  /// It goes on at `time`, if it sleeps.
  void wake(SimulatedThread& thread, Time time);

  void at(Time time, std::function<void()> event);
  /// After clocks were changed from outside, or the model was switched on or off.
  void reorder();

 private:
  using Key = std::uint64_t;  ///< clock << number_bits | number
  static constexpr unsigned number_bits = 8;
  static constexpr Time never = ~Time{0};
  struct Event {
    Time time;
    std::uint64_t order;
    std::function<void()> call;
  };

  [[nodiscard]] static Key key_of(Time clock, unsigned number) noexcept {
    return clock << number_bits | number;
  }
  [[nodiscard]] SimulatedThread& thread_of(Key key) noexcept {
    return *threads_[key & ((1U << number_bits) - 1)];
  }
  void sift_down() noexcept;
  void insert(Key key);
  Key take_smallest() noexcept;
  void set_next_clock() noexcept;
  void call_events(Time until);
  void enter(SimulatedThread& from, Key own_key);
  void switch_to(SimulatedThread& from, SimulatedThread& to);
  void finish(SimulatedThread& thread);
  Time meet(std::size_t threads);
  void call_job(SimulatedThread& thread) noexcept;
  void* prepare(SimulatedThread& thread);
  friend struct FiberEntry;
  class Storage;

  CarrierKind carrier_ = CarrierKind::fibers;
  bool running_ = false;
  unsigned foreground_ = 0;       ///< threads that are no background threads
  unsigned foreground_left_ = 0;  ///< of these, in a run, those that have not ended
  Time foreground_end_ = 0;
  Time background_time_ = 0;
  Time next_clock_ = never;
  Time untimed_turn_ = 0;
  std::vector<Key> waiting_;   ///< a heap, smallest first
  std::vector<Event> events_;  ///< sorted, latest first
  std::uint64_t events_made_ = 0;
  std::vector<std::unique_ptr<SimulatedThread>> threads_;
  const std::function<void(unsigned)>* job_ = nullptr;
  SimulatedThread root_;  ///< the caller of `run`
};

}  // namespace perdure::platform::runtime
