// Worker: one thread's prepared steps, scratch space and tally, and the timed loop over them.
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
#include <vector>

#include "driver/answers.h"
#include "driver/config.h"
#include "driver/instance.h"
#include "driver/rounds.h"
#include "driver/samples.h"
#include "driver/schedule.h"
#include "driver/steps.h"
#include "driver/tally.h"
#include "driver/target.h"
#include "index/index.h"
#include "workload/stream.h"
#include "workload/verify.h"

namespace perdure::driver {

template <class Keys>
class Worker {
 public:
  using Index = OrderedIndex<Keys>;
  using Step = typename StepBuffer<Keys>::Step;

  /// All it needs later is allocated here. The instance outlives it.
  Worker(const BenchConfig& config, Instance<Keys>& instance, unsigned thread, const Clock& clock)
      : tally(config.measures_latency(), config.open_loop()),
        index_(*instance.index),
        clock_(clock),
        verifier_(instance.verifier.get()),
        codec_(instance.workload),
        stream_(instance.workload, instance.place(thread)),
        buffer_(instance.workload),
        keeps_answers_(!config.answers_path.empty()) {
    if (config.latency == Latency::sampled) samples_ = std::make_unique<Samples>(config, thread);
    if (config.open_loop()) schedule_.emplace(config, thread, clock, StepBuffer<Keys>::capacity);
    scan_.reserve(config.workload.scan.max);
    if constexpr (has_text_values<Keys>) {
      value_.reserve(config.workload.value_bytes);
      written_.resize(config.workload.value_bytes);
    }
    select_loop(config);
  }

  /// Starts a repetition of `operations` over the instance's threads; 0: without end. Not `paced`:
  /// an open loop's operations start at once, where time stands still.
  void begin(unsigned repetition, std::uint64_t operations, bool paced) {
    tally.clear();
    paced_ = paced;
    stream_.begin(repetition, operations);
    if (schedule_) schedule_->restart(repetition);
    executed_ = counted_ = size_ = 0;
    done_before_ = 0;
  }

  /// Untimed: makes steps, unless half of the block is still to be run. False: no more steps.
  bool fill() {
    const Unmeasured free;
    count();
    if (executed_ < size_ && (size_ - executed_) * 2 > size_) return true;
    if (executed_ < size_) stream_.settle(executed_);
    const std::size_t executed = executed_;
    done_before_ += executed;
    size_ = buffer_.fill(stream_);
    executed_ = counted_ = 0;
    if (schedule_) schedule_->prepare(executed, size_);
    if (samples_) samples_->skip(executed);
    return size_ != 0;
  }

  /// Timed: runs prepared steps until none is left or the round is over.
  void run(Rounds& rounds, OperationCounter& counter, Ticks active_before, Ticks round_start) {
    (this->*loop_)(rounds, counter, round_start - active_before);
  }

  [[nodiscard]] bool more() const noexcept { return executed_ < size_ || stream_.remaining() != 0; }

  /// The end of a repetition: what was prepared and not run is taken back.
  void finish() {
    const Unmeasured free;
    count();
    if (executed_ < size_) stream_.settle(executed_);
    if (samples_) samples_->skip(executed_);
    executed_ = counted_ = size_ = 0;
  }

  [[nodiscard]] bool fresh_exhausted() const noexcept { return stream_.fresh_exhausted(); }

  /// Of all repetitions, in the order of this thread's operations; empty unless asked for.
  [[nodiscard]] const std::string& answers() const noexcept { return answers_; }

  Tally tally;

 private:
  struct Nothing {};
  using Loop = void (Worker::*)(Rounds&, OperationCounter&, Ticks);

  void select_loop(const BenchConfig& config) {
    const bool verify = verifier_ != nullptr;
    const bool every = config.latency == Latency::every;
    if (config.open_loop())
      loop_ = verify
                  ? (every ? &Worker::loop<true, true, true> : &Worker::loop<false, true, true>)
                  : (every ? &Worker::loop<true, true, false> : &Worker::loop<false, true, false>);
    else if (config.latency == Latency::sampled)
      loop_ = verify ? &Worker::sampled_loop<true> : &Worker::sampled_loop<false>;
    else
      loop_ =
          verify ? (every ? &Worker::loop<true, false, true> : &Worker::loop<false, false, true>)
                 : (every ? &Worker::loop<true, false, false> : &Worker::loop<false, false, false>);
  }

