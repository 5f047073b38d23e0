#include "index/leaf/leaf_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <memory>
#include <vector>

#include "core/rng.h"
#include "index/common/test_dram_pool.h"

namespace perdure {
namespace {

/// Keys that agree in the bits the rank is counted on, and keys that span all 64 bits.
LeafCopy draw(Rng& rng, unsigned turn) {
  LeafCopy copy;
  copy.count = static_cast<unsigned>(rng.below(most_leaf_records + 1));
  const std::uint64_t mask = ~0ULL >> rng.below(64);
  const std::uint64_t base = turn % 2 == 0 ? 0 : rng();
  for (unsigned i = 0; i < copy.count; ++i) copy.words[i] = {base + (rng() & mask), i};
  if (copy.count > 2 && turn % 3 == 0) copy.words[0].key = ~0ULL;
  return copy;
}

void expect_sorted(const LeafCopy& copy) {
  std::vector<bool> seen(copy.count);
  for (unsigned r = 0; r < copy.count; ++r) {
    ASSERT_LT(copy.order[r], copy.count);
    ASSERT_FALSE(seen[copy.order[r]]);
    seen[copy.order[r]] = true;
    if (r > 0) {
      ASSERT_LE(copy.words[copy.order[r - 1]].key, copy.words[copy.order[r]].key);
    }
  }
}

class LeafOrder : public testing::Test {
 protected:
  static constexpr unsigned turns = 3000;
  std::unique_ptr<Pool> pool_ = dram_pool();
  Epochs epochs_;
  RecordStore<IntegerKeys> store_{*pool_, epochs_};
  Rng rng_{3};
};

TEST_F(LeafOrder, SortsLikeACompleteSort) {
  for (unsigned turn = 0; turn < turns; ++turn) {
    LeafCopy copy = draw(rng_, turn);
    sort_by_key(copy, store_);
    expect_sorted(copy);
  }
}

// Whatever the bounds, ranks are different; where these are right and no two words tie, they are
// the words' ranks.
TEST_F(LeafOrder, RanksBetweenBoundsHoweverFarOrWrong) {
  for (unsigned turn = 0; turn < turns; ++turn) {
    LeafCopy copy = draw(rng_, turn);
    std::uint64_t lowest = ~0ULL;
    std::uint64_t highest = 0;
    for (unsigned i = 0; i < copy.count; ++i) {
      lowest = std::min(lowest, copy.words[i].key);
      highest = std::max(highest, copy.words[i].key);
    }
    if (turn % 4 == 1) lowest = 0;
    if (turn % 4 == 2) highest = ~0ULL;
    const bool is_wrong = turn % 4 == 3;
    if (is_wrong) lowest = highest = rng_();
    WordRanks ranks(lowest, highest);
    for (unsigned i = 0; i < copy.count; ++i) ranks.add(copy.words[i].key);
    std::vector<unsigned> word_at(copy.count, copy.count);
    ranks.each([&](unsigned rank, unsigned i) {
      ASSERT_LT(rank, copy.count);
      ASSERT_EQ(word_at[rank], copy.count);
      word_at[rank] = i;
    });
    // Words that share what is kept of them are in one step of so many.
    const unsigned width = static_cast<unsigned>(std::bit_width(highest - lowest));
    const std::uint64_t step = width > 25 ? 1ULL << (width - 25) : 1;
    for (unsigned r = 1; r < copy.count && !is_wrong; ++r) {
      const std::uint64_t before = copy.words[word_at[r - 1]].key;
      const std::uint64_t here = copy.words[word_at[r]].key;
      ASSERT_TRUE(before <= here || before - here < step);
    }
  }
}

}  // namespace
}  // namespace perdure
