#include "chained_hash.h"

#include <gtest/gtest.h>

#include "support/bed.h"
#include "support/target.h"

namespace perdure::testing {
namespace {

Target target() {
  return {IndexRegistry::find("chained_hash").value(), HeapKind::slab, KeyKind::integer};
}

// H1: with the fewest buckets every chain is long, and a record is found wherever it stands in it.
TEST(ChainedHash, removes_from_any_place_in_a_chain) {
  auto bed = Bed<IntegerKeys>::create(target(), {.options = {"buckets=4"}});
  ASSERT_TRUE(bed.ok()) << bed.error().line();
  IntegerIndex& index = bed.value()->index();
  for (std::uint64_t key = 0; key < 100; ++key) ASSERT_EQ(index.insert(key, key), Outcome::ok);
  for (std::uint64_t key = 0; key < 100; key += 3) ASSERT_EQ(index.remove(key), Outcome::ok);
  for (std::uint64_t key = 0; key < 100; ++key) {
    std::uint64_t value = 0;
    EXPECT_EQ(index.lookup(key, value), key % 3 == 0 ? Outcome::not_found : Outcome::ok);
  }
  EXPECT_TRUE(index.check_invariants().ok());
}

// H4: removed nodes are given back to the heap once no reader can hold them.
TEST(ChainedHash, gives_removed_nodes_back) {
  auto bed = Bed<IntegerKeys>::create(target(), {});
  ASSERT_TRUE(bed.ok()) << bed.error().line();
  IntegerIndex& index = bed.value()->index();
  const std::uint64_t before = bed.value()->pool()->heap().usage().live_blocks;
  for (std::uint64_t key = 0; key < 1000; ++key) ASSERT_EQ(index.insert(key, key), Outcome::ok);
  EXPECT_EQ(bed.value()->pool()->heap().usage().live_blocks, before + 1000);
  for (std::uint64_t key = 0; key < 1000; ++key) ASSERT_EQ(index.remove(key), Outcome::ok);
  index.quiesce();
  EXPECT_EQ(bed.value()->pool()->heap().usage().live_blocks, before);
}

}  // namespace
}  // namespace perdure::testing
