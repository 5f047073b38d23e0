#include "index/pactree/order_cache.h"

#include <gtest/gtest.h>

#include <numeric>
#include <thread>
#include <vector>

#include "core/rng.h"
#include "index/common/test_cuts.h"
#include "index/pactree/test_support.h"

namespace perdure {
namespace {

using pactree::OrderCache;
using pactree_test::make;
using pactree_test::Model;
using pactree_test::Store;

constexpr std::size_t node_bytes = pactree::node_bytes(64);
using Order = std::vector<std::uint8_t>;

Order shuffled(std::size_t count, std::uint64_t seed) {
  Order order(count);
  std::iota(order.begin(), order.end(), std::uint8_t{0});
  Rng rng(seed);
  for (std::size_t i = count; i > 1; --i) std::swap(order[i - 1], order[rng.below(i)]);
  return order;
}

// O1: an order is found for its node and version only.
TEST(PacTreeOrders, AreOfOneNodeAtOneVersion) {
  OrderCache cache(1 << 20, node_bytes, false);
  for (std::size_t count = 0; count <= 64; ++count) {
    const std::uint64_t node = 4096 + count * node_bytes;
    const Order order = shuffled(count, count);
    Order found(count);
    EXPECT_FALSE(cache.find(node, 8, found));
    cache.keep(node, 8, order);
    EXPECT_FALSE(cache.find(node, 12, found));
    EXPECT_FALSE(cache.find(node + node_bytes, 8, found));
    ASSERT_TRUE(cache.find(node, 8, found));
    EXPECT_EQ(found, order);
  }
  EXPECT_EQ(cache.dram_bytes(), 65U * 64);
}

// O1: a scan that was slow does not bring an old order back.
TEST(PacTreeOrders, OnlyRise) {
  OrderCache cache(1 << 20, node_bytes, false);
  Order found(9);
  cache.keep(8192, 40, shuffled(9, 1));
  cache.keep(8192, 36, shuffled(9, 2));
  EXPECT_FALSE(cache.find(8192, 36, found));
  ASSERT_TRUE(cache.find(8192, 40, found));
  EXPECT_EQ(found, shuffled(9, 1));
}

// O3: what was remembered of a block does not come back with the first version of the next node.
TEST(PacTreeOrders, AreForgottenWithTheirNode) {
  OrderCache cache(1 << 20, node_bytes, false);
  Order found(3);
  cache.keep(8192, 0, shuffled(3, 1));
  ASSERT_TRUE(cache.find(8192, 0, found));
  cache.forget(8192);
  EXPECT_FALSE(cache.find(8192, 0, found));
  cache.keep(8192, 0, shuffled(3, 2));
  ASSERT_TRUE(cache.find(8192, 0, found));
  EXPECT_EQ(found, shuffled(3, 2));
}

// O2: threads that fill one line for different versions never mix two orders.
TEST(PacTreeOrders, AreNeverMixed) {
  OrderCache cache(1 << 20, node_bytes, false);
  std::vector<std::thread> team;
  for (unsigned t = 0; t < 4; ++t)
    team.emplace_back([&, t] {
      Order found(64);
      for (std::uint64_t step = 0; step < 5000; ++step) {
        const std::uint64_t word = 4 * (step / 8 + t % 2);
        if (cache.find(8192, word, found))
          EXPECT_EQ(found, shuffled(64, word));
        else
          cache.keep(8192, word, shuffled(64, word));
      }
    });
  for (std::thread& thread : team) thread.join();
}

template <class Keys>
class PacTreeScans : public testing::Test {};
using BothKinds = testing::Types<IntegerKeys, ByteKeys>;
TYPED_TEST_SUITE(PacTreeScans, BothKinds);

// The order that a scan left does not outlive an insertion, a removal, or the node's place in the
// list.
TYPED_TEST(PacTreeScans, SeeEveryChange) {
  using Keys = TypeParam;
  Store<Keys> store({"node_entries=16"});
  Model<Keys> model;
  Rng rng(4);
  typename Keys::Scan scan;
  for (unsigned step = 0; step < 3000; ++step) {
    const auto key = make<Keys>(rng.below(step < 1500 ? 400 : 40));
    if (rng.below(2) == 0) {
      (void)store.index().upsert(key, make<Keys>(step));
      model[key] = make<Keys>(step);
    } else {
      (void)store.index().remove(key);
      model.erase(key);
    }
    const auto from = make<Keys>(rng.below(400));
    std::size_t expected = 0;
    auto at = model.lower_bound(from);
    store.index().scan(from, 40, scan);
    for (; at != model.end() && expected < 40; ++at, ++expected) {
      ASSERT_LT(expected, scan.size());
      ASSERT_EQ(scan[expected].key, at->first) << "step " << step;
      ASSERT_EQ(scan[expected].value, at->second) << "step " << step;
    }
    ASSERT_EQ(scan.size(), expected);
  }
}

// Reading writes nothing to media, and a second scan sorts nothing.
TYPED_TEST(PacTreeScans, LeaveMediaAlone) {
  using Keys = TypeParam;
  Store<Keys> store;
  for (std::uint64_t number = 0; number < 1000; ++number)
    ASSERT_EQ(store.index().insert(make<Keys>(number * 7919 % 1000), make<Keys>(number)),
              Outcome::ok);
  store.index().quiesce();
  const std::uint64_t dram = store.index().dram_bytes();
  index_test::PowerCuts<Keys> cuts(store);
  typename Keys::Scan scan;
  typename Keys::ValueOut value{};
  ASSERT_EQ(store.index().scan({}, 1000, scan), 1000U);
  EXPECT_EQ(store.index().dram_bytes(), dram + 64 * store.peer().nodes());
  ASSERT_EQ(store.index().scan({}, 1000, scan), 1000U);
  EXPECT_EQ(store.index().dram_bytes(), dram + 64 * store.peer().nodes());
  ASSERT_EQ(store.index().lookup(make<Keys>(5), value), Outcome::ok);
  EXPECT_TRUE(cuts.changed().empty());
}

}  // namespace
}  // namespace perdure
