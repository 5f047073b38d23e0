#include "structure/skiplist/skiplist.h"

#include "structure/memory/test_history.h"

namespace perdure::structure {
namespace {

TEST(Skiplist, agrees_with_a_model_whatever_the_refs) {
  for (const std::string& mode : all_modes) agree_with_a_model("skiplist:" + mode, {"offsets=1"});
}

TEST(Skiplist, is_the_same_on_media_in_both_persistent_modes) { modes_open_each_other("skiplist"); }

// p = 0.5: half of the elements have one link, a quarter two, so on the average there are two.
TEST(Skiplist, gives_half_of_the_elements_another_level) {
  SlotStore store("skiplist:dram", HeapKind::dram);
  const std::uint64_t before = store.index().dram_bytes();
  constexpr std::uint64_t elements = 20000;
  for (std::uint64_t key = 0; key < elements; ++key)
    ASSERT_EQ(store.index().insert(key, ""), Outcome::ok);
  const double links =
      static_cast<double>(store.index().dram_bytes() - before) / elements / 8 - (16 + 128) / 8.0;
  EXPECT_NEAR(links, 2.0, 0.05);
}

}  // namespace
}  // namespace perdure::structure
