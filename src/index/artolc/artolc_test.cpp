// What only the trie has: prefixes longer than a node holds, keys that end inside others, nodes
// that grow, shrink and collapse; and walks beside all of it.
#include "index/artolc/artolc.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "core/rng.h"
#include "index/reference/test_volatile_map.h"

namespace perdure {

INSTANTIATE_TEST_SUITE_P(ArtOlc, VolatileMap, testing::Values("artolc"));

namespace {

using Bytes = ArtOlc<ByteKeys>;
using Integers = ArtOlc<IntegerKeys>;

TEST(ArtOlc, SplitsALongPrefixAtEveryByteAndJoinsItAgain) {
  const std::string base(40, 'p');
  for (unsigned at = 0; at <= base.size(); ++at) {
    Bytes index(false);
    TextModel model;
    const auto add = [&](const std::string& key) {
      EXPECT_EQ(index.insert(key, key), Outcome::ok);
      model[key] = key;
    };
    add(base + "left");
    add(base + "right");
    // Ends within the prefix, or leaves it there.
    const std::string ending = base.substr(0, at);
    const std::string leaving = ending + "q" + base;
    add(ending);
    add(leaving);
    expect_holds(index, model);
    for (const std::string& key : {ending, leaving}) {
      EXPECT_EQ(index.remove(key), Outcome::ok);
      model.erase(key);
      expect_holds(index, model);
    }
    std::string value;
    EXPECT_EQ(index.lookup(base + "left", value), Outcome::ok);
    EXPECT_EQ(index.lookup(base.substr(0, at / 2) + "z" + base, value), Outcome::not_found);
  }
}

TEST(ArtOlc, SkippedBytesOfALongPrefixAreComparedAtTheRecord) {
  Bytes index(false);
  const std::string base(30, 'p');
  ASSERT_EQ(index.insert(base + "a", "1"), Outcome::ok);
  ASSERT_EQ(index.insert(base + "b", "2"), Outcome::ok);
  std::string other = base;
  other[20] = 'q';
  std::string value;
  EXPECT_EQ(index.lookup(other + "a", value), Outcome::not_found);
  EXPECT_EQ(index.remove(other + "a"), Outcome::not_found);
  EXPECT_EQ(index.update(other + "a", "3"), Outcome::not_found);
  EXPECT_EQ(index.insert(other + "a", "3"), Outcome::ok);
  expect_holds(index, {{base + "a", "1"}, {base + "b", "2"}, {other + "a", "3"}});
}

TEST(ArtOlc, ScansFromKeysThatLieInsideBeforeAndBehindAPrefix) {
  Bytes index(false);
  TextModel model;
  for (const char* const end : {"", "a", "b", "ba", "c"})
    for (const std::string& base : {std::string(3, 'm'), std::string(20, 'm') + "n"}) {
      ASSERT_EQ(index.upsert(base + end, "v"), Outcome::ok);
      model[base + end] = "v";
    }
  std::vector<std::string> probes;
  for (std::string from = "m"; from.size() < 25; from += 'm')
    for (const std::string& probe : {from, from + "l", from + "z", from + std::string(1, '\0')})
      probes.push_back(probe);
  expect_scans_from(index, model, probes);
}

TEST(ArtOlc, AgreesWithAMapOverKeysOfFewLetters) {
  // Few letters: keys end inside others, and nodes of one or two children come and go.
  Bytes index(false);
  expect_agrees_with_a_map(index, [](Rng& rng) {
    std::string key;
    for (std::uint64_t length = rng.below(14); key.size() < length;)
      key += rng.below(8) == 0 ? 'b' : 'a';
    return key;
  });
}

TEST(ArtOlc, NodesShrinkAsTheyEmpty) {
  Integers index(false);
  for (std::uint64_t key = 0; key < 100'000; ++key) ASSERT_EQ(index.insert(key, key), Outcome::ok);
  index.quiesce();
  const std::uint64_t full = index.dram_bytes();
  for (unsigned round = 0; round < 5; ++round) {
    for (std::uint64_t key = 0; key < 100'000; ++key)
      if (key % 1000 != 0) {
        ASSERT_EQ(index.remove(key), Outcome::ok);
      }
    expect_sound(index);
    EXPECT_EQ(index.size(), 100U);
    index.quiesce();
    for (std::uint64_t key = 0; key < 100'000; ++key)
      if (key % 1000 != 0) {
        ASSERT_EQ(index.insert(key, key), Outcome::ok);
      }
  }
  index.quiesce();
  EXPECT_LE(index.dram_bytes(), full + full / 4);  // what was freed is used again
}

TEST(ArtOlc, WalksBesideGrowthAndCollapseMissNothingThatStays) {
  Integers index(false);
  check_walks_beside_changes(index);
}

}  // namespace
}  // namespace perdure
