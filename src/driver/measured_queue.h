// MeasuredQueue: the queue of a run with its pool, from opening to closing, and what its producers
// and consumers share.
//
// Q1  Every repetition begins with `prefill` payloads in the queue and ends at them again: what a
//     phase leaves is taken out, or put in, before the next, untimed.
// Q2  Producer p numbers its pushes from 1 on through the whole run, warm-up included, and in a
//     reused queue from the number after the last that is known.
// Q3  When no operation runs, the queue holds what was pushed and not popped. A queue that does not
//     is at fault, and the run says so also without --verify.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "driver/departure.h"
#include "driver/queue_verifier.h"
#include "driver/run_context.h"
#include "driver/run_site.h"

namespace perdure::driver {

class MeasuredQueue {
 public:
  explicit MeasuredQueue(const RunContext& run);

  /// Opens the pool and creates the queue, or recovers it. Errors: those of both, and usage: the
  /// queue does not take such payloads, or as many.
  Result<void> open();
  /// Takes out what a recovered queue holds, so that the run begins as one with a new queue.
  void take_over();
  /// Puts the first `prefill` payloads in. Errors: out_of_space.
  [[nodiscard]] Result<void> load();

  /// After a phase, and before the first: Q1 and Q3.
  void level();
  /// After the last: takes everything out, for the verifier, and puts the prefill back.
  void empty_and_refill();

  void keep() { site_.keep(); }
  void measure_memory();
  [[nodiscard]] Result<void> check_invariants();
  void leave_target() { site_.leave_target(); }
  Result<void> close();

  // What workers use.

  [[nodiscard]] DurableQueue& queue() const noexcept { return *queue_; }
  /// Null without --verify.
  [[nodiscard]] QueueVerifier* verifier() const noexcept { return verifier_.get(); }
  /// The number of the producer's last push. Written by that producer alone.
  [[nodiscard]] std::uint64_t& last_number(unsigned producer) noexcept {
    return producers_[producer].last_number;
  }
  /// A producer has made all pushes of a phase that has a number of them.
  void note_producer_done() noexcept { done_.fetch_add(1, std::memory_order_acq_rel); }
  [[nodiscard]] bool all_producers_done() const noexcept {
    return done_.load(std::memory_order_acquire) == producers_.size();
  }
  /// How workers end a phase that is stopped.
  [[nodiscard]] Departure& departure() noexcept { return departure_; }
  /// A worker's successes of a phase.
  void note_work(std::uint64_t pushes, std::uint64_t pops) noexcept {
    inside_.fetch_add(pushes - pops, std::memory_order_acq_rel);
  }

  /// Why Q3 did not hold, the first time.
  [[nodiscard]] const std::optional<Error>& fault() const noexcept { return fault_; }

 private:
  /// One producer writes it, in a line of its own.
  struct alignas(128) Producer {
    std::uint64_t last_number = 0;
  };

  Result<void> make();
  [[nodiscard]] Result<void> check_fit() const;
  [[nodiscard]] Outcome push_one();
  void bring_to(std::uint64_t payloads);
  void check_size();
  void note_fault(std::string what);

  const RunContext& run_;
  const BenchConfig& config_;
  const QueueRun& queue_run_;
  RunSite site_;  // outlives the queue
  std::unique_ptr<DurableQueue> queue_;
  std::unique_ptr<QueueVerifier> verifier_;
  std::vector<Producer> producers_;
  unsigned next_producer_ = 0;  ///< of the prefill, which all push in turn
  alignas(128) std::atomic<unsigned> done_{0};
  std::atomic<std::uint64_t> inside_{0};  ///< pushed and not popped
  Departure departure_;
  std::optional<Error> fault_;
};

}  // namespace perdure::driver
