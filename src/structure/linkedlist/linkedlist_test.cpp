#include "structure/linkedlist/linkedlist.h"

#include "structure/base/test_history.h"

namespace perdure::structure {
namespace {

TEST(Linkedlist, agrees_with_a_model_whatever_the_refs) {
  for (const std::string& mode : all_modes) agree_with_a_model("linkedlist:" + mode, {"offsets=1"});
}

TEST(Linkedlist, is_the_same_on_media_in_both_persistent_modes) {
  modes_open_each_other("linkedlist");
}

TEST(Linkedlist, has_elements_of_the_study_s_size) {
  EXPECT_EQ(sizeof(Linkedlist<PmemTransMemory<ObjectIds>>::Element), 152U);
}

// L3: the index knows the new neighbours of what was removed: first, last, and in between.
TEST(Linkedlist, keeps_its_index_when_elements_go) {
  SlotStore store("linkedlist:pmem-trans", HeapKind::pmdk);
  SlotModel model;
  for (std::uint64_t key = 0; key < 10; ++key) {
    ASSERT_EQ(store.index().insert(key, value_of(key)), Outcome::ok);
    model[key] = value_of(key);
  }
  for (const std::uint64_t key : {0U, 9U, 5U, 4U, 6U, 8U, 1U, 2U, 3U, 7U}) {
    ASSERT_EQ(store.index().remove(key), Outcome::ok);
    model.erase(key);
    ASSERT_NO_FATAL_FAILURE(expect_model(store, model, 10)) << "after " << key;
    ASSERT_TRUE(succeeds(store.crash()));
    ASSERT_NO_FATAL_FAILURE(expect_model(store, model, 10)) << "after " << key;
  }
}

}  // namespace
}  // namespace perdure::structure
