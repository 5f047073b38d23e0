// What only the height optimized trie has: the layouts of its nodes, the four cases of an
// insertion, and walks beside nodes that are replaced.
#include "index/hot/hot.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "core/rng.h"
#include "index/reference/volatile_map_suite.h"

namespace perdure {

INSTANTIATE_TEST_SUITE_P(Hot, VolatileMap, testing::Values("hot"));

namespace {

using Bytes = Hot<ByteKeys>;
using Integers = Hot<IntegerKeys>;

TEST(Hot, IntegersOfEveryShapeAreFoundInOrder) {
  Rng rng(3, 0);
  for (unsigned shape = 0; shape < 5; ++shape) {
    Integers index(false);
    std::map<std::uint64_t, std::uint64_t> model;
    for (unsigned i = 0; i < 20'000; ++i) {
      std::uint64_t key = i;                                // dense, ascending
      if (shape == 1) key = ~std::uint64_t{i};              // dense, descending
      if (shape == 2) key = rng();                          // uniform
      if (shape == 3) key = rng() & rng() & rng() & rng();  // few ones
      if (shape == 4) key = std::uint64_t{1} << rng.below(64) | rng.below(4) << rng.below(62);
      EXPECT_EQ(index.insert(key, i), model.emplace(key, i).second ? Outcome::ok : Outcome::exists);
      if (i % 1000 == 0) expect_sound(index);
    }
    expect_sound(index);
    IntegerScan scan;
    ASSERT_EQ(index.scan(0, model.size() + 1, scan), model.size());
    std::size_t at = 0;
    for (const auto& [key, value] : model) {
      EXPECT_EQ(scan[at++], (IntegerRecord{key, value}));
      std::uint64_t found = 0;
      ASSERT_EQ(index.lookup(key, found), Outcome::ok);
      EXPECT_EQ(found, value);
      EXPECT_EQ(index.lookup(key ^ 0x8000, found) == Outcome::ok, model.contains(key ^ 0x8000));
    }
    unsigned removed = 0;
    for (const auto& [key, value] : model) {
      ASSERT_EQ(index.remove(key), Outcome::ok);
      ASSERT_EQ(index.remove(key), Outcome::not_found);
      if (++removed % 1000 == 0) expect_sound(index);
    }
    EXPECT_EQ(index.size(), 0U);
  }
}

}  // namespace
}  // namespace perdure
