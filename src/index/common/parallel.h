// Runs a job over a range on several threads: recovery and bulk load.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "core/result.h"
#include "pm/hints.h"

namespace perdure {

/// Calls `job(begin, end, part)` for `threads` parts of [0, count) at once and returns the first
/// error. With one thread, or too little to share, in this thread.
template <class Job>
[[nodiscard]] Result<void> in_parallel(std::size_t count, unsigned threads, Job&& job) {
  constexpr std::size_t worth_a_thread = 512;
  const std::size_t parts =
      std::clamp<std::size_t>(count / worth_a_thread, 1, std::max(1U, threads));
  if (parts == 1) return job(std::size_t{0}, count, std::size_t{0});
  std::vector<Result<void>> results(parts);
  std::vector<std::thread> workers;
  workers.reserve(parts);
  for (std::size_t part = 0; part < parts; ++part)
    workers.emplace_back(
        [&, part] { results[part] = job(count * part / parts, count * (part + 1) / parts, part); });
  for (std::thread& worker : workers) worker.join();
  for (Result<void>& result : results)
    if (!result) return result;
  return {};
}

/// Calls `job(begin, end)` for parts of [0, n) on several threads while n still grows: the thread
/// that finds the items goes on, and then joins in. `job` returns Result<void>; after an error no
/// part is begun.
template <class Job>
class GrowingWork {
 public:
  GrowingWork(unsigned threads, Job job) : most_helpers_(std::max(threads, 1U) - 1), job_(job) {}
  ~GrowingWork() { stop(); }
  GrowingWork(const GrowingWork&) = delete;
  GrowingWork& operator=(const GrowingWork&) = delete;

  /// The items below `count` are there. Only called by the thread that made this.
  void grow(std::size_t count) {
    there_.store(count, std::memory_order_release);
    const std::size_t worth = std::min<std::size_t>(most_helpers_, count / worth_a_thread);
    while (helpers_.size() < worth) helpers_.emplace_back([this] { work(); });
  }
  /// There are `count` items, and all are done when this returns; else the error of the first part
  /// that met one.
  [[nodiscard]] Result<void> finish(std::size_t count) {
    grow(count);
    ended_.store(true, std::memory_order_release);
    work();
    stop();
    if (error_) return *error_;
    return {};
  }

 private:
  static constexpr std::size_t worth_a_thread = 512;
  static constexpr std::size_t part = 128;

  void stop() {
    stopped_.store(true, std::memory_order_release);
    for (std::thread& helper : helpers_) helper.join();
    helpers_.clear();
  }
  void work() {
    for (pm::Backoff backoff; !stopped_.load(std::memory_order_acquire);) {
      const bool ended = ended_.load(std::memory_order_acquire);
      const std::size_t there = there_.load(std::memory_order_acquire);
      std::size_t begin = next_.load(std::memory_order_relaxed);
      if (begin >= there) {
        if (ended) return;
        backoff.wait();
        continue;
      }
      const std::size_t end = std::min(begin + part, there);
      if (!next_.compare_exchange_weak(begin, end, std::memory_order_relaxed)) continue;
      if (Result<void> done = job_(begin, end); !done) return fail(begin, done.error());
    }
  }
  void fail(std::size_t begin, const Error& error) {
    const std::lock_guard guard(mutex_);
    if (!error_ || begin < failed_at_) {
      failed_at_ = begin;
      error_ = error;
    }
    stopped_.store(true, std::memory_order_release);
  }

  std::size_t most_helpers_;
  Job job_;
  std::atomic<std::size_t> there_{0};
  std::atomic<std::size_t> next_{0};
  std::atomic<bool> ended_{false};
  std::atomic<bool> stopped_{false};
  std::mutex mutex_;
  std::size_t failed_at_ = 0;
  std::optional<Error> error_;
  std::vector<std::thread> helpers_;
};

}  // namespace perdure
