#include "index/utree/leaf.h"

#include <gtest/gtest.h>

#include <memory>

#include "core/rng.h"

namespace perdure::utree {
namespace {

constexpr std::uint64_t farthest = Leaf::most_pool_bytes - node_alignment;

void expect_holds(const Leaf& leaf, const std::vector<Entry>& entries) {
  ASSERT_EQ(leaf.count(), entries.size());
  for (unsigned i = 0; i < Leaf::entries; ++i) {
    if (i < entries.size()) {
      EXPECT_EQ(leaf.entry(i).key_word, entries[i].key_word) << i;
      EXPECT_EQ(leaf.entry(i).node, entries[i].node) << i;
    } else {
      EXPECT_EQ(leaf.key_word(i), Leaf::unused_key) << i;  // S2
    }
  }
}

// D1, D2
TEST(UTreeLeaf, AgreesWithAVectorUnderInsertionsAndRemovals) {
  Rng rng(1);
  Leaf leaf;
  std::vector<Entry> model;
  for (unsigned step = 0; step < 20'000; ++step) {
    if (model.size() < Leaf::entries && (model.empty() || rng.below(2) == 0)) {
      const auto at = static_cast<unsigned>(rng.below(model.size() + 1));
      const Entry entry{rng(), rng.below(farthest / node_alignment + 1) * node_alignment};
      leaf.insert_at(at, entry);
      model.insert(model.begin() + at, entry);
    } else {
      const auto at = static_cast<unsigned>(rng.below(model.size()));
      leaf.remove_at(at);
      model.erase(model.begin() + at);
    }
    ASSERT_NO_FATAL_FAILURE(expect_holds(leaf, model));
  }
}

TEST(UTreeLeaf, LeadsToTheFarthestNode) {
  Leaf leaf;
  leaf.insert_at(leaf.count(), {1, farthest});
  leaf.insert_at(leaf.count(), {2, node_alignment << Leaf::low_bits});
  EXPECT_EQ(leaf.node(0), farthest);
  EXPECT_EQ(leaf.node(1), node_alignment << Leaf::low_bits);
}

// D2: a key of all ones is told from unused words by the count.
TEST(UTreeLeaf, CountsTheLargestKeyOnlyWhereItIs) {
  for (unsigned count = 0; count <= Leaf::entries; ++count) {
    Leaf leaf;
    for (unsigned i = 0; i < count; ++i)
      leaf.insert_at(leaf.count(), {10 * (std::uint64_t{i} + 1), node_alignment});
    for (std::uint64_t word = 0; word <= 10 * (Leaf::entries + 1); ++word)
      ASSERT_EQ(leaf.up_to(word), std::min<std::uint64_t>(word / 10, count)) << word;
    EXPECT_EQ(leaf.up_to(~std::uint64_t{0}), count);
    if (count == 0) continue;
    leaf.remove_at(count - 1);
    leaf.insert_at(leaf.count(), {~std::uint64_t{0}, node_alignment});
    EXPECT_EQ(leaf.up_to(~std::uint64_t{0}), count);
    EXPECT_EQ(leaf.up_to(~std::uint64_t{0} - 1), count - 1);
  }
}

TEST(UTreeLeaf, SplitsAtAnyPosition) {
  for (unsigned first = 0; first <= Leaf::entries; ++first) {
    Leaf left;
    Leaf right;
    std::vector<Entry> below;
    std::vector<Entry> above;
    for (unsigned i = 0; i < Leaf::entries; ++i) {
      const Entry entry{i, (std::uint64_t{i} + 1) << 40};
      left.insert_at(left.count(), entry);
      (i < first ? below : above).push_back(entry);
    }
    left.split(first, right);
    expect_holds(left, below);
    expect_holds(right, above);
  }
}

}  // namespace
}  // namespace perdure::utree