  /// Counts what has been attempted since the last call, from the steps themselves: nothing for
  /// the timed loop to do.
  void count() noexcept {
    const Step* const steps = buffer_.data();
    for (; counted_ < executed_; ++counted_) ++tally.attempted[steps[counted_].operation];
  }

  // Closed loop: an operation's latency runs from the end of the one before to its own end, so one
  // reading of the clock serves both, and the few instructions of the loop itself are inside.
  // Open loop: latency from the intended start, service time from the real one.
  // Verification reads the clock again after its own work, which is in no latency.
  template <bool Every, bool Open, bool Verify>
  void loop(Rounds& rounds, OperationCounter& counter, Ticks origin) {
    const Step* const steps = buffer_.data();
    const std::size_t size = size_;
    const std::uint64_t base = done_before_;
    std::size_t i = executed_;
    Ticks start = Every ? clock_.now() : 0;
    for (; i < size && !rounds.round_over(); ++i) {
      const Step& step = steps[i];
      Ticks intended = 0;
      if constexpr (Open) {
        intended = paced_ ? origin + (*schedule_)[i] : clock_.now();
        if (!wait_until(intended, rounds, start)) break;
      }
      std::conditional_t<Verify, workload::Ticket, Nothing> ticket;
      Outcome outcome;
      if constexpr (Verify) {
        const typename Keys::Value value = begin_verified(step, ticket);
        if constexpr (Every) start = clock_.now();
        outcome = call(step, value);
      } else {
        outcome = call(step, step.value);
      }
      if constexpr (Every) {
        const Ticks end = clock_.now();
        if constexpr (Open) {
          (*tally.latency_ns)[step.operation].record(clock_.to_ns(end - intended));
          (*tally.service_ns)[step.operation].record(clock_.to_ns(end - start));
        } else {
          (*tally.latency_ns)[step.operation].record(clock_.to_ns(end - start));
        }
        start = end;
      }
      if (outcome != expected(step.operation)) [[unlikely]]
        note_failure(step.operation, outcome);
      if constexpr (Verify) check_answer(step, ticket, outcome);
      counter.done.store(base + i + 1, std::memory_order_relaxed);
    }
    executed_ = i;
  }

  // Closed loop. The operations between two samples run without a clock and without asking whether
  // they are to be timed: the next sample's place is the inner loop's end. A sample's latency runs
  // from when everything before it has been executed until it has been itself.
  template <bool Verify>
  void sampled_loop(Rounds& rounds, OperationCounter& counter, Ticks) {
    const std::size_t size = size_;
    std::size_t i = executed_;
    while (i < size && !rounds.round_over()) {
      const std::size_t sample = std::min(size, samples_->next());
      for (; i < sample && !rounds.round_over(); ++i) untimed<Verify>(i, counter);
      if (i != sample || i == size || rounds.round_over()) break;
      timed<Verify>(i++, counter);
      samples_->draw();
    }
    executed_ = i;
  }

  template <bool Verify>
  void untimed(std::size_t i, OperationCounter& counter) {
    const Step& step = buffer_.data()[i];
    if constexpr (Verify) {
      workload::Ticket ticket;
      const Outcome outcome = call(step, begin_verified(step, ticket));
      settle<true>(step, ticket, outcome, i, counter);
    } else {
      settle<false>(step, Nothing{}, call(step, step.value), i, counter);
    }
  }

  template <bool Verify>
  void timed(std::size_t i, OperationCounter& counter) {
    const Step& step = buffer_.data()[i];
    std::conditional_t<Verify, workload::Ticket, Nothing> ticket;
    typename Keys::Value value{};
    if constexpr (Verify)
      value = begin_verified(step, ticket);
    else
      value = step.value;
    const Ticks start = clock_.now_in_order();
    const Outcome outcome = call(step, value);
    const Ticks end = clock_.now_in_order();
    (*tally.latency_ns)[step.operation].record(clock_.to_ns(end - start));
    settle<Verify>(step, ticket, outcome, i, counter);
  }

