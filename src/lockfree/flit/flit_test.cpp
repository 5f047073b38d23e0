#include "lockfree/list/test_list.h"

namespace perdure::lockfree {
namespace {

TEST(Flit, KeepsWhatReturned) { expect_kept_through_cuts("list:flit"); }
TEST(Flit, IsEmptyAfterABulkLoadThatWasCut) { expect_empty_after_a_cut_bulk_load("list:flit"); }

}  // namespace
}  // namespace perdure::lockfree
