// What only the height optimized trie has: a low tree, the cases of an insertion, and walks beside
// nodes that are replaced.
#include "index/hot/hot.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "core/rng.h"
#include "index/reference/test_volatile_map.h"

namespace perdure {

INSTANTIATE_TEST_SUITE_P(Hot, VolatileMap, testing::Values("hot"));

namespace {

using Bytes = Hot<ByteKeys>;
using Integers = Hot<IntegerKeys>;
using IntegerModel = std::map<std::uint64_t, std::uint64_t>;

void expect_holds(Integers& index, const IntegerModel& model) {
  expect_sound(index);
  IntegerScan scan;
  ASSERT_EQ(index.scan(0, model.size() + 1, scan), model.size());
  std::size_t at = 0;
  for (const auto& [key, value] : model) EXPECT_EQ(scan[at++], (IntegerRecord{key, value}));
}

// H1, and N1-N3 at every node on the way up and down again.
void expect_integers_come_and_go(std::uint64_t (*key_of)(Rng& rng, unsigned i)) {
  Integers index(false);
  IntegerModel model;
  Rng rng(3, 0);
  for (unsigned i = 0; i < 20'000; ++i) {
    const std::uint64_t key = key_of(rng, i);
    ASSERT_EQ(index.insert(key, i), model.emplace(key, i).second ? Outcome::ok : Outcome::exists);
    if (i % 2000 == 0) expect_holds(index, model);
  }
  expect_holds(index, model);
  std::uint64_t found = 0;
  for (const auto& [key, value] : model) {
    ASSERT_EQ(index.lookup(key, found), Outcome::ok);
    ASSERT_EQ(found, value);
    ASSERT_EQ(index.lookup(key ^ 0x8000, found) == Outcome::ok, model.contains(key ^ 0x8000));
  }
  for (unsigned removed = 0; !model.empty(); ++removed) {
    auto next = model.lower_bound(key_of(rng, removed));
    if (next == model.end()) next = model.begin();
    ASSERT_EQ(index.remove(next->first), Outcome::ok);
    ASSERT_EQ(index.remove(next->first), Outcome::not_found);
    model.erase(next);
    if (removed % 2000 == 0) expect_holds(index, model);
  }
  EXPECT_EQ(index.size(), 0U);
  EXPECT_EQ(index.height(), 0U);
}

TEST(Hot, HoldsDenseIntegers) {
  expect_integers_come_and_go([](Rng&, unsigned i) { return std::uint64_t{i}; });
  expect_integers_come_and_go([](Rng&, unsigned i) { return ~std::uint64_t{i}; });
}

TEST(Hot, HoldsUniformIntegers) {
  expect_integers_come_and_go([](Rng& rng, unsigned) -> std::uint64_t { return rng(); });
}

TEST(Hot, HoldsIntegersWhoseTrieIsLopsided) {
  expect_integers_come_and_go(
      [](Rng& rng, unsigned) -> std::uint64_t { return rng() & rng() & rng() & rng(); });
  expect_integers_come_and_go([](Rng& rng, unsigned) -> std::uint64_t {
    return std::uint64_t{1} << rng.below(64) | rng.below(4) << rng.below(62);
  });
}

TEST(Hot, ANodeHasThirtyTwoEntriesBeforeTheTrieGrowsALevel) {
  Integers index(false);
  for (std::uint64_t i = 0; i < 32; ++i) ASSERT_EQ(index.insert(i * 977, i), Outcome::ok);
  EXPECT_EQ(index.height(), 1U);
  ASSERT_EQ(index.insert(32 * 977, 32), Outcome::ok);
  EXPECT_EQ(index.height(), 2U);
  expect_sound(index);
}

TEST(Hot, ARecordInAHighNodeIsPushedDown) {
  Integers index(false);
  // One record across the first bit from 32 others: an entry of the root, which has height 2.
  for (std::uint64_t i = 0; i < 33; ++i) ASSERT_EQ(index.insert(i, i), Outcome::ok);
  constexpr std::uint64_t apart = std::uint64_t{1} << 63;
  ASSERT_EQ(index.insert(apart, 0), Outcome::ok);
  ASSERT_EQ(index.height(), 2U);
  expect_sound(index);
  // Were its neighbours to join the root, that would overflow.
  for (std::uint64_t i = 1; i < 32; ++i) {
    ASSERT_EQ(index.insert(apart + i, i), Outcome::ok);
    expect_sound(index);
    ASSERT_EQ(index.height(), 2U);
  }
}

TEST(Hot, StaysLowAsItGrowsWhateverTheOrder) {
  constexpr std::uint64_t records = 100'000;
  for (unsigned order = 0; order < 3; ++order) {
    Integers index(false);
    Rng rng(5, 0);
    for (std::uint64_t i = 0; i < records; ++i) {
      const std::uint64_t key = order == 0 ? i : order == 1 ? records - i : rng();
      ASSERT_EQ(index.upsert(key, i), Outcome::ok);
    }
    expect_sound(index);
    EXPECT_LE(index.height(), 5U) << order;  // 4 at least: 32^3 is less
  }
}

TEST(Hot, RemovalsMergeNodes) {
  Integers index(false);
  constexpr std::uint64_t records = 50'000;
  for (std::uint64_t i = 0; i < records; ++i) ASSERT_EQ(index.insert(i, i), Outcome::ok);
  EXPECT_LE(index.nodes(), records / 16 + records / 256);
  for (std::uint64_t i = 0; i < records; ++i)
    if (i % 10 != 0) {
      ASSERT_EQ(index.remove(i), Outcome::ok);
    }
  expect_sound(index);
  EXPECT_EQ(index.size(), records / 10);
  EXPECT_LE(index.nodes(), records / 10 / 6);  // else two or three records a node
}

TEST(Hot, ByteStringsThatBeginOneAnotherAreInOrder) {
  using namespace std::string_literals;
  Bytes index(false);
  TextModel model;
  const std::string longest(max_key_bytes, '\0');
  for (const std::string& key : {""s, "\0"s, "\0\0"s, longest, longest.substr(1), "a"s, "a\0"s,
                                 "a\0\0\0\0\0\0\0\0"s, "a\0b"s, "ab"s, "ab\0"s}) {
    EXPECT_EQ(index.insert(key, key), Outcome::ok);
    EXPECT_EQ(index.insert(key, "again"), Outcome::exists);
    model[key] = key;
    expect_holds(index, model);
  }
  while (!model.empty()) {
    EXPECT_EQ(index.remove(model.begin()->first), Outcome::ok);
    model.erase(model.begin());
    expect_holds(index, model);
  }
}

TEST(Hot, AgreesWithAMapOverZeroBytes) {
  Bytes index(false);
  expect_agrees_with_a_map(index, [](Rng& rng) {
    std::string key;
    for (std::uint64_t length = rng.below(14); key.size() < length;)
      key += rng.below(4) == 0 ? 'b' : '\0';
    return key;
  });
}

TEST(Hot, AgreesWithAMapOverKeysThatDifferFarApart) {
  Bytes index(false);
  expect_agrees_with_a_map(index, [](Rng& rng) {
    std::string key(300, 'x');
    for (unsigned i = 0; i < 5; ++i) key[10 * rng.below(30)] = static_cast<char>(rng.below(8));
    return key;
  });
}

TEST(Hot, ScansFromKeysBetweenItsOwn) {
  Bytes index(false);
  TextModel model;
  std::vector<std::string> probes;
  Rng rng(9, 0);
  for (unsigned i = 0; i < 400; ++i) {
    std::string key(rng.below(12), 'k');
    for (char& letter : key)
      if (rng.below(3) == 0) letter = static_cast<char>(rng.below(256));
    ASSERT_EQ(index.upsert(key, "v"), Outcome::ok);
    model[key] = "v";
    probes.insert(probes.end(), {key, key + '\0', key + '\xff', key.substr(0, key.size() / 2)});
  }
  expect_scans_from(index, model, probes);
}

TEST(Hot, ChurnTakesNoMoreMemory) {
  Bytes index(false);
  const auto key = [](unsigned i) { return "shared--" + std::to_string(1'000'000 + i) + "--tail"; };
  std::uint64_t first = 0;
  for (unsigned round = 0; round < 12; ++round) {
    for (unsigned i = 0; i < 4000; ++i)
      ASSERT_EQ(index.insert(key(4000 * round + i), "v"), Outcome::ok);
    for (unsigned i = 0; i < 4000; ++i) ASSERT_EQ(index.remove(key(4000 * round + i)), Outcome::ok);
    index.quiesce();
    if (round == 2) first = index.dram_bytes();
  }
  EXPECT_LE(index.dram_bytes(), first + first / 2);  // H4: what was replaced is used again
}

TEST(Hot, WalksBesideReplacedNodesMissNothingThatStays) {
  Integers index(false);
  check_walks_beside_changes(index);
}

}  // namespace
}  // namespace perdure
