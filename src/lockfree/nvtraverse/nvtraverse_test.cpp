#include "lockfree/list/test_list.h"

namespace perdure::lockfree {
namespace {

TEST(NvTraverse, KeepsWhatReturned) { expect_kept_through_cuts("list:nvtraverse"); }
TEST(NvTraverse, IsEmptyAfterABulkLoadThatWasCut) {
  expect_empty_after_a_cut_bulk_load("list:nvtraverse");
}

}  // namespace
}  // namespace perdure::lockfree
