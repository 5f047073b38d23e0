#include "structure/arraylist/arraylist.h"

#include "structure/base/test_history.h"

namespace perdure::structure {
namespace {

TEST(Arraylist, agrees_with_a_model_whatever_the_refs) {
  for (const std::string& mode : all_modes)
    agree_with_a_model("arraylist:" + mode, {"offsets=1", "records=700"});
}

TEST(Arraylist, is_the_same_on_media_in_both_persistent_modes) {
  modes_open_each_other("arraylist");
}

// Allocated once: it holds as many records as it was made for, and a freed slot is used again.
TEST(Arraylist, is_full_when_every_slot_is_used) {
  for (const std::string& mode : all_modes) {
    const std::string name = "arraylist:" + mode;
    SlotStore store(name.c_str(), heap_of(name), Pool::min_pool_bytes, {"records=100"});
    for (std::uint64_t key = 0; key < 100; ++key)
      ASSERT_EQ(store.index().insert(key << 32, value_of(key)), Outcome::ok);
    EXPECT_EQ(store.index().insert(7, "x"), Outcome::out_of_space);
    EXPECT_EQ(store.index().update(5ULL << 32, "y"), Outcome::ok);
    EXPECT_EQ(store.index().remove(5ULL << 32), Outcome::ok);
    EXPECT_EQ(store.index().insert(7, "x"), Outcome::ok);
    EXPECT_EQ(store.index().insert(8, "x"), Outcome::out_of_space);
    EXPECT_TRUE(succeeds(store.index().check_invariants()));
  }
}

}  // namespace
}  // namespace perdure::structure
