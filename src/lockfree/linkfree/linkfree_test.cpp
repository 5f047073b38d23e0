#include "lockfree/list/test_list.h"

namespace perdure::lockfree {
namespace {

TEST(LinkFree, KeepsWhatReturned) { expect_kept_through_cuts("list:linkfree"); }
TEST(LinkFree, IsEmptyAfterABulkLoadThatWasCut) {
  expect_empty_after_a_cut_bulk_load("list:linkfree");
}

// L1
TEST(LinkFree, ANodeWhoseSecondBitIsMissingIsNotThereAndCanBeUsedAgain) {
  TestList list("list:linkfree");
  list.insert({10, 20, 30});
  ASSERT_TRUE(list.cut([&] { list.node_of(20).meta.fetch_xor(2); }));
  EXPECT_EQ(list.keys(), (std::vector<std::uint64_t>{10, 30}));
  for (std::uint64_t key = 40; key < 90; ++key) list.insert({key});  // L2: also in its node
  ASSERT_TRUE(list.cut());
  EXPECT_EQ(list->size(), 52U);
}
TEST(LinkFree, LinksOnMediaSayNothing) {
  TestList list("list:linkfree");
  list.insert({10, 20, 30});
  ASSERT_TRUE(list.cut([&] { list.node_of(10).next.store(64); }));
  EXPECT_EQ(list.keys(), (std::vector<std::uint64_t>{10, 20, 30}));
}
TEST(LinkFree, RefusesTwoNodesWithOneKey) {
  TestList list("list:linkfree");
  list.insert({10, 20});
  EXPECT_FALSE(list.cut([&] { list.node_of(20).key.store(10); }));
}

}  // namespace
}  // namespace perdure::lockfree
