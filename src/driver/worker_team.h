// WorkerTeam: the threads that run a benchmark, kept alive and pinned from load to the last
// repetition.
//
// Two carriers: std::thread, and OpenMP. PiBench wrappers index their state by
// omp_get_thread_num(), so for a plugin thread t must be OpenMP's thread t. The OpenMP team belongs
// to a thread of its own (its thread 0), because the caller of `start` goes on to watch the run.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "pm/hints.h"

namespace perdure::driver {

/// Where threads meet. The last to arrive runs `step` while the others wait. Spins, then yields:
/// threads start within nanoseconds of each other, and more threads than cores still get on.
class Meeting {
 public:
  explicit Meeting(unsigned threads) noexcept : threads_(threads) {}

  template <class Step>
  void arrive(Step&& step) {
    const unsigned round = round_.load(std::memory_order_acquire);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == threads_) {
      step();
      arrived_.store(0, std::memory_order_relaxed);
      round_.store(round + 1, std::memory_order_release);
      return;
    }
    for (pm::Backoff backoff; round_.load(std::memory_order_acquire) == round;) backoff.wait();
  }
  void arrive() {
    arrive([] {});
  }

 private:
  const unsigned threads_;
  alignas(64) std::atomic<unsigned> arrived_{0};
  alignas(64) std::atomic<unsigned> round_{0};
};

class WorkerTeam {
 public:
  enum class Carrier : std::uint8_t { threads, openmp };
  using Job = std::function<void(unsigned thread)>;

  /// `cpus`: thread t runs on cpus[t % size]; empty: not pinned.
  WorkerTeam(unsigned threads, Carrier carrier, std::span<const unsigned> cpus);
  ~WorkerTeam();
  WorkerTeam(const WorkerTeam&) = delete;
  WorkerTeam& operator=(const WorkerTeam&) = delete;

  /// Runs `job(t)` on every thread t and returns at once. One job at a time.
  void start(Job job);
  /// Waits for the job. The time-out form returns false when it still runs.
  void wait();
  [[nodiscard]] bool wait_for(double seconds);
  void run(Job job) {
    start(std::move(job));
    wait();
  }

  [[nodiscard]] unsigned threads() const noexcept { return threads_; }
  /// The CPUs that its threads run on; empty: any.
  [[nodiscard]] std::span<const unsigned> cpus() const noexcept {
    return std::span(cpus_).first(std::min<std::size_t>(threads_, cpus_.size()));
  }
  /// False when the system refused to pin a thread.
  [[nodiscard]] bool pinned() const noexcept { return !pinning_failed_.load(); }

 private:
  void serve(unsigned carrier);
  void run_openmp();
  void pin(unsigned thread) noexcept;
  static void openmp_entry(void* team);

  const unsigned threads_;
  const Carrier carrier_;
  const std::vector<unsigned> cpus_;
  std::atomic<bool> pinning_failed_{false};

  std::mutex mutex_;
  std::condition_variable changed_;
  Job job_;
  std::uint64_t jobs_started_ = 0;
  unsigned running_ = 0;
  bool closing_ = false;
  bool openmp_pinned_ = false;
  // libgomp orders its threads by means that ThreadSanitizer cannot see; these order them again.
  std::atomic<unsigned> handed_out_{0};
  std::atomic<unsigned> handed_in_{0};
  std::vector<std::thread> carriers_;
};

}  // namespace perdure::driver
