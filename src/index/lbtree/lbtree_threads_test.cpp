// LbTree under several threads: every answer is checked while they run, and the whole afterwards.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "index/common/test_locks.h"
#include "index/lbtree/test_support.h"

namespace perdure {
namespace {

using lbtree_test::expect_equal;
using lbtree_test::IntegerModel;
using lbtree_test::Model;
using lbtree_test::Store;
using lbtree_test::succeeds;
using Leaf = lbtree::Leaf;

constexpr unsigned threads = 4;

std::uint64_t make(IntegerKeys, std::uint64_t number) { return number; }
std::string make(ByteKeys, std::uint64_t number) {
  return std::string(number % 3, 'p') + std::to_string(number);
}

/// Each thread owns the keys whose number leaves its remainder, and knows what they must hold; the
/// records of all threads lie mixed in the same leaves. Keys are dense, so leaves split and vanish.
template <class Keys>
class Worker {
 public:
  Worker(OrderedIndex<Keys>& index, unsigned thread, std::uint64_t keys)
      : index_(index), thread_(thread), keys_(keys), rng_(77, thread) {}

  void run(unsigned steps) {
    for (unsigned step = 0; step < steps && !testing::Test::HasFailure(); ++step) {
      // Phases of growing and of shrinking, so that whole leaves empty.
      const bool shrinking = step * 8 / steps % 2 == 1;
      const auto key = make(Keys{}, rng_.below(keys_) * threads + thread_);
      const bool present = model.contains(key);
      const std::uint64_t kind = rng_.below(16);
      if (kind < 8) {
        shrinking ? remove(key, present) : insert(key, present);
      } else if (kind < 10) {
        shrinking ? remove(key, present) : upsert(key);
      } else if (kind < 12) {
        const auto value = make(Keys{}, rng_() >> 1);
        EXPECT_EQ(index_.update(key, value), present ? Outcome::ok : Outcome::not_found);
        if (present) model[key] = value;
      } else if (kind < 15) {
        EXPECT_EQ(index_.lookup(key, out_), present ? Outcome::ok : Outcome::not_found);
        if (present) {
          EXPECT_EQ(out_, model[key]);
        }
      } else {
        scan(key);
      }
    }
  }

  Model<Keys> model;

 private:
  template <class Key>
  void insert(const Key& key, bool present) {
    const auto value = make(Keys{}, rng_() >> 1);
    EXPECT_EQ(index_.insert(key, value), present ? Outcome::exists : Outcome::ok);
    model.emplace(key, value);
  }
  template <class Key>
  void upsert(const Key& key) {
    const auto value = make(Keys{}, rng_() >> 1);
    EXPECT_EQ(index_.upsert(key, value), Outcome::ok);
    model[key] = value;
  }
  template <class Key>
  void remove(const Key& key, bool present) {
    EXPECT_EQ(index_.remove(key), present ? Outcome::ok : Outcome::not_found);
    model.erase(key);
  }

  // Ascending without duplicates, and of our own keys in its range exactly those that are there.
  template <class Key>
  void scan(const Key& from) {
    const std::size_t count = 1 + rng_.below(100);
    index_.scan(from, count, scan_);
    auto mine = model.lower_bound(from);
    for (std::size_t i = 0; i < scan_.size(); ++i) {
      if (i > 0) {
        EXPECT_LT(scan_[i - 1].key, scan_[i].key);
      }
      for (; mine != model.end() && mine->first < scan_[i].key; ++mine)
        ADD_FAILURE() << "a scan misses a record";
      if (mine == model.end() || mine->first != scan_[i].key) continue;
      EXPECT_EQ(scan_[i].value, mine->second);
      ++mine;
    }
    EXPECT_TRUE(scan_.size() == count || mine == model.end()) << "a scan ends early";
  }

