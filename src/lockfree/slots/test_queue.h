// What the tests of queues share: a queue in a pool that lies in the test's memory, so that a power
// cut is a copy of it, and behaviours that every queue has.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/rng.h"
#include "lockfree/base/queue_registry.h"
#include "pm/pm.h"

namespace perdure::lockfree_test {

struct FreePages {
  void operator()(std::byte* memory) const noexcept { std::free(memory); }
};
using Pages = std::unique_ptr<std::byte, FreePages>;

inline Pages new_pages(std::size_t bytes) {
  Pages pages(static_cast<std::byte*>(std::aligned_alloc(4096, bytes)));
  std::memset(pages.get(), 0, bytes);
  return pages;
}

inline IndexOptions options_of(std::uint64_t slots, std::uint64_t payload_bytes) {
  IndexOptions options;
  options.set("slots", slots);
  options.set("payload_bytes", payload_bytes);
  return options;
}

/// A registered queue; a persistent one with a pool of its own.
class TestQueue {
 public:
  explicit TestQueue(const std::string& name, IndexOptions options = options_of(64, 512),
                     std::size_t bytes = 2 << 20)
      : info_(**QueueRegistry::find(name)), bytes_(bytes) {
    place_.options = std::move(options);
    if (persists()) {
      memory_ = new_pages(bytes_);
      pool_ = std::move(Pool::create_in(span())).value();
      place_.pool = pool_.get();
    }
    auto made = create_queue(info_, place_);
    if (!made) ADD_FAILURE() << made.error().line();
    if (made) queue_ = std::move(made).value();
  }

  [[nodiscard]] bool persists() const { return uses_pool(info_.index_class); }
  [[nodiscard]] const QueueInfo& info() const { return info_; }
  [[nodiscard]] DurableQueue& operator*() const { return *queue_; }
  [[nodiscard]] DurableQueue* operator->() const { return queue_.get(); }
  [[nodiscard]] Pool& pool() const { return *pool_; }
  [[nodiscard]] QueuePlace& place() { return place_; }
  [[nodiscard]] std::span<std::byte> span() const { return {memory_.get(), bytes_}; }

  /// What is in memory now is what the power cut leaves, changed by `damage`.
  template <class Damage>
  [[nodiscard]] Result<void> crash(Damage&& damage) {
    Pages image = new_pages(bytes_);
    std::memcpy(image.get(), memory_.get(), bytes_);
    close();
    memory_ = std::move(image);
    damage(memory_.get());
    auto pool = Pool::open_in(span());
    if (!pool) return pool.error();
    pool_ = std::move(pool).value();
    place_.pool = pool_.get();
    auto recovered = recover_queue(info_, place_);
    if (!recovered) return recovered.error();
    queue_ = std::move(recovered).value();
    return {};
  }
  [[nodiscard]] Result<void> crash() {
    return crash([](std::byte*) {});
  }
  /// A clean close, and the next opening.
  [[nodiscard]] Result<void> restart() {
    settle_queue(*queue_, *pool_, place_.root_name);
    queue_.reset();
    if (auto closed = pool_->close(); !closed) return closed;
    return crash();
  }
  void close() {
    queue_.reset();
    pool_.reset();
  }

