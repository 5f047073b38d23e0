#include "lockfree/list/test_list.h"

namespace perdure::lockfree {
namespace {

TEST(Lists, RefuseAPoolThatAnotherListMade) {
  TestList list("list:tlog");
  list.insert({1});
  for (const char* other : {"list:soft", "list:linkfree", "hashset:soft"}) {
    const auto opened = list.open_as(other);
    ASSERT_FALSE(opened) << other;
    EXPECT_EQ(opened.error().code, ErrorCode::foreign);
  }
}

TEST(Lists, ScanInOrderFromAKey) {
  TestList list("list:linkfree");
  list.insert({5, 1, 9, 3});
  IntegerScan out;
  ASSERT_EQ(list->scan(2, 2, out), 2U);
  EXPECT_EQ(out[0].key, 3U);
  EXPECT_EQ(out[1].key, 5U);
}

TEST(Lists, RefuseASlabWhoseTopIsDamaged) {  // N1
  TestList list("list:soft");
  const auto recovered = list.cut([&] { list.top().chunks = 3; });
  ASSERT_FALSE(recovered);
  EXPECT_EQ(recovered.error().code, ErrorCode::corrupt);
}

}  // namespace
}  // namespace perdure::lockfree
