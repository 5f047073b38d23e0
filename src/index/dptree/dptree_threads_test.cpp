// DPTree under several threads: changes, lookups and scans beside rotations and merges that never
// end. Every answer is checked while they run, and the whole afterwards, before and after a
// restart.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include "core/rng.h"
#include "index/common/test_toggle.h"
#include "index/dptree/test_support.h"
#include "pool/test_pinned_reader.h"

namespace perdure {
namespace {

using dptree_test::BothKinds;
using dptree_test::expect_equal;
using dptree_test::make;
using dptree_test::Model;
using dptree_test::Store;
using dptree_test::succeeds;

constexpr unsigned threads = 4;

std::vector<std::string> merging_all_the_time(const char* workers) {
  return {"leaf_entries=4", "log_entries=3", "buffer_entries=8", "merge_percent=1", workers};
}

/// All threads at work beside the records of `model`, which stay; then a restart.
template <class Keys>
void expect_own_answers(Store<Keys>& store, Model<Keys> model) {
  std::array<Model<Keys>, threads> models;
  std::vector<std::jthread> running;
  for (unsigned t = 0; t < threads; ++t)
    running.emplace_back([&, t] {
      index_test::toggle_own_keys<Keys>(store.index(), t, threads, 100, 5000, make<Keys>,
                                        models[t]);
    });
  running.clear();
  for (const auto& one : models) model.insert(one.begin(), one.end());
  ASSERT_NO_FATAL_FAILURE(expect_equal(store.index(), model));
  ASSERT_TRUE(succeeds(store.crash()));
  ASSERT_NO_FATAL_FAILURE(expect_equal(store.index(), model));
}

template <class Keys>
class DpTreeThreads : public testing::Test {};
TYPED_TEST_SUITE(DpTreeThreads, BothKinds);

// D1, D2, D3, D6: every answer is the owner's, before and after a restart.
TYPED_TEST(DpTreeThreads, ChangesBesideMerges) {
  for (const char* workers : {"workers=0", "workers=1", "workers=3"}) {
    Store<TypeParam> store(merging_all_the_time(workers), 64 << 20);
    ASSERT_NO_FATAL_FAILURE(expect_own_answers(store, {}));
  }
}

// D8: whoever comes by does a stretch of a merge, and the merge waits for it.
TYPED_TEST(DpTreeThreads, MergesAreShared) {
  Store<TypeParam> store({"leaf_entries=8", "buffer_entries=500", "merge_percent=1", "workers=0"},
                         64 << 20);
  std::atomic<bool> ends{false};
  std::atomic<std::uint64_t> stretches{0};
  std::jthread helper([&] {
    while (!ends.load()) stretches += store.peer().help_merging() ? 1 : 0;
  });
  Model<TypeParam> model;
  Rng rng(3);
  // On a busy machine the helper may miss many merges.
  constexpr std::uint64_t least = 40'000;
  for (std::uint64_t n = 0; n < least || (stretches == 0 && n < 100 * least); ++n) {
    const auto key = make<TypeParam>(rng.below(20'000));
    if (rng.below(4) == 0) {
      (void)store.index().remove(key);
      model.erase(key);
    } else {
      EXPECT_EQ(store.index().upsert(key, make<TypeParam>(n)), Outcome::ok);
      model[key] = make<TypeParam>(n);
    }
  }
  ends = true;
  helper.join();
  EXPECT_GT(stretches.load(), 0U);
  ASSERT_NO_FATAL_FAILURE(expect_equal(store.index(), model));
  ASSERT_TRUE(succeeds(store.crash()));
  expect_equal(store.index(), model);
}

// G3: the same with logs in parts, over more records that stay.
TYPED_TEST(DpTreeThreads, ChangesInTheSamePartsOfALog) {
  constexpr std::uint64_t stay = 4000;
  constexpr std::uint64_t apart = 100'000;
  for (const char* workers : {"workers=0", "workers=1", "workers=3"}) {
    Store<TypeParam> store({"leaf_entries=16", "log_entries=3", "buffer_entries=600", workers},
                           64 << 20);
    Model<TypeParam> model;
    const auto put = [&](std::uint64_t n) {
      const auto key = make<TypeParam>(n);
      ASSERT_EQ(store.index().insert(key, key), Outcome::ok);
      model[key] = key;
    };
    for (std::uint64_t n = apart; n < apart + stay; ++n) put(n);
    store.index().quiesce();
    // The next front tree is made over all the others, whenever these were merged.
    put(apart + stay);
    store.index().quiesce();
    ASSERT_GT(store.peer().front().log().parts(), 4U);
    ASSERT_NO_FATAL_FAILURE(expect_own_answers(store, model));
  }
}

// D1, D3: what is always there is in every scan once, in order, whatever comes and goes beside it;
// and its value never goes back.
TYPED_TEST(DpTreeThreads, ScansAndLookupsBesideMerges) {
  using Keys = TypeParam;
  constexpr std::uint64_t stable = 40;
  constexpr std::uint64_t gap = 10;
  for (const char* workers : {"workers=0", "workers=1", "workers=3"}) {
    Store<Keys> store(merging_all_the_time(workers), 64 << 20);
    for (std::uint64_t n = 0; n < stable; ++n)
      ASSERT_EQ(store.index().insert(make<Keys>(n * gap), make<Keys>(0)), Outcome::ok);
    std::atomic<bool> done{false};
    const auto churn = [&](unsigned thread) {
      Rng rng(9, thread);
      for (std::uint64_t round = 1; !done && !testing::Test::HasFailure(); ++round) {
        const std::uint64_t base = rng.below(stable / 2) * 2 * gap + thread * gap;
        EXPECT_EQ(store.index().update(make<Keys>(base), make<Keys>(round)), Outcome::ok);
        for (std::uint64_t n = 1; n < gap; ++n)
          EXPECT_EQ(store.index().insert(make<Keys>(base + n), make<Keys>(n)), Outcome::ok);
        for (std::uint64_t n = 1; n < gap; ++n)
          EXPECT_EQ(store.index().remove(make<Keys>(base + n)), Outcome::ok);
      }
    };
    std::vector<std::jthread> running;
    for (unsigned t = 0; t < 2; ++t) running.emplace_back(churn, t);
    typename Keys::Scan scan;
    std::array<std::decay_t<decltype(make<Keys>(0))>, stable> seen{};
    typename Keys::ValueOut value{};
    for (unsigned round = 0; round < 300 && !testing::Test::HasFailure(); ++round) {
      store.index().scan({}, stable * gap, scan);
      std::uint64_t next = 0;
      for (std::size_t i = 0; i < scan.size(); ++i) {
        if (i != 0) {
          ASSERT_LT(scan[i - 1].key, scan[i].key);
        }
        if (next == stable || scan[i].key != make<Keys>(next * gap)) continue;
        ASSERT_GE(scan[i].value, seen[next]);
        seen[next++] = scan[i].value;
      }
      ASSERT_EQ(next, stable);
      for (std::uint64_t n = 0; n < stable; ++n) {
        ASSERT_EQ(store.index().lookup(make<Keys>(n * gap), value), Outcome::ok);
        ASSERT_GE(value, seen[n]);
        seen[n] = value;
      }
    }
    done = true;
    running.clear();
    ASSERT_EQ(store.index().size(), stable);
    ASSERT_TRUE(succeeds(store.index().check_invariants()));
  }
}

void insert_range(IntegerIndex& index, std::uint64_t from, std::uint64_t to) {
  for (std::uint64_t n = from; n < to; ++n) ASSERT_EQ(index.insert(mix64(n), n), Outcome::ok);
}

// D6: nobody changes anything any more, so no later merge frees it; and what waits for the reader
// is counted as it is.
TEST(DpTreeMemory, TheWorkerFreesWhatAReaderHeldUp) {
  Store<IntegerKeys> store({"leaf_entries=8", "buffer_entries=256", "workers=1"}, 64 << 20);
  Epochs& epochs = store.peer().epochs();
  {
    const PinnedReader reader(epochs);
    std::thread([&] { insert_range(store.index(), 0, 2000); }).join();
    EXPECT_GT(epochs.retired_bytes(), 0U);
    constexpr std::uint64_t merges = 2000 / 256 + 1;
    EXPECT_LT(store.index().dram_bytes(), (merges + 2) * (std::uint64_t{16} << 20));
  }
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (epochs.retired_bytes() != 0 && std::chrono::steady_clock::now() < give_up)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(epochs.retired_bytes(), 0U);
  ASSERT_TRUE(succeeds(store.index().check_invariants()));
}

TEST(DpTreeMemory, WithoutAWorkerLaterChangesFreeWhatAReaderHeldUp) {
  Store<IntegerKeys> store({"leaf_entries=8", "buffer_entries=2000", "workers=0"}, 64 << 20);
  Epochs& epochs = store.peer().epochs();
  {
    const PinnedReader reader(epochs);
    std::thread([&] { insert_range(store.index(), 0, 2000); }).join();
    ASSERT_EQ(store.peer().front().log().changes(), 0U);  // just merged
    EXPECT_GT(epochs.retired_bytes(), 0U);
  }
  insert_range(store.index(), 2000, 2256);
  EXPECT_EQ(epochs.retired_bytes(), 0U);
  ASSERT_TRUE(succeeds(store.index().check_invariants()));
}

}  // namespace
}  // namespace perdure
