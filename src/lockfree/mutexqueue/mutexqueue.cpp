// `queue:mutex`: a deque under one lock, for comparison. See design.md.
#include <deque>
#include <utility>

#include "lockfree/base/queue_registry.h"
#include "pm/pm.h"

namespace perdure {
namespace {

class MutexQueue final : public DurableQueue {
 public:
  explicit MutexQueue(std::uint64_t slots) : slots_(slots) {}

  using DurableQueue::push;
  Outcome push(std::string_view payload) override {
    if (payload.size() > max_payload_bytes) return Outcome::invalid;
    std::string kept(payload);  // allocated before the lock is taken: others need not wait for it
    const pm::SharedLock::WriteGuard guard(lock_);
    if (payloads_.size() == slots_) return Outcome::out_of_space;
    payload_bytes_ += kept.capacity();
    payloads_.push_back(std::move(kept));
    return Outcome::ok;
  }

  Outcome pop(std::string& payload) override {
    std::string oldest;
    {
      const pm::SharedLock::WriteGuard guard(lock_);
      if (payloads_.empty()) return Outcome::not_found;
      oldest = std::move(payloads_.front());
      payloads_.pop_front();
      payload_bytes_ -= oldest.capacity();
    }
    payload = std::move(oldest);
    return Outcome::ok;
  }

  std::uint64_t size() const override {
    const pm::SharedLock::ReadGuard guard(lock_);
    return payloads_.size();
  }
  std::uint64_t capacity() const override { return slots_; }
  std::size_t payload_bytes() const override { return max_payload_bytes; }

  Result<void> check_invariants() const override {
    const pm::SharedLock::ReadGuard guard(lock_);
    if (payloads_.size() <= slots_) return {};
    return Error{ErrorCode::corrupt, "holds more payloads than it has slots", "queue:mutex", ""};
  }

  std::uint64_t dram_bytes() const override {
    const pm::SharedLock::ReadGuard guard(lock_);
    return payloads_.size() * sizeof(std::string) + payload_bytes_;
  }

 private:
  const std::uint64_t slots_;
  mutable pm::SharedLock lock_;
  std::deque<std::string> payloads_;
  std::uint64_t payload_bytes_ = 0;
};

MadeQueue create(const QueuePlace& place) {
  return std::unique_ptr<DurableQueue>(std::make_unique<MutexQueue>(place.options.get("slots")));
}

PERDURE_REGISTER_QUEUE(mutexqueue,
                       QueueInfo{
                           .name = "queue",
                           .mode = "mutex",
                           .title = "std::deque under one lock (volatile)",
                           .index_class = IndexClass::in_memory,
                           .progress = Progress::blocking,
                           .options = {{"slots", "payloads it can hold", 32768, 1, 1ULL << 32}},
                           .create = create,
                       });

}  // namespace
}  // namespace perdure
