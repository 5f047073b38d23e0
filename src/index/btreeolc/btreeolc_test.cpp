// What only this B+-tree has: its leaf, and leaves that split, empty and go.
#include "index/btreeolc/btreeolc.h"

#include <gtest/gtest.h>

#include <string>

#include "core/rng.h"
#include "index/reference/test_volatile_map.h"

namespace perdure {

INSTANTIATE_TEST_SUITE_P(BTreeOlc, VolatileMap, testing::Values("btreeolc"));

namespace {

using Leaf = WordLeaf<15>;

TEST(BTreeOlcLeaf, CountsKeysUpToOneAlsoBesideTheUnusedOnes) {
  Leaf leaf;
  EXPECT_EQ(leaf.up_to(~0ULL), 0U);
  leaf.insert_at(0, {7, 1});
  leaf.insert_at(1, {~0ULL, 2});
  leaf.insert_at(0, {3, 3});
  EXPECT_EQ(leaf.up_to(2), 0U);
  EXPECT_EQ(leaf.up_to(3), 1U);
  EXPECT_EQ(leaf.up_to(7), 2U);
  EXPECT_EQ(leaf.up_to(~0ULL), 3U);
  leaf.remove_at(1);
  EXPECT_EQ(leaf.up_to(8), 1U);
  EXPECT_EQ(leaf.entry(1).word, 2U);
}

TEST(BTreeOlcLeaf, SplitsAndKeepsItsSuccessor) {
  Leaf leaf;
  Leaf right;
  leaf.set_next(&right);
  for (unsigned i = 0; i < Leaf::entries; ++i) leaf.insert_at(i, {i, i});
  leaf.split(7, right);
  EXPECT_EQ(leaf.count(), 7U);
  EXPECT_EQ(right.count(), Leaf::entries - 7);
  EXPECT_EQ(right.entry(0).key, 7U);
  EXPECT_EQ(leaf.up_to(100), 7U);
  EXPECT_EQ(leaf.next(), &right);
}

TEST(BTreeOlc, FillsLeavesInAscendingOrderAndTakesEmptyOnesAway) {
  const auto index = make_index<IntegerKeys>("btreeolc");
  constexpr std::uint64_t records = 50'000;
  for (std::uint64_t key = 0; key < records; ++key) ASSERT_EQ(index->insert(key, key), Outcome::ok);
  expect_sound(*index);
  EXPECT_LE(index->dram_bytes(), std::uint64_t{5} << 20);  // 256 B for 15 records
  for (std::uint64_t i = 0; i < records; ++i) {
    ASSERT_EQ(index->remove(i * 7919 % records), Outcome::ok);
    if (i % 5000 == 0) expect_sound(*index);
  }
  expect_sound(*index);
  EXPECT_EQ(index->size(), 0U);
}

TEST(BTreeOlc, AgreesWithAMapOverKeysThatShareTheirFirstBytes) {
  const auto index = make_index<ByteKeys>("btreeolc");
  expect_agrees_with_a_map(*index, [](Rng& rng) {
    const std::string shared(rng.below(3) * 8, 's');
    return shared + std::to_string(rng.below(500));
  });
}

}  // namespace
}  // namespace perdure
