#include "driver/queue_verifier.h"

#include <algorithm>

#include "core/rng.h"
#include "driver/queue_payload.h"

namespace perdure::driver {
namespace {

std::string named(PushTag push) {
  return "push " + std::to_string(push.number) + " of producer " + std::to_string(push.producer);
}

}  // namespace

QueueVerifier::QueueVerifier(unsigned producers, unsigned poppers, std::size_t payload_bytes)
    : poppers_(poppers),
      payload_bytes_(payload_bytes),
      producers_(producers),
      adopted_(producers, 0) {}

PushTag QueueVerifier::adopt(std::string_view payload) {
  checked_.fetch_add(1, std::memory_order_relaxed);
  const auto push = push_of(payload, payload_bytes_);
  if (!push) {
    report("a recovered payload of " + std::to_string(payload.size()) +
           " bytes is no whole payload of " + std::to_string(payload_bytes_) + " bytes");
    return {};
  }
  // An earlier run may have had more producers.
  if (push->producer >= adopted_.size()) adopted_.resize(push->producer + std::size_t{1}, 0);
  std::uint64_t& last = adopted_[push->producer];
  if (push->number <= last)
    report("recovered " + named(*push) + " after its push " + std::to_string(last));
  last = std::max(last, push->number);
  return *push;
}

void QueueVerifier::pushed(PushTag push) noexcept {
  Producer& producer = producers_[push.producer];
  producer.pushed_sum.fetch_add(mix64(push.number), std::memory_order_relaxed);
  producer.pushed.fetch_add(1, std::memory_order_release);
}

void QueueVerifier::before_pop(Before& before) const {
  before.newest.resize(producers_.size());
  for (std::size_t i = 0; i < producers_.size(); ++i)
    before.newest[i] = producers_[i].newest.load(std::memory_order_acquire);
  before.pushed = all_pushed();
}

void QueueVerifier::popped(const Before& before, std::string_view payload) {
  checked_.fetch_add(1, std::memory_order_relaxed);
  const auto push = push_of(payload, payload_bytes_);
  if (!push || push->producer >= producers_.size())
    return report("popped " + std::to_string(payload.size()) + " bytes that are no whole payload");
  Producer& producer = producers_[push->producer];
  if (push->number <= before.newest[push->producer])
    report("popped " + named(*push) + " after its push " +
           std::to_string(before.newest[push->producer]));
  producer.popped_sum.fetch_add(mix64(push->number), std::memory_order_relaxed);
  producer.popped.fetch_add(1, std::memory_order_relaxed);
  std::uint64_t newest = producer.newest.load(std::memory_order_relaxed);
  while (newest < push->number &&
         !producer.newest.compare_exchange_weak(newest, push->number, std::memory_order_acq_rel)) {
  }
}

void QueueVerifier::found_empty(const Before& before) {
  checked_.fetch_add(1, std::memory_order_relaxed);
  std::uint64_t popped = 0;
  for (const Producer& producer : producers_)
    popped += producer.popped.load(std::memory_order_acquire);
  if (before.pushed > popped + poppers_ - 1)
    report("found empty with " + std::to_string(before.pushed - popped) + " payloads in it");
}

void QueueVerifier::emptied() {
  for (std::size_t i = 0; i < producers_.size(); ++i) {
    const Producer& producer = producers_[i];
    const std::uint64_t pushed = producer.pushed.load();
    const std::uint64_t popped = producer.popped.load();
    checked_.fetch_add(1, std::memory_order_relaxed);
    if (pushed != popped)
      report("of " + std::to_string(pushed) + " payloads of producer " + std::to_string(i) + ", " +
             std::to_string(popped) + " were popped");
    else if (producer.pushed_sum.load() != producer.popped_sum.load())
      report("of producer " + std::to_string(i) +
             " as many payloads were popped as pushed, but not the same");
  }
}

QueueVerifier::Summary QueueVerifier::summary() const {
  const std::scoped_lock lock(mutex_);
  Summary summary = found_;
  summary.checked = checked_.load();
  summary.wrong = std::min(summary.wrong, summary.checked);
  return summary;
}

std::uint64_t QueueVerifier::all_pushed() const noexcept {
  std::uint64_t sum = 0;
  for (const Producer& producer : producers_)
    sum += producer.pushed.load(std::memory_order_acquire);
  return sum;
}

void QueueVerifier::report(const std::string& what) {
  const std::scoped_lock lock(mutex_);
  ++found_.wrong;
  if (found_.examples.size() < workload::Verifier::most_examples) found_.examples.push_back(what);
}

}  // namespace perdure::driver