 private:
  const QueueInfo& info_;
  std::size_t bytes_;
  QueuePlace place_;
  Pages memory_;
  std::unique_ptr<Pool> pool_;
  std::unique_ptr<DurableQueue> queue_;
};

[[nodiscard]] inline testing::AssertionResult holds(const Result<void>& result) {
  if (result.ok()) return testing::AssertionSuccess();
  return testing::AssertionFailure() << result.error().line();
}

/// Of any length, unlike others near it.
inline std::string payload_of(std::uint64_t stamp, std::size_t bytes) {
  std::string payload(bytes, '\0');
  for (std::size_t i = 0; i < bytes; ++i)
    payload[i] = static_cast<char>(mix64(stamp + i / 8) >> (8 * (i % 8)));
  return payload;
}

/// Takes all of it out.
inline void expect_content(DurableQueue& queue, const std::deque<std::string>& model) {
  ASSERT_TRUE(holds(queue.check_invariants()));
  ASSERT_EQ(queue.size(), model.size());
  std::string payload;
  for (const std::string& expected : model) {
    ASSERT_EQ(queue.pop(payload), Outcome::ok);
    ASSERT_EQ(payload, expected);
  }
  payload = "untouched";
  ASSERT_EQ(queue.pop(payload), Outcome::not_found);
  ASSERT_EQ(payload, "untouched");
  ASSERT_TRUE(holds(queue.check_invariants()));
}

/// A history of one thread beside a model, with power cuts and restarts in between.
inline void agree_with_a_model(TestQueue& queue, unsigned operations, std::uint64_t seed = 7) {
  const std::size_t most = queue->payload_bytes();
  std::deque<std::string> model;
  Rng rng(seed);
  std::string payload;
  for (unsigned i = 0; i < operations; ++i) {
    const bool grows = i / 150 % 2 == 0;
    if (rng.below(10) < (grows ? 7U : 3U)) {
      const std::size_t bytes = rng.below(3) == 0 ? most : rng.below(most + 1);
      payload = payload_of(rng(), bytes);
      const bool full = model.size() == queue->capacity();
      ASSERT_EQ(queue->push(payload), full ? Outcome::out_of_space : Outcome::ok) << i;
      if (!full) model.push_back(payload);
    } else {
      ASSERT_EQ(queue->pop(payload), model.empty() ? Outcome::not_found : Outcome::ok) << i;
      if (!model.empty()) {
        ASSERT_EQ(payload, model.front()) << i;
        model.pop_front();
      }
    }
    if (i % 97 == 0) {
      ASSERT_EQ(queue->size(), model.size());
      ASSERT_TRUE(holds(queue->check_invariants())) << i;
    }
    if (queue.persists() && i % 211 == 210) {
      ASSERT_TRUE(holds(queue.crash())) << i;
    }
    if (queue.persists() && i % 509 == 508) {
      ASSERT_TRUE(holds(queue.restart())) << i;
    }
  }
  expect_content(*queue, model);
}

/// Producers and consumers at the same time: nothing is lost, nothing comes twice, and what comes
/// from one producer comes in its order. With `tags`, pushes carry them.
inline void move_between_threads(DurableQueue& queue, unsigned producers, unsigned consumers,
                                 std::uint32_t each, bool tags) {
  const std::size_t bytes = std::min<std::size_t>(queue.payload_bytes(), 300);
  std::atomic<std::uint64_t> popped{0};
  std::vector<std::vector<std::pair<std::uint32_t, std::uint32_t>>> got(consumers);
  std::vector<std::thread> threads;
  for (std::uint32_t p = 0; p < producers; ++p)
    threads.emplace_back([&, p] {
      for (std::uint32_t i = 0; i < each; ++i) {
        std::string payload = payload_of(p * 1000003ULL + i, i % 3 == 0 ? bytes : 8);
        std::memcpy(payload.data(), &p, 4);
        std::memcpy(payload.data() + 4, &i, 4);
        const PushTag tag{p, i + 1};
        for (;;) {
          const Outcome outcome = tags ? queue.push(payload, tag) : queue.push(payload);
          if (outcome == Outcome::ok) break;
          ASSERT_EQ(outcome, Outcome::out_of_space);
          std::this_thread::yield();
        }
      }
    });
  for (unsigned c = 0; c < consumers; ++c)
    threads.emplace_back([&, c] {
      std::string payload;
      while (popped.load() < std::uint64_t{producers} * each) {
        if (queue.pop(payload) != Outcome::ok) {
          std::this_thread::yield();
          continue;
        }
        popped.fetch_add(1);
        std::uint32_t p = 0;
        std::uint32_t i = 0;
        ASSERT_GE(payload.size(), 8U);
        std::memcpy(&p, payload.data(), 4);
        std::memcpy(&i, payload.data() + 4, 4);
        std::string expected = payload_of(p * 1000003ULL + i, payload.size());
        std::memcpy(expected.data(), payload.data(), 8);
        ASSERT_EQ(payload, expected);
        got[c].emplace_back(p, i);
      }
    });
  for (std::thread& thread : threads) thread.join();
  std::map<std::pair<std::uint32_t, std::uint32_t>, unsigned> times;
  for (const auto& some : got) {
    std::map<std::uint32_t, std::uint32_t> last;
    for (const auto& [p, i] : some) {
      ++times[{p, i}];
      const auto [at, first] = last.try_emplace(p, i);
      if (!first) {
        ASSERT_LT(at->second, i) << "producer " << p;
        at->second = i;
      }
    }
  }
  ASSERT_EQ(times.size(), std::size_t{producers} * each);
  for (const auto& [what, count] : times) ASSERT_EQ(count, 1U);
  ASSERT_TRUE(holds(queue.check_invariants()));
}

}  // namespace perdure::lockfree_test
