#include "driver/queue_worker.h"

#include <algorithm>
#include <limits>

#include "pm/hints.h"

namespace perdure::driver {
namespace {

using workload::Operation;

constexpr std::uint64_t endless = std::numeric_limits<std::uint64_t>::max();

}  // namespace

QueueWorker::QueueWorker(const BenchConfig& config, MeasuredQueue& queue, unsigned thread,
                         const Clock& clock)
    : tally(config.measures_latency(), false),
      clock_(clock),
      queue_(queue),
      role_(*config.queue),
      thread_(thread),
      every_(config.latency == Latency::every),
      think_(config, clock),
      payload_(thread, role_.payload_bytes) {
  popped_.reserve(role_.payload_bytes);
  if (config.latency == Latency::sampled) samples_ = std::make_unique<Samples>(config, thread);
}

void QueueWorker::begin(unsigned, std::uint64_t pushes, bool paced) {
  tally.clear();
  thinks_ = paced && think_.any();
  part_ = {};
  const unsigned threads = produces() ? role_.producers : role_.consumers;
  const unsigned place = produces() ? thread_ : thread_ - role_.producers;
  part_.left = pushes == 0 ? endless : pushes / threads + (place < pushes % threads ? 1 : 0);
  if (part_.left == 0) end_part();
}

void QueueWorker::end_part() noexcept {
  if (produces()) queue_.note_producer_done();
  leave();
}

void QueueWorker::leave() noexcept {
  queue_.departure().leave(side());
  part_.inside = false;
}

void QueueWorker::run(Rounds& rounds, OperationCounter& counter, Ticks, Ticks) {
  // A simulation looks for signals between blocks.
  constexpr std::uint64_t simulated_block = 4096;
  std::uint64_t block = Target::simulates ? simulated_block : endless;
  for (; part_.left != 0 && block != 0 && !rounds.round_over(); --block) {
    if (!(produces() ? push(rounds) : pop(rounds))) break;
    ++part_.executed;
    if (part_.left != endless && --part_.left == 0) end_part();
    counter.done.store(part_.executed, std::memory_order_relaxed);
    if (thinks_ && part_.left != 0) think_.pass(rounds);
  }
  if (part_.inside && rounds.round_over()) depart();
}

void QueueWorker::depart() {
  constexpr unsigned turns_before_help = 256;
  Departure& departure = queue_.departure();
  leave();
  unsigned turn = 0;
  for (pm::Backoff backoff; !departure.all_out(); backoff.wait()) {
    if (++turn % turns_before_help != 0 || !departure.return_to_help(side())) continue;
    help();
    departure.leave(side());
  }
}

void QueueWorker::help() {
  QueueVerifier* const verifier = queue_.verifier();
  if (produces()) {
    std::uint64_t& number = queue_.last_number(thread_);
    const PushTag tag{thread_, number + 1};
    if (queue_.queue().push(payload_.of(tag.number), tag) != Outcome::ok) return;
    number = tag.number;
    if (verifier != nullptr) verifier->pushed(tag);
  } else {
    if (verifier != nullptr) verifier->before_pop(before_);
    if (queue_.queue().pop(popped_) != Outcome::ok) return;
    if (verifier != nullptr) verifier->popped(before_, popped_);
  }
  ++part_.helped;
}

bool QueueWorker::push(const Rounds& rounds) {
  std::uint64_t& number = queue_.last_number(thread_);
  PushTag tag{thread_, number + 1};
  std::string_view payload;
  {
    const Unmeasured free;
    payload = payload_.of(tag.number);
  }
  const Outcome outcome = call(Operation::push, Outcome::out_of_space, rounds,
                               [&] { return queue_.queue().push(payload, tag); });
  if (outcome == Outcome::out_of_space) return false;
  const Unmeasured free;
  note(Operation::push, outcome);
  if (outcome != Outcome::ok) return true;
  number = tag.number;
  if (QueueVerifier* const verifier = queue_.verifier()) verifier->pushed(tag);
  return true;
}

bool QueueWorker::pop(const Rounds& rounds) {
  QueueVerifier* const verifier = queue_.verifier();
  const Outcome outcome =
      call(Operation::pop, Outcome::not_found, rounds, [&] { return queue_.queue().pop(popped_); });
  if (outcome == Outcome::not_found) return false;
  const Unmeasured free;
  note(Operation::pop, outcome);
  if (verifier != nullptr && outcome == Outcome::ok) verifier->popped(before_, popped_);
  return true;
}

template <class Call>
Outcome QueueWorker::call(Operation operation, Outcome again, const Rounds& rounds, Call&& once) {
  QueueVerifier* const verifier = operation == Operation::pop ? queue_.verifier() : nullptr;
  const bool timed = is_timed();
  for (pm::Backoff backoff;; backoff.wait()) {
    if (verifier != nullptr) {
      const Unmeasured free;
      verifier->before_pop(before_);
    }
    // An operation that is timed alone stands between fences; where all are, the fences of each
    // would be in the way of the next.
    const Ticks start = !timed ? 0 : every_ ? clock_.now() : clock_.now_in_order();
    const Outcome outcome = once();
    const Ticks end = !timed ? 0 : every_ ? clock_.now() : clock_.now_in_order();
    if (outcome != again) [[likely]] {
      if (timed) record(operation, end - start);
      return outcome;
    }
    const Unmeasured free;
    ++tally.retried[operation];
    if (verifier != nullptr) verifier->found_empty(before_);
    if (rounds.round_over() || waits_in_vain()) return again;
  }
}

// A queue that has lost a payload would hold its consumers for ever, a full one that nobody empties
// its producers.
bool QueueWorker::waits_in_vain() noexcept {
  if (produces() ? role_.consumers == 0 : part_.producers_done) {
    if (produces()) note(Operation::push, Outcome::out_of_space);
    part_.left = 0;
    leave();
    return true;
  }
  part_.producers_done = queue_.all_producers_done();
  return false;
}

void QueueWorker::record(Operation operation, Ticks duration) noexcept {
  const Unmeasured free;
  (*tally.latency_ns)[operation].record(clock_.to_ns(duration));
  if (samples_) samples_->draw();
}

void QueueWorker::note(Operation operation, Outcome outcome) noexcept {
  ++tally.attempted[operation];
  if (outcome == Outcome::ok) return;
  ++tally.failed[operation];
  ++tally.refused;
}

void QueueWorker::finish() {
  if (part_.inside) depart();  // stopped between two blocks
  const Unmeasured free;
  if (samples_) samples_->skip(part_.executed);
  const auto succeeded = [this](Operation operation) {
    return tally.attempted[operation] - tally.failed[operation];
  };
  queue_.note_work(succeeded(Operation::push) + (produces() ? part_.helped : 0),
                   succeeded(Operation::pop) + (produces() ? 0 : part_.helped));
}

}  // namespace perdure::driver
