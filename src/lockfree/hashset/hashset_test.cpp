#include "lockfree/list/test_list.h"

namespace perdure::lockfree {
namespace {

TEST(HashSet, KeepsWhatReturned) { expect_kept_through_cuts("hashset:soft"); }
TEST(HashSet, IsEmptyAfterABulkLoadThatWasCut) {
  expect_empty_after_a_cut_bulk_load("hashset:soft");
}

TEST(HashSet, HasNoOrder) {
  TestList set("hashset:soft");
  set.insert({10, 20});
  IntegerScan out;
  EXPECT_EQ(set->scan(0, 10, out), 0U);
}

}  // namespace
}  // namespace perdure::lockfree
