// What only DPTree has: rotations, merges, versions, full pools.
#include "index/dptree/dptree.h"

#include <gtest/gtest.h>

#include "core/rng.h"
#include "index/record/test_store.h"

namespace perdure {
namespace {

using index_test::succeeds;

const std::vector<std::string> small{"leaf_entries=4", "log_entries=3", "buffer_entries=4"};

TEST(DpTree, keeps_what_it_is_given_through_many_merges) {
  index_test::Store<IntegerKeys> store("dptree", HeapKind::slab, Pool::min_pool_bytes, small);
  std::map<std::uint64_t, std::uint64_t> model;
  Rng rng(5);
  for (int i = 0; i < 3000; ++i) {
    const std::uint64_t key = rng.below(600);
    if (rng.below(3) == 0) {
      EXPECT_EQ(store.index().remove(key) == Outcome::ok, model.erase(key) == 1);
    } else {
      EXPECT_EQ(store.index().upsert(key, rng.below(1000) + 1), Outcome::ok);
      std::uint64_t value = 0;
      EXPECT_EQ(store.index().lookup(key, value), Outcome::ok);
      model[key] = value;
    }
    if (i % 100 == 0) {
      ASSERT_TRUE(succeeds(store.index().check_invariants()));
      ASSERT_EQ(store.index().size(), model.size());
    }
  }
  IntegerScan scan;
  store.index().scan(0, 10000, scan);
  ASSERT_EQ(scan.size(), model.size());
  std::size_t i = 0;
  for (const auto& [key, value] : model) EXPECT_EQ(scan[i++], (IntegerRecord{key, value}));
}

}  // namespace
}  // namespace perdure
