// UTree under several threads: the races that its list and its leaves have to survive. Every answer
// is checked while they run, and the whole afterwards, before and after a restart.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include "core/rng.h"
#include "index/common/test_locks.h"
#include "index/common/test_toggle.h"
#include "index/utree/test_support.h"

namespace perdure {
namespace {

using utree_test::expect_equal;
using utree_test::Model;
using utree_test::Store;
using utree_test::succeeds;
using Leaf = utree::Leaf;

constexpr unsigned threads = 4;

template <class Keys>
auto make(std::uint64_t number) {
  if constexpr (Keys::kind == KeyKind::integer) {
    return number;
  } else {
    std::string text = std::to_string(number);
    return "shared/" + std::string(8 - text.size(), '0') + text;
  }
}

template <class Keys>
void race(std::uint64_t keys, unsigned steps, const std::string& option) {
  SCOPED_TRACE(option + " keys=" + std::to_string(keys));
  Store<Keys> store({option, "inner_entries=3"}, HeapKind::slab, 64 << 20);
  std::array<Model<Keys>, threads> models;
  std::vector<std::jthread> running;
  for (unsigned t = 0; t < threads; ++t)
    running.emplace_back([&, t] {
      index_test::toggle_own_keys<Keys>(store.index(), t, threads, keys, steps, make<Keys>,
                                        models[t]);
    });
  running.clear();
  Model<Keys> model;
  for (const auto& one : models) model.insert(one.begin(), one.end());
  ASSERT_NO_FATAL_FAILURE(expect_equal(store.index(), model));
  ASSERT_TRUE(succeeds(store.crash()));
  expect_equal(store.index(), model);
}

template <class Keys>
class UTreeThreads : public testing::Test {};
using BothKinds = testing::Types<IntegerKeys, ByteKeys>;
TYPED_TEST_SUITE(UTreeThreads, BothKinds);

// T3, T4: the list is empty again and again, and every insertion is that of the first record.
TYPED_TEST(UTreeThreads, TheFirstRecordComesAndGoes) {
  race<TypeParam>(1, 10000, "leaf_entries=2");
}
// T4, T5: insertions beside removals of the node before, within a leaf and across two.
TYPED_TEST(UTreeThreads, InsertionsBesideRemovalsOfThePredecessor) {
  race<TypeParam>(4, 10000, "leaf_entries=18");
  race<TypeParam>(4, 10000, "leaf_entries=2");
}
// T1, T3: leaves split and vanish all the time.
TYPED_TEST(UTreeThreads, LeavesSplitAndVanish) { race<TypeParam>(200, 20000, "leaf_entries=2"); }

// T1, S3: what is always there is in every scan, in order, whatever comes and goes beside it.
TYPED_TEST(UTreeThreads, ScansMissNothingWhileLeavesSplitAndVanish) {
  using Keys = TypeParam;
  constexpr std::uint64_t stable = 40;
  constexpr std::uint64_t gap = 50;
  Store<Keys> store({"leaf_entries=2", "inner_entries=3"}, HeapKind::slab, 64 << 20);
  for (std::uint64_t n = 0; n < stable; ++n)
    ASSERT_EQ(store.index().insert(make<Keys>(n * gap), make<Keys>(n)), Outcome::ok);
  std::atomic<bool> done{false};
  const auto churn = [&](unsigned thread) {
    Rng rng(9, thread);
    while (!done && !testing::Test::HasFailure()) {
      const std::uint64_t base = rng.below(stable) * gap + 1 + thread * 20;
      for (std::uint64_t n = 0; n < 20; ++n)
        EXPECT_EQ(store.index().insert(make<Keys>(base + n), make<Keys>(n)), Outcome::ok);
      for (std::uint64_t n = 0; n < 20; ++n)
        EXPECT_EQ(store.index().remove(make<Keys>(base + n)), Outcome::ok);
    }
  };
  std::vector<std::jthread> running;
  for (unsigned t = 0; t < 2; ++t) running.emplace_back(churn, t);
  typename Keys::Scan scan;
  for (unsigned round = 0; round < 300 && !testing::Test::HasFailure(); ++round) {
    store.index().scan({}, stable * gap, scan);
    std::uint64_t next = 0;
    for (std::size_t i = 0; i < scan.size(); ++i) {
      if (i > 0) {
        EXPECT_LT(scan[i - 1].key, scan[i].key);
      }
      if (next < stable && scan[i].key == make<Keys>(next * gap)) {
        EXPECT_EQ(scan[i].value, make<Keys>(next));
        ++next;
      }
    }
    EXPECT_EQ(next, stable);
  }
  done = true;
  running.clear();
  EXPECT_EQ(store.index().size(), stable);
  EXPECT_TRUE(succeeds(store.index().check_invariants()));
}

TEST(UTreeLocks, RefusedChangesKeepTheVersion) {
  Store<IntegerKeys> store;
  index_test::expect_refusals_keep_the_version(store.index(), store.peer().first().lock);
}

// T6: a writer holds the lock until its change is durable; no reader returns before.
TEST(UTreeLocks, ReadersWaitForTheLock) {
  Store<IntegerKeys> store;
  for (std::uint64_t key = 0; key < 10; ++key)
    ASSERT_EQ(store.index().insert(key, key), Outcome::ok);
  index_test::expect_readers_wait(store.index(), store.peer().first().lock,
                                  store.peer().node_of(5).record.value);
}

// T4, T5: the lowest record of a leaf goes only with the lock of the leaf before, and who cannot
// get that lets go of the own.
TEST(UTreeLocks, NobodyWaitsForALeafWithAnotherInHand) {
  Store<IntegerKeys> store({"leaf_entries=2"});
  for (std::uint64_t key = 0; key < 6; ++key)
    ASSERT_EQ(store.index().insert(key, key), Outcome::ok);
  auto peer = store.peer();
  Leaf& previous = peer.first();
  Leaf& leaf = *previous.next.load();
  const std::uint64_t lowest = leaf.key_word(0);
  for (const bool removing : {true, false}) {
    ASSERT_TRUE(previous.lock.try_lock());
    std::atomic<bool> finished{false};
    std::jthread changer([&] {
      const auto outcome =
          removing ? store.index().remove(lowest) : store.index().insert(lowest, lowest);
      EXPECT_EQ(outcome, Outcome::ok);
      finished = true;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_FALSE(finished);
    bool taken = false;
    for (unsigned i = 0; i < 1000000 && !taken; ++i) taken = leaf.lock.try_lock();
    EXPECT_TRUE(taken) << "the changer must not keep the leaf while it waits";
    if (taken) leaf.lock.unlock();
    previous.lock.unlock();
    changer.join();
    EXPECT_TRUE(succeeds(store.index().check_invariants()));
  }
}

}  // namespace
}  // namespace perdure
