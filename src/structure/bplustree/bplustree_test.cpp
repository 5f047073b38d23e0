#include "structure/base/test_history.h"
#include "structure/tree/balanced_tree.h"

namespace perdure::structure {
namespace {

TEST(Bplustree, agrees_with_a_model_whatever_the_refs) {
  for (const std::string& mode : all_modes) agree_with_a_model("bplustree:" + mode, {"offsets=1"});
}

TEST(Bplustree, is_the_same_on_media_in_both_persistent_modes) {
  modes_open_each_other("bplustree");
}

// Values are in leaves only, and a scan goes from leaf to leaf.
TEST(Bplustree, has_no_values_in_inner_nodes) {
  using Tree = BalancedTree<PmemTransMemory<Offsets>, BplusTree>;
  EXPECT_EQ(sizeof(Tree::Inner), 144U + 18 * 8);
  EXPECT_EQ(sizeof(Tree::PlusLeaf), 144U + 17 * 8 + 8);
}

}  // namespace
}  // namespace perdure::structure
