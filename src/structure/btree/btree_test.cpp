#include "structure/base/test_history.h"
#include "structure/tree/balanced_tree.h"

namespace perdure::structure {
namespace {

TEST(Btree, agrees_with_a_model_with_values_in_the_nodes) {
  for (const std::string& mode : all_modes)
    for (const char* offsets : {"offsets=0", "offsets=1"})
      agree_with_a_model("btree:" + mode, {"embedded=1", offsets});
}

TEST(Btree, agrees_with_a_model_with_values_beside_the_nodes) {
  for (const std::string& mode : all_modes) agree_with_a_model("btree:" + mode, {"offsets=1"});
}

TEST(Btree, is_the_same_on_media_in_both_persistent_modes) { modes_open_each_other("btree"); }

// Section IV-A of the study: branching 18; the nodes' sizes are what the variants are for.
TEST(Btree, has_large_nodes_with_values_and_small_ones_without) {
  using Embedded = BalancedTree<PmemTransMemory<Offsets>, BtreeEmbedded>;
  using Referenced = BalancedTree<PmemTransMemory<Offsets>, BtreeReferenced>;
  EXPECT_EQ(sizeof(Embedded::Inner), 144U + 17 * 128 + 18 * 8);
  EXPECT_EQ(sizeof(Referenced::Inner), 144U + 17 * 8 + 18 * 8);
  EXPECT_EQ(Embedded::branching, 18U);
}

// What was made with values in the nodes cannot be read as one with values beside them.
TEST(Btree, refuses_a_pool_of_the_other_variant) {
  SlotStore store("btree:pmem-trans", HeapKind::pmdk);
  SlotStore other("btree:pmem-trans", HeapKind::pmdk, Pool::min_pool_bytes, {"embedded=1"});
  const auto refused = recover_index<SlotKeys>(store.info(), [&] {
    IndexPlace place = other.place();
    place.pool = &store.pool();
    return place;
  }());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::foreign) << refused.error().line();
}

}  // namespace
}  // namespace perdure::structure
