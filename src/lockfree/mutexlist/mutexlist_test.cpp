#include "lockfree/list/test_list.h"

namespace perdure::lockfree {
namespace {

TEST(MutexList, KeepsWhatReturned) { expect_kept_through_cuts("list:mutexlist"); }
TEST(MutexList, IsEmptyAfterABulkLoadThatWasCut) {
  expect_empty_after_a_cut_bulk_load("list:mutexlist");
}

}  // namespace
}  // namespace perdure::lockfree
