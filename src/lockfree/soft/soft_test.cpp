#include "lockfree/list/test_list.h"

namespace perdure::lockfree {
namespace {

TEST(Soft, KeepsWhatReturned) { expect_kept_through_cuts("list:soft"); }
TEST(Soft, IsEmptyAfterABulkLoadThatWasCut) { expect_empty_after_a_cut_bulk_load("list:soft"); }

// S1
TEST(Soft, ARecordIsThereOnlyIfBegunEqualsEndedAndDeletedDiffers) {
  TestList list("list:soft");
  list.insert({10, 20, 30});
  const auto flags = [&](std::uint64_t key) {
    return reinterpret_cast<std::uint8_t*>(&list.node_of(key).next);
  };
  ASSERT_TRUE(list.cut([&] {
    flags(10)[1] ^= 1;            // ended
    flags(20)[2] = flags(20)[1];  // deleted
  }));
  EXPECT_EQ(list.keys(), (std::vector<std::uint64_t>{30}));
  for (std::uint64_t key = 40; key < 90; ++key) list.insert({key});
  ASSERT_TRUE(list.cut());
  EXPECT_EQ(list->size(), 51U);
}

}  // namespace
}  // namespace perdure::lockfree
