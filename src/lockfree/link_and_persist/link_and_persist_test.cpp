#include "lockfree/list/test_list.h"

namespace perdure::lockfree {
namespace {

TEST(LinkAndPersist, KeepsWhatReturned) { expect_kept_through_cuts("list:link_and_persist"); }
TEST(LinkAndPersist, IsEmptyAfterABulkLoadThatWasCut) {
  expect_empty_after_a_cut_bulk_load("list:link_and_persist");
}

// H1: the dirty mark says nothing on media; a marked node is gone.
TEST(LinkAndPersist, RecoversFromLinksWithMarks) {
  TestList list("list:link_and_persist");
  list.insert({10, 20, 30});
  ASSERT_TRUE(list.cut([&] {
    list.node_of(10).next.fetch_or(2);
    list.node_of(20).next.fetch_or(3);
  }));
  EXPECT_EQ(list.keys(), (std::vector<std::uint64_t>{10, 30}));
}
TEST(LinkAndPersist, RefusesALinkThatLeadsNowhere) {
  TestList list("list:link_and_persist");
  list.insert({10, 20});
  const auto recovered = list.cut([&] { list.node_of(20).next.store(64); });
  ASSERT_FALSE(recovered);
  EXPECT_EQ(recovered.error().code, ErrorCode::corrupt);
}
TEST(LinkAndPersist, RefusesACircle) {
  TestList list("list:link_and_persist");
  list.insert({10, 20});
  EXPECT_FALSE(list.cut([&] { list.node_of(20).next.store(list.offset_of(&list.node_of(10))); }));
}

}  // namespace
}  // namespace perdure::lockfree
