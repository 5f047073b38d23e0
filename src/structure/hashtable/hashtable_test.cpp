#include "structure/hashtable/hashtable.h"

#include "structure/base/test_history.h"

namespace perdure::structure {
namespace {

TEST(Hashtable, agrees_with_a_model_whatever_the_refs) {
  for (const std::string& mode : all_modes)
    agree_with_a_model("hashtable:" + mode, {"offsets=1", "buckets=50"});
}

TEST(Hashtable, is_the_same_on_media_in_both_persistent_modes) {
  modes_open_each_other("hashtable");
}

// Section IV-A of the study: elements of 152 B, buckets by a load factor of 0.75.
TEST(Hashtable, is_laid_out_as_in_the_study) {
  EXPECT_EQ(sizeof(Hashtable<PmemTransMemory<ObjectIds>>::Element), 152U);
  EXPECT_EQ(sizeof(Hashtable<PmemTransMemory<Offsets>>::Element), 144U);
  EXPECT_EQ(sizeof(Hashtable<VolatileMemory>::Element), 144U);
  const SlotStore few("hashtable:dram", HeapKind::dram, Pool::min_pool_bytes, {"records=3000"});
  const SlotStore given("hashtable:dram", HeapKind::dram, Pool::min_pool_bytes,
                        {"records=3000", "buckets=10"});
  const auto bytes = [](const SlotStore& store) {
    return const_cast<SlotStore&>(store).index().dram_bytes();
  };
  EXPECT_EQ(bytes(few) - bytes(given), (4001U - 10U) * 8U);
}

// H1, H3: with one chain a record is found wherever it stands, and leaves its neighbours in place.
TEST(Hashtable, removes_from_any_place_in_a_chain) {
  for (const std::string& mode : all_modes) {
    const std::string name = "hashtable:" + mode;
    SlotStore store(name.c_str(), heap_of(name), Pool::min_pool_bytes, {"buckets=1"});
    SlotModel model;
    for (std::uint64_t key = 0; key < 60; ++key) {
      ASSERT_EQ(store.index().insert(key, value_of(key)), Outcome::ok);
      model[key] = value_of(key);
    }
    for (const std::uint64_t key : {59U, 0U, 30U, 31U, 58U, 1U}) {
      ASSERT_EQ(store.index().remove(key), Outcome::ok);
      model.erase(key);
      ASSERT_NO_FATAL_FAILURE(expect_model(store, model, 60)) << name << " after " << key;
    }
  }
}

}  // namespace
}  // namespace perdure::structure
