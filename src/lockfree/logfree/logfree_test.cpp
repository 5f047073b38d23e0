#include "lockfree/list/test_list.h"

namespace perdure::lockfree {
namespace {

TEST(LogFree, KeepsWhatReturned) { expect_kept_through_cuts("list:logfree"); }
TEST(LogFree, IsEmptyAfterABulkLoadThatWasCut) {
  expect_empty_after_a_cut_bulk_load("list:logfree");
}

TEST(LogFree, RefusesToRunWhereItWouldKeepNothing) {
  pm::configure(pm::Durability::adr);
  const auto made = create_index<IntegerKeys>(**IndexRegistry::find("list:logfree"), {});
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, ErrorCode::unsupported);
}

}  // namespace
}  // namespace perdure::lockfree
