#include "index/record/leaf_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <vector>

#include "core/rng.h"
#include "index/record/test_dram_pool.h"

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

TEST_F(LeafOrder, SortsBetweenBoundsHoweverFarOrWrong) {
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
    if (turn % 4 == 3) lowest = highest = rng_();
    std::array<RecordWords, most_leaf_records> sorted;
    sort_by_key(copy, store_, lowest, highest, std::span(sorted));
    expect_sorted(copy);
    for (unsigned r = 0; r < copy.count; ++r)
      ASSERT_EQ(sorted[r].value, copy.words[copy.order[r]].value);
  }
}

}  // namespace
}  // namespace perdure