  /// What follows an operation: failures, checking, counting.
  template <bool Verify, class Ticket>
  void settle(const Step& step, const Ticket& ticket, Outcome outcome, std::size_t i,
              OperationCounter& counter) {
    if (outcome != expected(step.operation)) [[unlikely]]
      note_failure(step.operation, outcome);
    if constexpr (Verify) check_answer(step, ticket, outcome);
    counter.done.store(done_before_ + i + 1, std::memory_order_relaxed);
  }

  [[nodiscard]] static Outcome expected(workload::Operation operation) noexcept {
    return operation == workload::Operation::lookup_negative ? Outcome::not_found : Outcome::ok;
  }

  void note_failure(workload::Operation operation, Outcome outcome) noexcept {
    ++tally.failed[operation];
    if (outcome == Outcome::out_of_space || outcome == Outcome::invalid) ++tally.refused;
  }

  [[nodiscard]] Outcome call(const Step& step, typename Keys::Value value) {
    using workload::Operation;
    switch (step.operation) {
      case Operation::lookup:
      case Operation::lookup_negative:
        return index_.lookup(step.key, value_);
      case Operation::insert:
        return index_.insert(step.key, value);
      case Operation::upsert:
        return index_.upsert(step.key, value);
      case Operation::update:
        return index_.update(step.key, value);
      case Operation::remove:
        return index_.remove(step.key);
      case Operation::scan:
        scan_.clear();
        return scanned(index_.scan(step.key, step.scan_count, scan_));
    }
    return Outcome::invalid;
  }

  // Some PiBench wrappers say how many records they found and hand out none.
  [[nodiscard]] Outcome scanned(std::size_t found) const noexcept {
    return scan_.size() != 0 || found != 0 ? Outcome::ok : Outcome::not_found;
  }

  /// Waits for the intended start; `start` becomes the real one. False: the round is over.
  [[nodiscard]] bool wait_until(Ticks intended, const Rounds& rounds, Ticks& start) const noexcept {
    for (start = clock_.now(); start < intended; start = clock_.now()) {
      if (rounds.round_over()) return false;
      wait_a_turn(clock_, start, intended);
    }
    return true;
  }

  [[nodiscard]] typename Keys::Value begin_verified(const Step& step, workload::Ticket& ticket) {
    const Unmeasured free;
    ticket = verifier_->begin(step);
    if constexpr (!has_text_values<Keys>) {
      return ticket.value_word;
    } else {
      codec_.write(ticket.value_word, written_.data());
      return written_;
    }
  }

  void check_answer(const Step& step, const workload::Ticket& ticket, Outcome outcome) {
    const Unmeasured free;
    if (keeps_answers_)
      append_answer(answers_, step.operation, step.key, name_of(outcome), value_, scan_);
    using workload::Answer;
    using workload::Operation;
    const Answer answer = outcome == Outcome::ok          ? Answer::done
                          : outcome == Outcome::exists    ? Answer::exists
                          : outcome == Outcome::not_found ? Answer::not_found
                                                          : Answer::refused;
    switch (ticket.operation) {
      case Operation::lookup:
      case Operation::lookup_negative:
        verifier_->end_lookup(ticket, answer, value_);
        break;
      case Operation::scan:
        if (answer == Answer::done && scan_.size() == 0) break;  // nothing that could be checked
        verifier_->end_scan(ticket, scan_);
        break;
      default:
        verifier_->end(ticket, answer);
    }
  }

  Index& index_;
  const Clock& clock_;
  workload::Verifier* const verifier_;
  workload::ValueCodec codec_;
  workload::OperationStream stream_;
  StepBuffer<Keys> buffer_;
  std::optional<Schedule> schedule_;
  typename Keys::ValueOut value_{};
  typename Keys::Scan scan_;
  std::string written_;
  Loop loop_ = nullptr;
  bool paced_ = true;
  bool keeps_answers_;
  std::string answers_;

  std::size_t size_ = 0;              ///< steps in the buffer
  std::size_t executed_ = 0;          ///< of them
  std::size_t counted_ = 0;           ///< of those, in tally.attempted
  std::uint64_t done_before_ = 0;     ///< operations of earlier blocks
  std::unique_ptr<Samples> samples_;  ///< null: all operations are timed, or none
};

}  // namespace perdure::driver