  OrderedIndex<Keys>& index_;
  const unsigned thread_;
  const std::uint64_t keys_;
  Rng rng_;
  typename Keys::ValueOut out_{};
  typename Keys::Scan scan_;
};

template <class Keys>
void mixed_stress(std::uint64_t keys, unsigned steps, const std::string& stripes) {
  SCOPED_TRACE(stripes + " keys=" + std::to_string(keys));
  Store<Keys> store(HeapKind::slab, 64 << 20, {"inner_entries=3", stripes});
  std::vector<Worker<Keys>> workers;
  for (unsigned t = 0; t < threads; ++t) workers.emplace_back(store.index(), t, keys);
  std::vector<std::jthread> running;
  for (Worker<Keys>& worker : workers) running.emplace_back([&] { worker.run(steps); });
  running.clear();
  Model<Keys> model;
  for (const Worker<Keys>& worker : workers) model.insert(worker.model.begin(), worker.model.end());
  ASSERT_NO_FATAL_FAILURE(expect_equal(store.index(), model));
  ASSERT_TRUE(succeeds(store.crash()));
  expect_equal(store.index(), model);
}

// S1-S3, T1-T3, T6: one stripe for all leaves, few, and many.
TEST(LbTreeThreads, MixedIntegersAgreeWithTheModels) {
  mixed_stress<IntegerKeys>(20, 30000, "lock_stripes=32768");
  mixed_stress<IntegerKeys>(20, 30000, "lock_stripes=1");
  mixed_stress<IntegerKeys>(200, 30000, "lock_stripes=2");
  mixed_stress<IntegerKeys>(5000, 100000, "lock_stripes=32768");
}
TEST(LbTreeThreads, MixedStringsAgreeWithTheModels) {
  mixed_stress<ByteKeys>(20, 20000, "lock_stripes=32768");
  mixed_stress<ByteKeys>(200, 20000, "lock_stripes=2");
  mixed_stress<ByteKeys>(2000, 30000, "lock_stripes=32768");
}

// One of several threads that insert the same key succeeds; likewise for removing.
TEST(LbTreeThreads, EachSuccessBelongsToOneThread) {
  Store<IntegerKeys> store(HeapKind::slab, 64 << 20);
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
    EXPECT_EQ(store.peer().leaves(), 1U) << "T3";
  }
}

// S1: a header may look the same as before although the leaf changed twice; the version does not.
TEST(LbTreeThreads, VersionsNoticeWhatTheHeaderHides) {
  Store<IntegerKeys> store;
  const std::uint64_t first = 1;
  std::uint64_t second = 2;
  while (fingerprint_of(second) != fingerprint_of(first)) ++second;
  ASSERT_EQ(store.index().insert(first, 1), Outcome::ok);
  Leaf& leaf = store.peer().first();
  pm::VersionLock& lock = store.peer().lock_of(leaf);
  const std::uint64_t word = lock.read_begin();
  const std::uint64_t word_0 = leaf.header[0];
  const std::uint64_t word_1 = leaf.header[1];
  EXPECT_TRUE(lock.validate(word));
  ASSERT_EQ(store.index().remove(first), Outcome::ok);
  ASSERT_EQ(store.index().insert(second, 2), Outcome::ok);
  EXPECT_EQ(leaf.header[0], word_0) << "same slot, same fingerprint: the header hides the change";
  EXPECT_EQ(leaf.header[1], word_1);
  EXPECT_FALSE(lock.validate(word));
}

TEST(LbTreeThreads, RefusedChangesKeepTheVersion) {
  Store<IntegerKeys> store;
  index_test::expect_refusals_keep_the_version(store.index(),
                                               store.peer().lock_of(store.peer().first()));
}

// T5: a writer holds the lock until its change is durable; no reader returns before.
TEST(LbTreeThreads, ReadersWaitForTheLock) {
  Store<IntegerKeys> store;
  for (std::uint64_t key = 0; key < 10; ++key)
    ASSERT_EQ(store.index().insert(key, key), Outcome::ok);
  Leaf& leaf = store.peer().first();
  index_test::expect_readers_wait(store.index(), store.peer().lock_of(leaf),
                                  leaf.record[store.peer().slot(leaf, 5)].value);
}

// S2: an unlinker that cannot get its neighbour's stripe lets go of its own and tries again.
TEST(LbTreeThreads, UnlinkingWaitsForNobodyWithALockInHand) {
  Store<IntegerKeys> store;
  for (std::uint64_t key = 0; key < 200; ++key)
    ASSERT_EQ(store.index().insert(key, key), Outcome::ok);
  auto peer = store.peer();
  Leaf& previous = peer.first();
  Leaf& victim = *peer.next(previous);
  std::vector<std::uint64_t> keys;
  for (std::uint64_t key = 0; key < 200; ++key)
    if (&peer.leaf_of(key) == &victim) keys.push_back(key);
  ASSERT_TRUE(peer.lock_of(previous).try_lock());
  const auto leaves = peer.leaves();
  std::jthread remover([&] {
    for (const std::uint64_t key : keys) EXPECT_EQ(store.index().remove(key), Outcome::ok);
  });
  while (victim.read_header().live() != 0) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(peer.leaves(), leaves) << "not without the neighbour's lock";
  bool taken = false;
  for (unsigned i = 0; i < 1000000 && !taken; ++i) taken = peer.lock_of(victim).try_lock();
  EXPECT_TRUE(taken) << "the unlinker must not keep the victim's lock while it waits";
  if (taken) peer.lock_of(victim).unlock();
  peer.lock_of(previous).unlock();
  remover.join();
  EXPECT_EQ(peer.leaves(), leaves - 1);
  EXPECT_TRUE(succeeds(store.index().check_invariants()));
}

}  // namespace
}  // namespace perdure
