#include "structure/rbtree/rbtree.h"

#include "structure/base/test_history.h"

namespace perdure::structure {
namespace {

TEST(Rbtree, agrees_with_a_model_whatever_the_refs) {
  for (const std::string& mode : all_modes) agree_with_a_model("rbtree:" + mode, {"offsets=1"});
}

TEST(Rbtree, is_the_same_on_media_in_both_persistent_modes) { modes_open_each_other("rbtree"); }

// B2: checked after every single change, so that no broken balance is mended by the next.
TEST(Rbtree, is_balanced_after_every_operation) {
  SlotStore store("rbtree:dram", HeapKind::dram);
  Rng rng(3);
  SlotModel model;
  for (unsigned i = 0; i < 3000; ++i) {
    const std::uint64_t key = rng.below(120);
    if (rng.below(2) == 0)
      static_cast<void>(store.index().upsert(key, value_of(i))), model[key] = value_of(i);
    else
      static_cast<void>(store.index().remove(key)), model.erase(key);
    ASSERT_TRUE(succeeds(store.index().check_invariants())) << "operation " << i;
    ASSERT_EQ(store.index().size(), model.size());
  }
  ASSERT_NO_FATAL_FAILURE(expect_model(store, model, 120));
}

}  // namespace
}  // namespace perdure::structure
