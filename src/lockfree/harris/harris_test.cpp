#include <gtest/gtest.h>

#include "index/registry.h"

namespace perdure::lockfree {
namespace {

TEST(HarrisList, TakesAsManyAsItsSlabHolds) {
  IndexPlace place;
  place.options.set("nodes", 128);
  auto list = create_index<IntegerKeys>(**IndexRegistry::find("list:harris"), place);
  ASSERT_TRUE(list);
  for (std::uint64_t key = 0; key < 128; ++key)
    ASSERT_EQ((*list)->insert(key * 3 % 128, key), Outcome::ok);
  EXPECT_EQ((*list)->insert(500, 0), Outcome::out_of_space);
  EXPECT_EQ((*list)->remove(5), Outcome::ok);
  EXPECT_EQ((*list)->insert(500, 0), Outcome::ok);
  EXPECT_EQ((*list)->size(), 128U);
  EXPECT_TRUE((*list)->check_invariants());
}

}  // namespace
}  // namespace perdure::lockfree
