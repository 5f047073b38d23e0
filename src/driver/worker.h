// Worker: one thread's timed loop over its prepared steps.
//
// The loop is compiled once per combination of what it must do, so that a plain run pays for
// nothing it does not use: a step is a load, a jump by kind of operation, and one virtual call. A
// reading of the clock between two operations keeps the second one's cache misses from beginning
// before the first has ended, which halves the throughput of a fast index: so by default only a few
// operations, drawn at random, are timed (samples.h).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>

#include "driver/batches.h"
#include "driver/caller.h"
#include "driver/checker.h"
#include "driver/config.h"
#include "driver/instance.h"
#include "driver/prepared.h"
#include "driver/rounds.h"
#include "driver/samples.h"
#include "driver/schedule.h"
#include "driver/tally.h"
#include "driver/target.h"
#include "driver/think_time.h"

namespace perdure::driver {

template <class Keys>
class Worker {
 public:
  using Step = typename Prepared<Keys>::Step;

  /// Allocates everything that it needs later. The instance outlives it.
  Worker(const BenchConfig& config, Instance<Keys>& instance, unsigned thread, const Clock& clock)
      : tally(config.measures_latency(), config.open_loop()),
        clock_(clock),
        prepared_(instance, thread),
        caller_(config, *instance.index),
        checker_(config, instance),
        think_(config, clock),
        absence_answers_(config.workload.key_range != 0) {
    if (config.latency == Latency::sampled) samples_ = std::make_unique<Samples>(config, thread);
    if (config.workload.batch != 1)
      batches_ = std::make_unique<Batches<Keys>>(config, *instance.index, caller_);
    if (config.open_loop()) schedule_.emplace(config, thread, clock, StepBuffer<Keys>::capacity);
    select_loop(config);
  }

  /// Starts a repetition of `operations` over the instance's threads; 0: without end. Not `paced`:
  /// operations start at once, where time stands still.
  void begin(unsigned repetition, std::uint64_t operations, bool paced) {
    tally.clear();
    paced_ = paced;
    prepared_.begin(repetition, operations);
    if (schedule_) schedule_->restart(repetition);
  }

  /// Untimed: makes steps, unless more than half of them are still to be run. False: no more steps.
  bool fill() {
    const Unmeasured free;
    prepared_.count(tally.attempted);
    if (prepared_.suffices()) return true;
    const std::size_t executed = prepared_.refill();
    if (schedule_) schedule_->prepare(executed, prepared_.size());
    if (samples_) samples_->skip(executed);
    return prepared_.size() != 0;
  }

  /// Timed: runs prepared steps until none is left or the round is over.
  void run(Rounds& rounds, OperationCounter& counter, Ticks active_before, Ticks round_start) {
    (this->*loop_)(rounds, counter, round_start - active_before);
  }

  [[nodiscard]] bool more() const noexcept { return prepared_.more(); }

  /// Ends a repetition: gives back what was prepared and not run.
  void finish() {
    const Unmeasured free;
    prepared_.count(tally.attempted);
    const std::size_t executed = prepared_.finish();
    if (samples_) samples_->skip(executed);
  }

  [[nodiscard]] bool fresh_exhausted() const noexcept { return prepared_.fresh_exhausted(); }

  [[nodiscard]] const std::string& answers() const noexcept { return checker_.answers(); }

  Tally tally;

 private:
  struct Nothing {};
  using Loop = void (Worker::*)(Rounds&, OperationCounter&, Ticks);
  /// When the next operation starts.
  enum class Pace : std::uint8_t { at_once, after_thinking, open };

  void select_loop(const BenchConfig& config) {
    const bool every = config.latency == Latency::every;
    if (batches_)  // never in an open loop
      loop_ = checker_.verifies() ? &Worker::batch_loop<true> : &Worker::batch_loop<false>;
    else if (config.open_loop())
      loop_ = loop_of<Pace::open>(every);
    else if (config.latency == Latency::sampled)
      loop_ = think_.any() ? sampled_loop_of<true>() : sampled_loop_of<false>();
    else
      loop_ = think_.any() ? loop_of<Pace::after_thinking>(every) : loop_of<Pace::at_once>(every);
  }
  template <Pace pace>
  [[nodiscard]] Loop loop_of(bool every) const {
    if (checker_.verifies())
      return every ? &Worker::loop<true, pace, true> : &Worker::loop<false, pace, true>;
    return every ? &Worker::loop<true, pace, false> : &Worker::loop<false, pace, false>;
  }
  template <bool Thinks>
  [[nodiscard]] Loop sampled_loop_of() const {
    return checker_.verifies() ? &Worker::sampled_loop<true, Thinks>
                               : &Worker::sampled_loop<false, Thinks>;
  }

