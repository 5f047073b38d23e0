#include "lockfree/memory/reclaimer.h"

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>
#include <vector>

#include "lockfree/memory/node_slab.h"

namespace perdure::lockfree {
namespace {

TEST(FreeNodes, GivesEachNodeOnceAndNoMoreThanThereAre) {  // F1
  FreeNodes free(100);
  std::vector<bool> taken(100);
  for (int i = 0; i < 100; ++i) {
    const std::uint32_t node = free.take(3);
    ASSERT_LT(node, 100U);
    EXPECT_FALSE(taken[node]);
    taken[node] = true;
  }
  EXPECT_EQ(free.take(3), no_node);
  free.give(17);
  EXPECT_EQ(free.take(0), 17U);
}

TEST(FreeNodes, ClaimsANodeOnce) {  // F2
  FreeNodes free(64);
  EXPECT_TRUE(free.claim(5));
  EXPECT_FALSE(free.claim(5));
  EXPECT_EQ(free.free_count(), 63U);
}

// F3: a thread slot's nodes lie side by side, and it gets all that there are.
TEST(FreeNodes, WithArenasGivesEachThreadAPartOfItsOwnAndThenAnyNode) {
  constexpr std::uint32_t part = 2 * 64;
  constexpr std::uint32_t nodes = part * static_cast<std::uint32_t>(pm::max_threads);
  FreeNodes free(nodes);
  free.spread(true);
  std::set<std::uint32_t> taken_of_parts;
  for (std::uint32_t i = 0; i < part; ++i)
    for (const std::uint32_t slot : {0U, 1U, 37U}) {
      const std::uint32_t node = free.take(slot);
      ASSERT_EQ(node / part, slot);
      if (i == 0) {
        EXPECT_EQ(node % part, slot * 7 % 2 * 64) << "parts begin in different lines";
      }
      taken_of_parts.insert(node);
    }
  EXPECT_EQ(taken_of_parts.size(), 3 * part);
  const std::uint32_t lent = free.take(37);
  EXPECT_NE(lent, no_node);
  EXPECT_NE(lent / part, 37U);
  free.give(37 * part + 5);
  EXPECT_EQ(free.take(37), 37 * part + 5) << "its own again, as soon as one is free";
  std::uint32_t taken = 3 * part + 1;
  while (free.take(5) != no_node) ++taken;
  EXPECT_EQ(taken, nodes);
}

TEST(FreeNodes, WithArenasSharesPartsWhereThereAreFewNodes) {
  FreeNodes free(100);
  free.spread(true);
  std::uint32_t taken = 0;
  while (free.take(255) != no_node) ++taken;
  EXPECT_EQ(taken, 100U);
}

class Reclaiming : public testing::Test {
 protected:
  FreeNodes free_{64};
  Reclaimer reclaimer_{free_};

  [[nodiscard]] std::uint32_t retire_one() {
    const Reclaimer::Guard guard(reclaimer_);
    const std::uint32_t node = free_.take(guard.slot());
    reclaimer_.retire(guard, node);
    return node;
  }
};

TEST_F(Reclaiming, ANodeIsFreeAgainWhenNobodyIsPinned) {
  const std::uint32_t node = retire_one();
  EXPECT_FALSE(free_.is_free(node));
  EXPECT_EQ(reclaimer_.retired(), 1U);
  EXPECT_TRUE(reclaimer_.collect());
  EXPECT_TRUE(free_.is_free(node));
  EXPECT_EQ(reclaimer_.retired(), 0U);
  EXPECT_FALSE(reclaimer_.collect());
}

TEST_F(Reclaiming, AThreadThatStaysPinnedKeepsItAndNobodyWaits) {  // Q1, Q2
  std::atomic<int> stage{0};
  std::thread reader([&] {
    const Reclaimer::Guard guard(reclaimer_);
    stage = 1;
    while (stage != 2) std::this_thread::yield();
  });
  while (stage != 1) std::this_thread::yield();
  const std::uint32_t node = retire_one();
  for (int tries = 0; tries < 10; ++tries) EXPECT_FALSE(reclaimer_.collect());
  EXPECT_FALSE(free_.is_free(node));
  stage = 2;
  reader.join();
  EXPECT_TRUE(reclaimer_.collect());
  EXPECT_TRUE(free_.is_free(node));
}

TEST_F(Reclaiming, WhatAThreadThatHasEndedLeftIsFreedByAnother) {  // Q4
  std::thread([&] { static_cast<void>(retire_one()); }).join();
  EXPECT_EQ(reclaimer_.retired(), 1U);
  EXPECT_TRUE(reclaimer_.collect());
  EXPECT_EQ(free_.free_count(), 64U);
}

TEST_F(Reclaiming, NothingIsLostOrFreedTwiceUnderManyThreads) {
  std::vector<std::thread> threads;
  std::array<std::atomic<int>, 64> owners{};
  std::atomic<bool> doubled{false};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 20'000; ++i) {
        {
          const Reclaimer::Guard guard(reclaimer_);
          const std::uint32_t node = free_.take(guard.slot());
          if (node == no_node) continue;
          if (owners[node].fetch_add(1) != 0) doubled = true;
          owners[node].fetch_sub(1);
          reclaimer_.retire(guard, node);
        }
        if (i % 16 == 0) static_cast<void>(reclaimer_.collect());
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(doubled);
  while (reclaimer_.collect()) {
  }
  EXPECT_EQ(free_.free_count(), 64U);
}

TEST(NodeSlab, TakesAtMostThreeQuartersOfThePoolAndFindsItsNodes) {  // N3
  PoolOptions options;
  options.heap = HeapKind::dram;
  options.bytes = Pool::min_pool_bytes;
  auto pool = Pool::create(options);
  ASSERT_TRUE(pool);
  auto slab = NodeSlab::create(**pool, {.nodes = NodeSlab::most_nodes});
  ASSERT_TRUE(slab);
  EXPECT_LE((*slab)->nodes() * sizeof(Node), Pool::min_pool_bytes * 3 / 4);
  EXPECT_GE((*slab)->nodes() * sizeof(Node), Pool::min_pool_bytes / 2);
  for (std::uint32_t node = 0; node < (*slab)->nodes(); node += 997)
    EXPECT_EQ((*slab)->node_at((*slab)->offset_of(node)), node);
  EXPECT_EQ((*slab)->node_at((*slab)->offset_of(0) + 8), no_node);
  EXPECT_EQ((*slab)->node_at(0), no_node);
}

TEST(NodeSlab, APoolWithoutRoomIsAnErrorAndStaysAsItWas) {
  PoolOptions options;
  options.heap = HeapKind::dram;
  options.bytes = Pool::min_pool_bytes;
  auto pool = Pool::create(options);
  ASSERT_TRUE(pool);
  std::vector<Reservation> blocks;
  for (std::size_t bytes = Heap::max_block_bytes; bytes >= 256; bytes /= 2)
    for (Reservation block; (block = (*pool)->heap().reserve(bytes));) blocks.push_back(block);
  const std::uint64_t live = (*pool)->heap().usage().live_blocks;
  const auto slab = NodeSlab::create(**pool, {.nodes = 1024});
  ASSERT_FALSE(slab);
  EXPECT_EQ(slab.error().code, ErrorCode::out_of_space);
  EXPECT_EQ((*pool)->heap().usage().live_blocks, live);
}

}  // namespace
}  // namespace perdure::lockfree
