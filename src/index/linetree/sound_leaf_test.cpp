// The quick check of a leaf beside one that is written out, on leaves with and without faults.
#include "index/linetree/sound_leaf.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <map>
#include <set>

#include "index/linetree/kind.h"
#include "pm/simd.h"

namespace perdure::linetree {
namespace {

struct alignas(pm::media_block_bytes) Memory {
  std::array<std::byte, most_lines * pm::cache_line_bytes> bytes{};
  [[nodiscard]] Leaf& leaf() noexcept { return *reinterpret_cast<Leaf*>(bytes.data()); }
};

std::optional<Summary> plainly(const Shape& shape, const Leaf& leaf, Interval live) {
  Summary summary;
  std::set<std::uint64_t> seen;
  for (unsigned slot = 1; slot < shape.slots(); ++slot) {
    const std::uint64_t key = leaf.key_word(slot);
    if (!live.holds(key)) {
      if (key != empty_key(live.least) && key < live.least) return {};
      continue;
    }
    const Place place = shape.place(key);
    const unsigned line = line_of(slot);
    if (line != place.home && line != place.overflow()) return {};
    if (!seen.insert(key).second) return {};
    if (line != place.home) summary.hints |= line_bit(place.home);
    ++summary.count;
  }
  return summary;
}

/// Fills a leaf as insertions do, with stale keys among them.
void fill(const Shape& shape, Leaf& leaf, Interval live, unsigned records, Rng& rng) {
  for (unsigned slot = 1; slot < shape.slots(); ++slot)
    leaf.slot(slot).key.store(empty_key(live.least));
  for (unsigned i = 0; i < records; ++i) {
    const std::uint64_t span = live.last - live.least;
    const std::uint64_t key = live.least + (span == ~std::uint64_t{0} ? rng() : rng() % (span + 1));
    const Place place = shape.place(key);
    if (matching_keys(leaf, place.home, key) != 0 ||
        matching_keys(leaf, place.overflow(), key) != 0)
      continue;
    const unsigned slot = find_free(place, live, [&](unsigned at) { return leaf.key_word(at); });
    if (slot != no_slot) leaf.slot(slot).key.store(key);
  }
  for (unsigned slot = 1; slot < shape.slots(); ++slot)
    if (!live.holds(leaf.key_word(slot)) && live.last < ~std::uint64_t{0} && rng() % 4 == 0)
      leaf.slot(slot).key.store(live.last + 1 + rng() % (~std::uint64_t{0} - live.last));
}

class SoundLeafTest : public testing::TestWithParam<pm::SimdLevel> {
 protected:
  /// Where the processor has no such vectors, the widest that it has.
  void SetUp() override { pm::configure_simd(GetParam()); }
  void TearDown() override { pm::configure_simd(pm::SimdLevel::avx512); }
};

TEST_P(SoundLeafTest, SaysWhatTheRulesSay) {
  Rng rng(1, 0);
  std::map<bool, unsigned> times;
  const std::array<Interval, 5> intervals{{{0, boundary - 1},
                                           {boundary, ~std::uint64_t{0}},
                                           {boundary - 500, boundary - 1},
                                           {~std::uint64_t{0} - 300, ~std::uint64_t{0}},
                                           {12345, 99999}}};
  for (const unsigned lines : {4U, 8U, 16U, 32U}) {
    const Shape shape{lines};
    for (unsigned round = 0; round < 2000; ++round) {
      Memory memory;
      Leaf& leaf = memory.leaf();
      const Interval live = intervals[round % intervals.size()];
      fill(shape, leaf, live, static_cast<unsigned>(rng() % shape.slots()), rng);
      const auto any_slot = [&] { return 1 + static_cast<unsigned>(rng() % shape.records()); };
      switch (rng() % 5) {
        case 0:  // any key anywhere
          leaf.slot(any_slot()).key.store(live.least + rng() % (live.last - live.least));
          break;
        case 1:  // one key twice
          leaf.slot(any_slot()).key.store(leaf.key_word(any_slot()));
          break;
        case 2:  // below the interval, or empty of the other half
          leaf.slot(any_slot()).key.store(rng() % 2 == 0 ? live.least - 1 : ~empty_key(live.least));
          break;
        default:
          break;
      }
      const std::optional<Summary> wanted = plainly(shape, leaf, live);
      const std::optional<Summary> said = summarize_sound(shape, leaf, live);
      ASSERT_EQ(said.has_value(), wanted.has_value()) << lines << " lines, round " << round;
      ++times[wanted.has_value()];
      if (!wanted) continue;
      EXPECT_EQ(said->count, wanted->count);
      EXPECT_EQ(said->hints, wanted->hints);
    }
  }
  EXPECT_GT(times[true], 1000U);
  EXPECT_GT(times[false], 1000U);
}

INSTANTIATE_TEST_SUITE_P(Levels, SoundLeafTest,
                         testing::Values(pm::SimdLevel::sse2, pm::SimdLevel::avx2,
                                         pm::SimdLevel::avx512));

}  // namespace
}  // namespace perdure::linetree
