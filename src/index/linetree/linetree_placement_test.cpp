// LineTree with inner nodes in the pool, and in a pool of two parts, as on a machine of two NUMA
// nodes.
#include <gtest/gtest.h>

#include <array>
#include <thread>

#include "index/linetree/test_support.h"

namespace perdure {
namespace {

using linetree::Leaf;
using linetree_test::expect_equal;
using linetree_test::IntegerModel;
using linetree_test::Integers;
using linetree_test::large_pool;
using linetree_test::succeeds;

/// Inserts keys until there are `count`, or the pool is full.
void fill(Integers& store, IntegerModel& model, std::uint64_t count) {
  for (std::uint64_t i = model.size(); i < count; ++i) {
    const Outcome outcome = store.index().insert(mix64(i), i);
    if (outcome == Outcome::out_of_space) return;
    ASSERT_EQ(outcome, Outcome::ok);
    model.emplace(mix64(i), i);
  }
}

TEST(LineTreePlacement, InnerNodesLieInThePool) {
  Integers near({"lines=4", "inner_entries=3"}, HeapKind::slab, large_pool);
  Integers far({"lines=4", "inner_entries=3", "inner_in_pool=1"}, HeapKind::slab, large_pool);
  IntegerModel model;
  IntegerModel same;
  ASSERT_NO_FATAL_FAILURE(fill(near, model, 20'000));
  ASSERT_NO_FATAL_FAILURE(fill(far, same, 20'000));
  EXPECT_GT(far.pool().heap().usage().live_bytes,
            near.pool().heap().usage().live_bytes + 500 * FrameLayout::node_bytes());
  EXPECT_LT(far.index().dram_bytes(), near.index().dram_bytes());
  ASSERT_NO_FATAL_FAILURE(expect_equal(far.index(), model));
  ASSERT_TRUE(succeeds(far.crash()));
  ASSERT_NO_FATAL_FAILURE(expect_equal(far.index(), model));
  EXPECT_GT(far.pool().heap().usage().live_bytes,
            near.pool().heap().usage().live_bytes + 500 * FrameLayout::node_bytes())
      << "also after a recovery";
}

// What the pool has no room for is in DRAM, so a full pool refuses records and nothing else.
TEST(LineTreePlacement, AFullPoolRefusesRecordsAndLosesNone) {
  Integers store({"inner_entries=3", "inner_in_pool=1"}, HeapKind::slab, Pool::min_pool_bytes);
  IntegerModel model;
  ASSERT_NO_FATAL_FAILURE(fill(store, model, 10'000'000));
  ASSERT_LT(model.size(), 10'000'000U);
  ASSERT_NO_FATAL_FAILURE(expect_equal(store.index(), model));
  ASSERT_TRUE(succeeds(store.crash()));
  ASSERT_NO_FATAL_FAILURE(expect_equal(store.index(), model));
  while (model.size() > 100) {
    ASSERT_EQ(store.index().remove(model.begin()->first), Outcome::ok);
    model.erase(model.begin());
  }
  ASSERT_TRUE(succeeds(store.crash()));
  expect_equal(store.index(), model);
}

TEST(LineTreePlacement, LeavesLieNearTheThreadThatSplits) {
  Integers store({"node_pools=2", "inner_entries=3"}, HeapKind::slab, large_pool);
  ASSERT_EQ(store.pool().parts(), 2U);
  IntegerModel model;
  const auto insert = [&](std::uint64_t i) {
    EXPECT_EQ(store.index().insert(mix64(i), i), Outcome::ok);
    model.emplace(mix64(i), i);
  };
  for (std::uint64_t i = 0; i < 4000; i += 2) {
    insert(i);
    std::thread([&] { insert(i + 1); }).join();  // another slot, and so another part
  }
  const auto leaves_in_parts = [&] {
    std::array<std::size_t, 2> count{};
    const auto peer = store.peer();
    for (const Leaf* at = &peer.first(); at != nullptr; at = peer.next(*at))
      ++count[static_cast<const void*>(at) < store.pool().part(1).data() ? 0 : 1];
    return count;
  };
  const auto before = leaves_in_parts();
  EXPECT_GT(before[0], 4000U / 31 / 8);
  EXPECT_GT(before[1], 4000U / 31 / 8);
  ASSERT_TRUE(succeeds(store.crash()));
  EXPECT_EQ(leaves_in_parts(), before);
  ASSERT_NO_FATAL_FAILURE(expect_equal(store.index(), model));
  for (std::uint64_t i = 0; i < 4000; ++i) {
    if (i % 50 == 0) continue;
    ASSERT_EQ(store.index().remove(mix64(i)), Outcome::ok);
    model.erase(mix64(i));
  }
  EXPECT_LT(store.peer().leaves(), (before[0] + before[1]) / 4) << "merged across parts";
  ASSERT_TRUE(succeeds(store.crash()));
  expect_equal(store.index(), model);
}

}  // namespace
}  // namespace perdure
