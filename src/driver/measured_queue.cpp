#include "driver/measured_queue.h"

#include <algorithm>
#include <string>
#include <utility>

#include "driver/queue_payload.h"

namespace perdure::driver {

MeasuredQueue::MeasuredQueue(const RunContext& run)
    : run_(run),
      config_(run.config),
      queue_run_(*run.config.queue),
      site_(run),
      producers_(queue_run_.producers) {
  if (config_.verify)
    verifier_ = std::make_unique<QueueVerifier>(
        queue_run_.producers, std::max(queue_run_.consumers, 1U), queue_run_.payload_bytes);
}

Result<void> MeasuredQueue::open() {
  auto opened = site_.open([this] { return make(); }, [this] { return queue_->size(); });
  return opened ? check_fit() : opened;
}

Result<void> MeasuredQueue::make() {
  QueuePlace place;
  place.pool = site_.pool();
  place.options = config_.options;
  place.huge_pages = config_.huge_pages;
  auto made =
      config_.reuse ? recover_queue(queue_run_.info, place) : create_queue(queue_run_.info, place);
  if (!made) return made.error();
  queue_ = std::move(made).value();
  return {};
}

Result<void> MeasuredQueue::check_fit() const {
  const auto refuse = [](std::string what, const std::string& where, std::string remedy) {
    return Error{ErrorCode::usage, std::move(what), where, std::move(remedy)};
  };
  const std::string name = config_.index.full_name();
  const std::size_t longest = queue_->payload_bytes();
  const std::uint64_t capacity = queue_->capacity();
  const std::uint64_t pushes = queue_run_.consumers == 0 ? config_.workload.operations : 0;
  if (queue_run_.payload_bytes > longest)
    return refuse(name + " takes payloads of up to " + std::to_string(longest) + " bytes",
                  "--payload " + std::to_string(queue_run_.payload_bytes),
                  "give that or less, or look for an option with `perdure list options`");
  if (queue_run_.prefill > capacity)
    return refuse(name + " holds " + std::to_string(capacity) + " payloads",
                  "--prefill " + std::to_string(queue_run_.prefill), "give that many or fewer");
  if (pushes > capacity - queue_run_.prefill)
    return refuse(name + " has room for " + std::to_string(capacity - queue_run_.prefill) +
                      " payloads, and nobody takes one out",
                  "--operations " + std::to_string(pushes), "give fewer, or add --consumers");
  return {};
}

void MeasuredQueue::take_over() {
  run_.progress.show("empty the reused queue", -1, 0);
  for (unsigned p = 0; p < producers_.size(); ++p) producers_[p].last_number = queue_->last_push(p);
  std::string payload;
  for (std::uint64_t left = queue_->size(); left != 0 && queue_->pop(payload) == Outcome::ok;
       --left) {
    const PushTag push = verifier_ ? verifier_->adopt(payload)
                                   : push_of(payload, queue_run_.payload_bytes).value_or(PushTag{});
    if (push.producer >= producers_.size()) continue;
    std::uint64_t& last = producers_[push.producer].last_number;
    last = std::max(last, push.number);
  }
  check_size();
}

Result<void> MeasuredQueue::load() {
  const Ticks start = run_.clock.now();
  bring_to(queue_run_.prefill);
  if (!config_.reuse) {
    run_.result.load.seconds = run_.clock.to_seconds(run_.clock.now() - start);
    run_.result.load.records = inside_.load();
  }
  if (inside_.load() == queue_run_.prefill) return {};
  return Error{ErrorCode::out_of_space,
               "is full with " + std::to_string(inside_.load()) + " of " +
                   std::to_string(queue_run_.prefill) + " payloads",
               config_.index.full_name(), "give fewer --prefill or more --pool-bytes"};
}

void MeasuredQueue::level() {
  check_size();
  bring_to(queue_run_.prefill);
  done_.store(0);
  departure_.begin(queue_run_.producers, queue_run_.consumers);
}

void MeasuredQueue::empty_and_refill() {
  bring_to(0);
  check_size();
  if (verifier_) verifier_->emptied();
  bring_to(queue_run_.prefill);
}

// One payload that is not there more or fewer must not make this endless.
void MeasuredQueue::bring_to(std::uint64_t payloads) {
  std::string payload;
  QueueVerifier::Before before;
  while (inside_.load() > payloads) {
    if (verifier_) verifier_->before_pop(before);
    if (queue_->pop(payload) != Outcome::ok)
      return note_fault("is empty, and " + std::to_string(inside_.load()) +
                        " payloads were pushed and not popped");
    if (verifier_) verifier_->popped(before, payload);
    note_work(0, 1);
  }
  while (inside_.load() < payloads && push_one() == Outcome::ok) note_work(1, 0);
}

Outcome MeasuredQueue::push_one() {
  const unsigned producer = next_producer_;
  next_producer_ = (producer + 1) % static_cast<unsigned>(producers_.size());
  std::uint64_t& number = producers_[producer].last_number;
  QueuePayload payload(producer, queue_run_.payload_bytes);
  const PushTag tag{producer, number + 1};
  const Outcome outcome = queue_->push(payload.of(tag.number), tag);
  if (outcome != Outcome::ok) return outcome;
  ++number;
  if (verifier_) verifier_->pushed(tag);
  return outcome;
}

void MeasuredQueue::check_size() {
  const std::uint64_t size = queue_->size();
  if (size != inside_.load())
    note_fault("holds " + std::to_string(size) + " payloads, and " +
               std::to_string(inside_.load()) + " were pushed and not popped");
}

void MeasuredQueue::note_fault(std::string what) {
  if (!fault_) fault_ = Error{ErrorCode::failed, std::move(what), config_.index.full_name(), ""};
}

void MeasuredQueue::measure_memory() { site_.measure_memory(queue_->dram_bytes()); }

Result<void> MeasuredQueue::check_invariants() {
  queue_->quiesce();
  return queue_->check_invariants();
}

Result<void> MeasuredQueue::close() {
  // A simulation's process ends with the run: a queue that keeps nothing need not be taken apart.
  if (Target::simulates && config_.index.index_class == IndexClass::in_memory)
    static_cast<void>(queue_.release());
  if (queue_ && site_.is_kept()) settle_queue(*queue_, *site_.pool(), QueuePlace{}.root_name);
  queue_.reset();
  return site_.close();
}

}  // namespace perdure::driver