  // Closed loop: an operation's latency runs from the end of the one before to its own end, so one
  // reading of the clock serves both, and the few instructions of the loop itself are inside.
  // Open loop: latency from the intended start, service time from the real one.
  // Verification reads the clock again after its own work, which is in no latency.
  template <bool Every, Pace pace, bool Verify>
  void loop(Rounds& rounds, OperationCounter& counter, Ticks origin) {
    constexpr bool open = pace == Pace::open;
    const Step* const steps = prepared_.data();
    const std::size_t size = prepared_.size();
    const std::uint64_t base = prepared_.done_before();
    std::size_t i = prepared_.executed();
    Ticks start = Every ? clock_.now() : 0;
    for (; i < size && !rounds.round_over(); ++i) {
      const Step& step = steps[i];
      Ticks intended = 0;
      if constexpr (open) {
        intended = paced_ ? origin + (*schedule_)[i] : clock_.now();
        if (!wait_until(intended, rounds, start)) break;
      }
      std::conditional_t<Verify, workload::Ticket, Nothing> ticket;
      Outcome outcome;
      if constexpr (Verify) {
        const typename Keys::Value value = checker_.begin(step, ticket);
        if constexpr (Every) start = clock_.now();
        outcome = caller_.call(step, value);
      } else {
        outcome = caller_.call(step, step.value);
      }
      if constexpr (Every) {
        const Ticks end = clock_.now();
        if constexpr (open) {
          (*tally.latency_ns)[step.operation].record(clock_.to_ns(end - intended));
          (*tally.service_ns)[step.operation].record(clock_.to_ns(end - start));
        } else {
          (*tally.latency_ns)[step.operation].record(clock_.to_ns(end - start));
        }
        start = end;
      }
      if (outcome != Caller<Keys>::expected(step.operation)) [[unlikely]]
        note_failure(step.operation, outcome);
      if constexpr (Verify) checker_.end(step, ticket, outcome, caller_);
      counter.done.store(base + i + 1, std::memory_order_relaxed);
      if constexpr (pace == Pace::after_thinking) {
        if (paced_) start = think_.pass(rounds);
      }
    }
    prepared_.set_executed(i);
  }

  // Closed loop. The operations between two samples run without a clock and without asking whether
  // they are to be timed: the next sample's place is the inner loop's end. A sample's latency runs
  // from when everything before it has been executed until it has been itself.
  template <bool Verify, bool Thinks>
  void sampled_loop(Rounds& rounds, OperationCounter& counter, Ticks) {
    const std::size_t size = prepared_.size();
    std::size_t i = prepared_.executed();
    while (i < size && !rounds.round_over()) {
      const std::size_t sample = std::min(size, samples_->next());
      for (; i < sample && !rounds.round_over(); ++i) {
        untimed<Verify>(i, counter);
        if constexpr (Thinks) think_.pass(rounds);
      }
      if (i != sample || i == size || rounds.round_over()) break;
      timed<Verify>(i++, counter);
      if constexpr (Thinks) think_.pass(rounds);
      samples_->draw();
    }
    prepared_.set_executed(i);
  }

  // Closed loop, a batch at a time. Where all are timed a batch has its own two readings of the
  // clock, which weigh little against its operations; of samples those that contain one.
  template <bool Verify>
  void batch_loop(Rounds& rounds, OperationCounter& counter, Ticks) {
    const std::size_t size = prepared_.size();
    std::size_t i = prepared_.executed();
    while (i < size && !rounds.round_over()) {
      const std::size_t count = batches_->size_at(prepared_.data() + i, size - i);
      run_batch<Verify>({prepared_.data() + i, count}, is_timed(i, count));
      i += count;
      counter.done.store(prepared_.done_before() + i, std::memory_order_relaxed);
      if (paced_ && think_.any()) think_.pass(rounds);
    }
    prepared_.set_executed(i);
  }

