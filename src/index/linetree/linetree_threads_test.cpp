// LineTree under several threads: every answer is checked while they run, and the whole afterwards.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "index/common/test_locks.h"
#include "index/linetree/test_support.h"

namespace perdure {
namespace {

using linetree_test::expect_equal;
using linetree_test::IntegerModel;
using linetree_test::Integers;
using linetree_test::large_pool;
using linetree_test::succeeds;
using Leaf = linetree::Leaf;

constexpr unsigned threads = 4;
/// Each thread owns the keys whose number leaves its remainder, and knows what they must hold; the
/// records of all threads lie mixed in the same leaves. Keys are dense, so leaves split and merge.
class Worker {
 public:
  Worker(IntegerIndex& index, unsigned thread, std::uint64_t keys)
      : index_(index), thread_(thread), keys_(keys), rng_(77, thread) {}

  void run(unsigned steps) {
    for (unsigned step = 0; step < steps && !testing::Test::HasFailure(); ++step) {
      // Phases of growing and of shrinking, so that whole leaves empty.
      const bool shrinking = step * 8 / steps % 2 == 1;
      const std::uint64_t key = rng_.below(keys_) * threads + thread_;
      const bool present = model.contains(key);
      const std::uint64_t kind = rng_.below(16);
      const std::uint64_t value = rng_();
      if (kind < 10 && shrinking) {
        EXPECT_EQ(index_.remove(key), present ? Outcome::ok : Outcome::not_found);
        model.erase(key);
      } else if (kind < 8) {
        EXPECT_EQ(index_.insert(key, value), present ? Outcome::exists : Outcome::ok);
        model.emplace(key, value);
      } else if (kind < 10) {
        EXPECT_EQ(index_.upsert(key, value), Outcome::ok);
        model[key] = value;
      } else if (kind < 12) {
        EXPECT_EQ(index_.update(key, value), present ? Outcome::ok : Outcome::not_found);
        if (present) model[key] = value;
      } else if (kind < 14) {
        std::uint64_t out = 0;
        EXPECT_EQ(index_.lookup(key, out), present ? Outcome::ok : Outcome::not_found);
        if (present) {
          EXPECT_EQ(out, model[key]);
        }
      } else if (kind == 14) {
        look_up_all_around(key);
      } else {
        scan(key);
      }
    }
  }

  IntegerModel model;

 private:
  void look_up_all_around(std::uint64_t key) {
    std::vector<std::uint64_t> keys;
    for (std::uint64_t i = 0; i < 20; ++i) keys.push_back(key + i * threads);
    std::vector<std::uint64_t> values(keys.size());
    std::vector<Outcome> outcomes(keys.size());
    index_.lookup_batch(keys, values, outcomes);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const auto at = model.find(keys[i]);
      EXPECT_EQ(outcomes[i], at != model.end() ? Outcome::ok : Outcome::not_found);
      if (at != model.end()) {
        EXPECT_EQ(values[i], at->second);
      }
    }
  }

  // Ascending without duplicates, and of our own keys in its range exactly those that are there.
  void scan(std::uint64_t from) {
    const std::size_t count = 1 + rng_.below(100);
    index_.scan(from, count, scan_);
    auto mine = model.lower_bound(from);
    for (std::size_t i = 0; i < scan_.size(); ++i) {
      if (i > 0) {
        EXPECT_LT(scan_[i - 1].key, scan_[i].key);
      }
      if (scan_[i].key % threads != thread_) continue;
      ASSERT_NE(mine, model.end());
      EXPECT_EQ(scan_[i].key, mine->first);
      EXPECT_EQ(scan_[i].value, mine->second);
      ++mine;
    }
    if (scan_.size() < count) {
      EXPECT_EQ(mine, model.end());
    }
  }

