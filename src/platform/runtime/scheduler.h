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

  void start(unsigned threads, CarrierKind carrier);
  [[nodiscard]] std::vector<std::unique_ptr<SimulatedThread>>& threads() noexcept {
    return threads_;
  }

  /// Runs `job` on every thread, from this OS thread. Rethrows the first failure by number.
  void run(const std::function<void(unsigned)>& job);
  [[nodiscard]] bool running() const noexcept { return running_; }
  /// Simulated threads beside the one that runs are not at their end.
  [[nodiscard]] bool others_wait() const noexcept { return !waiting_.empty(); }

  /// The smallest clock among those that wait, and events; the largest time when there is none.
  [[nodiscard]] Time next_clock() const noexcept { return next_clock_; }

  /// Lets the thread with the smallest clock run; returns when that is `thread` again.
  void yield(SimulatedThread& thread);
  /// The same with clocks that stand still: after every other thread that can run.
  void yield_untimed(SimulatedThread& thread);

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
  void meet();
  void call_job(SimulatedThread& thread) noexcept;
  void* prepare(SimulatedThread& thread);
  friend struct FiberEntry;
  class Storage;

  CarrierKind carrier_ = CarrierKind::fibers;
  bool running_ = false;
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