  template <bool Verify>
  void run_batch(std::span<const Step> steps, bool timed) {
    batches_->template prepare<Verify>(steps, checker_);
    const Ticks start = timed ? clock_.now_in_order() : 0;
    batches_->call(steps);
    if (timed)
      (*tally.latency_ns)[steps.front().operation].record(
          clock_.to_ns(clock_.now_in_order() - start));
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const Outcome outcome = batches_->outcome(i);
      if (outcome != Caller<Keys>::expected(steps[i].operation)) [[unlikely]]
        note_failure(steps[i].operation, outcome);
      if constexpr (Verify) batches_->check(steps[i], i, checker_);
    }
  }

  /// Whether one of the `count` steps from the `i`-th is to be timed.
  [[nodiscard]] bool is_timed(std::size_t i, std::size_t count) noexcept {
    if (!samples_) return tally.latency_ns != nullptr;
    if (samples_->next() >= i + count) return false;
    while (samples_->next() < i + count) samples_->draw();
    return true;
  }

  template <bool Verify>
  void untimed(std::size_t i, OperationCounter& counter) {
    const Step& step = prepared_.data()[i];
    if constexpr (Verify) {
      workload::Ticket ticket;
      const Outcome outcome = caller_.call(step, checker_.begin(step, ticket));
      settle<true>(step, ticket, outcome, i, counter);
    } else {
      settle<false>(step, Nothing{}, caller_.call(step, step.value), i, counter);
    }
  }

  template <bool Verify>
  void timed(std::size_t i, OperationCounter& counter) {
    const Step& step = prepared_.data()[i];
    std::conditional_t<Verify, workload::Ticket, Nothing> ticket;
    typename Keys::Value value{};
    if constexpr (Verify)
      value = checker_.begin(step, ticket);
    else
      value = step.value;
    const Ticks start = clock_.now_in_order();
    const Outcome outcome = caller_.call(step, value);
    const Ticks end = clock_.now_in_order();
    (*tally.latency_ns)[step.operation].record(clock_.to_ns(end - start));
    settle<Verify>(step, ticket, outcome, i, counter);
  }

  /// What follows an operation: failures, checking, counting.
  template <bool Verify, class Ticket>
  void settle(const Step& step, const Ticket& ticket, Outcome outcome, std::size_t i,
              OperationCounter& counter) {
    if (outcome != Caller<Keys>::expected(step.operation)) [[unlikely]]
      note_failure(step.operation, outcome);
    if constexpr (Verify) checker_.end(step, ticket, outcome, caller_);
    counter.done.store(prepared_.done_before() + i + 1, std::memory_order_relaxed);
  }

  void note_failure(workload::Operation operation, Outcome outcome) noexcept {
    if (absence_answers_ && (outcome == Outcome::exists || outcome == Outcome::not_found)) return;
    ++tally.failed[operation];
    if (outcome == Outcome::out_of_space || outcome == Outcome::invalid) ++tally.refused;
  }

  /// Waits for the intended start; `start` becomes the real one. False: the round is over.
  [[nodiscard]] bool wait_until(Ticks intended, const Rounds& rounds, Ticks& start) const noexcept {
    for (start = clock_.now(); start < intended; start = clock_.now()) {
      if (rounds.round_over()) return false;
      wait_a_turn(clock_, start, intended);
    }
    return true;
  }

  const Clock& clock_;
  Prepared<Keys> prepared_;
  Caller<Keys> caller_;
  Checker<Keys> checker_;
  const ThinkTime think_;
  std::optional<Schedule> schedule_;
  std::unique_ptr<Batches<Keys>> batches_;  ///< null: operations come one by one
  std::unique_ptr<Samples> samples_;        ///< null: all operations are timed, or none
  Loop loop_ = nullptr;
  bool paced_ = true;
  bool absence_answers_;  ///< "exists" and "not found" are no failures: keys of a range
};

}  // namespace perdure::driver