  IntegerIndex& index_;
  const unsigned thread_;
  const std::uint64_t keys_;
  Rng rng_;
  IntegerScan scan_;
};

void mixed_stress(std::uint64_t keys, unsigned steps, std::vector<std::string> options) {
  SCOPED_TRACE(options.front());
  Integers store(std::move(options), HeapKind::slab, large_pool);
  std::vector<Worker> workers;
  for (unsigned t = 0; t < threads; ++t) workers.emplace_back(store.index(), t, keys);
  std::vector<std::jthread> running;
  for (Worker& worker : workers) running.emplace_back([&] { worker.run(steps); });
  running.clear();
  IntegerModel model;
  for (const Worker& worker : workers) model.insert(worker.model.begin(), worker.model.end());
  ASSERT_NO_FATAL_FAILURE(expect_equal(store.index(), model));
  ASSERT_TRUE(succeeds(store.crash()));
  expect_equal(store.index(), model);
}

// S1-S3, T1, T3-T5: one stripe for all leaves, few, and many; inner nodes as small as they go.
TEST(LineTreeThreads, MixedOperationsAgreeWithTheModels) {
  mixed_stress(20, 30000, {"lock_stripes=32768", "lines=4"});
  mixed_stress(20, 30000, {"lock_stripes=1"});
  mixed_stress(200, 30000, {"lock_stripes=2", "lines=4", "inner_entries=3"});
  mixed_stress(300, 60000, {"lock_stripes=32768", "lines=4", "inner_entries=3"});
  mixed_stress(5000, 100000, {"lock_stripes=32768"});
}

// One of several threads that insert the same key succeeds; likewise for removing.
TEST(LineTreeThreads, EachSuccessBelongsToOneThread) {
  Integers store({"lines=4", "inner_entries=3"}, HeapKind::slab, large_pool);
  for (unsigned round = 0; round < 3; ++round) {
    std::atomic<unsigned> inserted{0};
    std::atomic<unsigned> removed{0};
    constexpr unsigned keys = 5000;
    const auto on_all = [](auto&& work) {
      std::vector<std::jthread> running;
      for (unsigned t = 0; t < threads; ++t) running.emplace_back(work);
    };
    on_all([&] {
      for (std::uint64_t key = 0; key < keys; ++key)
        if (store.index().insert(key, key) == Outcome::ok) ++inserted;
    });
    EXPECT_EQ(inserted, keys);
    EXPECT_EQ(store.index().size(), keys);
    on_all([&] {
      for (std::uint64_t key = 0; key < keys; ++key)
        if (store.index().remove(key) == Outcome::ok) ++removed;
    });
    EXPECT_EQ(removed, keys);
    ASSERT_NO_FATAL_FAILURE(expect_equal(store.index(), {}));
    EXPECT_EQ(store.peer().leaves(), 2U);
  }
}

TEST(LineTreeThreads, RefusedChangesKeepTheVersion) {
  Integers store;
  index_test::expect_refusals_keep_the_version(store.index(),
                                               store.peer().lock_of(store.peer().first()));
}

// A search of byte strings gives up where the lock is held. If that is released at the same
// version, as after a refusal, the search must not pass for one that found nothing.
TEST(LineTreeThreads, RefusalsHideNoRecord) {
  using linetree_test::name;
  linetree_test::Strings store;
  constexpr std::uint64_t keys = 8;
  for (std::uint64_t n = 0; n < keys; ++n)
    ASSERT_EQ(store.index().insert(name(n), "value"), Outcome::ok);
  std::atomic<bool> stop{false};
  std::vector<std::jthread> running;
  for (unsigned t = 0; t < 2; ++t)
    running.emplace_back([&] {
      for (std::uint64_t n = 0; !stop; n = (n + 1) % keys)
        EXPECT_EQ(store.index().insert(name(n), "other"), Outcome::exists);
    });
  std::string value;
  for (std::uint64_t i = 0; i < 200'000; ++i) {
    ASSERT_EQ(store.index().lookup(name(i % keys), value), Outcome::ok) << i;
    ASSERT_EQ(store.index().update(name(i % keys), "value"), Outcome::ok) << i;
  }
  stop = true;
}

// T3: a writer holds the lock until its change is durable; no reader returns before.
TEST(LineTreeThreads, ReadersWaitForTheLock) {
  Integers store;
  for (std::uint64_t key = 0; key < 10; ++key)
    ASSERT_EQ(store.index().insert(key, key), Outcome::ok);
  index_test::expect_readers_wait(store.index(), store.peer().lock_of(store.peer().first()),
                                  store.peer().record(5).value);
}

// S2: a merge that cannot get its neighbour's stripe lets go of its own and tries again.
TEST(LineTreeThreads, MergingWaitsForNobodyWithALockInHand) {
  Integers store({"lines=4"});
  for (std::uint64_t key = 0; key < 200; ++key)
    ASSERT_EQ(store.index().insert(key, key), Outcome::ok);
  auto peer = store.peer();
  Leaf& previous = peer.first();
  Leaf& victim = *peer.next(previous);
  const std::uint64_t begin = victim.lowest();
  const std::uint64_t end = peer.next(victim)->lowest();
  ASSERT_TRUE(peer.lock_of(previous).try_lock());
  const auto leaves = peer.leaves();
  std::jthread remover([&] {
    for (std::uint64_t key = begin; key < end; ++key)
      EXPECT_EQ(store.index().remove(key), Outcome::ok);
  });
  while (peer.info_of(victim).records() != 0) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(peer.leaves(), leaves) << "not without the neighbour's lock";
  bool taken = false;
  for (unsigned i = 0; i < 1000000 && !taken; ++i) taken = peer.lock_of(victim).try_lock();
  EXPECT_TRUE(taken) << "who merges must not keep the leaf's lock while it waits";
  if (taken) peer.lock_of(victim).unlock();
  peer.lock_of(previous).unlock();
  remover.join();
  EXPECT_EQ(peer.leaves(), leaves - 1);
  EXPECT_TRUE(succeeds(store.index().check_invariants()));
}

}  // namespace
}  // namespace perdure
