#include "structure/skiplist/skiplist.h"

#include <cstring>

#include "index/common/index_root.h"
#include "structure/base/test_history.h"

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
      static_cast<double>(store.index().dram_bytes() - before) / elements / 16 - (16 + 128) / 16.0;
  EXPECT_NEAR(links, 2.0, 0.05);
}

// L4: a power cut between the two words of a link leaves it with the key of another element.
TEST(Skiplist, gives_links_their_keys_back_after_a_crash) {
  using List = Skiplist<PmemPersistMemory<Offsets>>;
  SlotStore store("skiplist:pmem-persist", HeapKind::pmdk, Pool::min_pool_bytes, {"offsets=1"});
  SlotModel model;
  for (std::uint64_t key = 0; key < 100; ++key) {
    ASSERT_EQ(store.index().insert(key, value_of(key)), Outcome::ok);
    model[key] = value_of(key);
  }
  IndexRoot root{};
  std::memcpy(&root, store.pool().at<void>(store.pool().roots().front().offset), sizeof root);
  auto& first = store.pool().at<List::Top>(root.head)->first;
  store.pool().at<List::Element>(first[0].to.offset)->next[0].key = 70;
  EXPECT_FALSE(store.index().check_invariants().ok());
  for (auto& link : first) link.key = 50;
  EXPECT_FALSE(store.index().check_invariants().ok());
  ASSERT_TRUE(succeeds(store.crash()));
  expect_model(store, model, 200);
}

TEST(Skiplist, refuses_a_pool_of_another_layout) {
  SlotStore store("skiplist:pmem-persist", HeapKind::pmdk);
  ASSERT_EQ(store.index().insert(1, "x"), Outcome::ok);
  auto* const root = store.pool().at<IndexRoot>(store.pool().roots().front().offset);
  root->layout_version = 1;
  root->checksum = checksum_of(*root);
  const Result<void> opened = store.crash();
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().code, ErrorCode::foreign);
  EXPECT_NE(opened.error().what.find("layout 1"), std::string::npos) << opened.error().what;
}

// L4: the links at the end of each level have this key as well.
TEST(Skiplist, tells_the_highest_key_from_the_end) {
  constexpr std::uint64_t highest = ~std::uint64_t{0};
  for (const std::string& mode : all_modes) {
    const std::string name = "skiplist:" + mode;
    SlotStore store(name.c_str(), heap_of(name));
    std::string value;
    for (std::uint64_t others = 0; others < 100; ++others) {
      EXPECT_EQ(store.index().lookup(highest, value), Outcome::not_found);
      EXPECT_EQ(store.index().update(highest, "x"), Outcome::not_found);
      EXPECT_EQ(store.index().remove(highest), Outcome::not_found);
      EXPECT_EQ(store.index().insert(highest, "x"), Outcome::ok);
      EXPECT_EQ(store.index().insert(highest, "y"), Outcome::exists);
      EXPECT_EQ(store.index().update(highest, "z"), Outcome::ok);
      EXPECT_EQ(store.index().lookup(highest, value), Outcome::ok);
      EXPECT_EQ(value, "z");
      EXPECT_EQ(store.index().insert(others, ""), Outcome::ok);
      EXPECT_EQ(store.index().remove(highest), Outcome::ok);
      ASSERT_TRUE(succeeds(store.index().check_invariants())) << name;
    }
  }
}

}  // namespace
}  // namespace perdure::structure
