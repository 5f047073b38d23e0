// Queues for tests of what the driver must notice or bear: right ones, one in a pool, and some that
// misbehave on purpose.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "driver/config.h"

namespace perdure::driver::testing {

/// A correct bounded queue whose parts a fault may override.
class FakeQueue : public DurableQueue {
 public:
  explicit FakeQueue(const QueuePlace&) {}

  using DurableQueue::push;
  Outcome push(std::string_view payload) override {
    const std::scoped_lock lock(mutex_);
    if (payloads_.size() == slots) return Outcome::out_of_space;
    payloads_.emplace_back(payload);
    return Outcome::ok;
  }
  Outcome pop(std::string& payload) override {
    const std::scoped_lock lock(mutex_);
    if (payloads_.empty()) return Outcome::not_found;
    payload = payloads_.front();
    payloads_.pop_front();
    return Outcome::ok;
  }
  std::uint64_t size() const override { return payloads_.size(); }
  std::uint64_t capacity() const override { return slots; }
  std::size_t payload_bytes() const override { return 4096; }
  Result<void> check_invariants() const override { return {}; }
  std::uint64_t dram_bytes() const override { return 0; }

 protected:
  static constexpr std::size_t slots = 64;
  std::mutex mutex_;
  std::deque<std::string> payloads_;
};

/// Holds its callers inside until there is a payload, or room.
class WaitingQueue : public FakeQueue {
 public:
  using FakeQueue::FakeQueue;
  using FakeQueue::push;
  Outcome push(std::string_view payload) override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return payloads_.size() < slots; });
    payloads_.emplace_back(payload);
    changed_.notify_all();
    return Outcome::ok;
  }
  Outcome pop(std::string& payload) override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !payloads_.empty(); });
    payload = payloads_.front();
    payloads_.pop_front();
    changed_.notify_all();
    return Outcome::ok;
  }

 private:
  std::condition_variable changed_;
};

/// A correct queue in a pool; a crash in the middle of an operation is not its concern.
class PoolQueue final : public DurableQueue {
 public:
  struct Slot {
    std::uint64_t bytes;
    char payload[248];
  };
  struct Media {
    std::uint64_t head;
    std::uint64_t tail;
    Slot slots[64];
  };

  explicit PoolQueue(Media& media) : media_(media) {}

  static MadeQueue create(const QueuePlace& place) {
    Reservation block = place.pool->heap().reserve(sizeof(Media));
    if (!block) return Error{ErrorCode::out_of_space, "no room", "", ""};
    auto* const media = place.pool->at<Media>(block.offset);
    media->head = media->tail = 0;
    pm::persist(media, sizeof(Media));
    if (auto added = place.pool->add_root(place.root_name, block); !added) return added.error();
    return std::unique_ptr<DurableQueue>(std::make_unique<PoolQueue>(*media));
  }
  static MadeQueue recover(const QueuePlace& place) {
    for (const PoolRoot& root : place.pool->roots()) {
      if (root.name != place.root_name) continue;
      if (auto done = place.pool->root_recovered(root.name); !done) return done.error();
      return std::unique_ptr<DurableQueue>(
          std::make_unique<PoolQueue>(*place.pool->at<Media>(root.offset)));
    }
    return Error{ErrorCode::not_found, "no such root", "", ""};
  }

  using DurableQueue::push;
  Outcome push(std::string_view payload) override {
    const std::scoped_lock lock(mutex_);
    if (payload.size() > payload_bytes()) return Outcome::invalid;
    if (size() == capacity()) return Outcome::out_of_space;
    Slot& slot = media_.slots[media_.tail % capacity()];
    slot.bytes = payload.size();
    std::memcpy(slot.payload, payload.data(), payload.size());
    ++media_.tail;
    pm::persist(&media_, sizeof(Media));
    return Outcome::ok;
  }
  Outcome pop(std::string& payload) override {
    const std::scoped_lock lock(mutex_);
    if (size() == 0) return Outcome::not_found;
    const Slot& slot = media_.slots[media_.head++ % capacity()];
    payload.assign(slot.payload, slot.bytes);
    pm::persist(&media_, sizeof(Media));
    return Outcome::ok;
  }
  std::uint64_t size() const override { return media_.tail - media_.head; }
  std::uint64_t capacity() const override { return std::size(media_.slots); }
  std::size_t payload_bytes() const override { return sizeof(Slot::payload); }
  Result<void> check_invariants() const override { return {}; }
  std::uint64_t dram_bytes() const override { return 0; }

 private:
  std::mutex mutex_;
  Media& media_;
};

template <class Fake>
MadeQueue create_fake_queue(const QueuePlace& place) {
  return std::unique_ptr<DurableQueue>(std::make_unique<Fake>(place));
}

/// Two producers and two consumers, ten thousand payloads of 64 bytes, two repetitions.
[[nodiscard]] inline BenchConfig config_for_queue(const QueueInfo& info) {
  BenchConfig config;
  QueueRun& queue = config.queue.emplace();
  queue.info = info;
  queue.producers = queue.consumers = 2;
  queue.payload_bytes = 64;
  config.index.name = info.name;
  config.index.index_class = info.index_class;
  config.threads = 4;
  config.workload.records = 0;
  config.workload.mix = workload::Mix::pushes_and_pops();
  config.workload.limit_operations(10'000);
  config.repetitions = 2;
  config.pin = false;
  return config;
}

template <class Fake>
[[nodiscard]] BenchConfig config_for_queue() {
  QueueInfo info;
  info.name = "fake";
  info.index_class = IndexClass::in_memory;
  info.create = create_fake_queue<Fake>;
  return config_for_queue(info);
}

}  // namespace perdure::driver::testing
