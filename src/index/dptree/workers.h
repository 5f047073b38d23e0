// The background threads of a DPTree, and what any thread may do for a merge that is under way.
//
// The first thread leads: it does the tasks. The others, and threads that wait, write parts of a
// merge that is shared.
//
// D7  the leader runs only what `serve` does, and ends all tasks before `stop` returns.
// D8  while work is shared, other threads write parts of it. Each counts itself in `helpers_`
// before it
//     reads `shared_`, and out again after the fence that follows what it wrote; end_sharing
//     returns when `shared_` is null and no thread is counted.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>

#include "pm/background_thread.h"

namespace perdure::dptree {

/// Work that several threads do together.
class SharedWork {
 public:
  /// Does one part, durable with the next fence; false: no part is left.
  virtual bool work() noexcept = 0;

 protected:
  ~SharedWork() = default;
};

class Workers {
 public:
  enum Task : std::uint32_t { merge = 1, collect = 2 };

  explicit Workers(std::uint64_t threads) : threads_(threads) {}
  ~Workers() { stop(); }
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  /// False: the threads that write merge, too. As before `start` and after `stop`.
  [[nodiscard]] bool exist() const noexcept { return !running_.empty(); }
  /// Only one thread ever works on a merge.
  [[nodiscard]] bool is_alone() const noexcept { return running_.size() == 1; }

  /// Starts the threads, as many as there may be. The leader calls `serve` when there is a task,
  /// and each millisecond while that returns true.
  void start(std::function<bool()> serve);
  /// Ends them, after all tasks.
  void stop();
  void ask(Task task) noexcept;
  /// The tasks, which are then taken.
  [[nodiscard]] std::uint32_t take_tasks() noexcept { return tasks_.exchange(0); }
  void withdraw(Task task) noexcept { tasks_.fetch_and(~std::uint32_t{task}); }

  /// Lets others help until `end_sharing`, which waits for those that do.
  void share(SharedWork& work) noexcept;
  void end_sharing() noexcept;
  [[nodiscard]] bool is_sharing() const noexcept {
    return shared_.load(std::memory_order_relaxed) != nullptr;
  }
  /// Does a part of what is shared; false: there is none.
  bool help() noexcept;

 private:
  const std::uint64_t threads_;  ///< that are wanted
  std::atomic<std::uint32_t> tasks_{0};
  std::atomic<SharedWork*> shared_{nullptr};
  std::atomic<std::uint32_t> helpers_{0};     ///< threads that look at `shared_`
  std::deque<pm::BackgroundThread> running_;  ///< the leader first
};

}  // namespace perdure::dptree
