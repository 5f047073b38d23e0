// What only Masstree has: permutations, layers, nodes that split at slices, and walks beside them.
#include "index/masstree/masstree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "core/rng.h"
#include "index/reference/test_volatile_map.h"

namespace perdure {

INSTANTIATE_TEST_SUITE_P(Masstree, VolatileMap, testing::Values("masstree"));

namespace {

using Bytes = Masstree<ByteKeys>;
using Integers = Masstree<IntegerKeys>;
using masstree::Permutation;

TEST(Permutation, AgreesWithALineOfPlaces) {
  Permutation now = Permutation::empty();
  std::vector<unsigned> model;
  Rng rng(5, 0);
  for (unsigned step = 0; step < 5000; ++step) {
    if (rng.below(16) == 0) {
      model.resize(rng.below(model.size() + 1));
      now.keep_first(static_cast<unsigned>(model.size()));
    }
    const bool adds = model.empty() || (model.size() < masstree::width && rng.below(2) == 0);
    const auto rank = static_cast<unsigned>(rng.below(model.size() + (adds ? 1 : 0)));
    if (adds) {
      const unsigned place = now.insert(rank);
      EXPECT_EQ(std::count(model.begin(), model.end(), place), 0) << "a place in use";
      model.insert(model.begin() + rank, place);
    } else {
      EXPECT_EQ(now.erase(rank), model[rank]);
      model.erase(model.begin() + rank);
    }
    ASSERT_EQ(now.count(), model.size());
    for (unsigned i = 0; i < model.size(); ++i) ASSERT_EQ(now.place(i), model[i]);
    unsigned all = 0;
    for (unsigned i = 0; i < masstree::width; ++i) all |= 1U << now.place(i);
    ASSERT_EQ(all, (1U << masstree::width) - 1) << "a place lost";
  }
}

TEST(Border, UsesFreshPlacesFirstAndSaysWhenOneWasInUseBefore) {
  masstree::Border border(0);
  EXPECT_FALSE(border.insert(0, {10, 8, 1}));
  EXPECT_FALSE(border.insert(1, {20, 8, 2}));
  border.erase(0);
  for (unsigned i = 0; i < masstree::width - 2; ++i) EXPECT_FALSE(border.insert(0, {5, 8, 3}));
  EXPECT_TRUE(border.insert(0, {5, 7, 4}));
  const unsigned last = masstree::width - 1;
  bool found = false;
  EXPECT_EQ(border.rank(border.order(), 20, 8, found), last);
  EXPECT_TRUE(found);
  EXPECT_EQ(border.rank(border.order(), 20, 7, found), last);
  EXPECT_FALSE(found);
}

// B2: a reader may still hold the permutation in which they were in use.
TEST(Border, PlacesThatASplitFreesWereInUseBefore) {
  masstree::Border border(0);
  for (unsigned i = 0; i < masstree::width; ++i) EXPECT_FALSE(border.insert(i, {i, 8, i}));
  border.keep_first(7);
  EXPECT_EQ(border.order().count(), 7U);
  for (unsigned i = 7; i < masstree::width; ++i) EXPECT_TRUE(border.insert(i, {i, 8, i}));
  for (unsigned i = 0; i < masstree::width; ++i)
    EXPECT_EQ(border.entry(border.order().place(i)).slice, i);
}

TEST(Masstree, MakesLayersWhereKeysShareSlicesAndDropsThemAgain) {
  for (const std::size_t shared : {7U, 8U, 9U, 16U, 17U, 40U, 2000U}) {
    Bytes index(false);
    const std::string base(shared, 's');
    TextModel model;
    for (const std::string& key : {base + "a", base + "b", base, base + "a-long-ending",
                                   base + "a-long-endings", base.substr(0, shared / 2)}) {
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
    index.quiesce();
    EXPECT_EQ(index.insert(base, "once more"), Outcome::ok);
    expect_holds(index, {{base, "once more"}});
  }
}

TEST(Masstree, AgreesWithAMapOverKeysThatShareSlices) {
  Bytes index(false);
  expect_agrees_with_a_map(index, [](Rng& rng) {
    std::string key;
    for (std::uint64_t parts = rng.below(4); parts > 0; --parts)
      key += rng.below(2) == 0 ? "12345678" : "12345678x";
    return key + std::string(rng.below(3), static_cast<char>('0' + rng.below(60)));
  });
}

TEST(Masstree, ScansFromKeysBetweenAndInsideLayers) {
  Bytes index(false);
  TextModel model;
  for (const char* const end : {"", "1", "12345678", "123456789", "12345678a", "2", "9"})
    for (const char* const base : {"", "abcdefgh", "abcdefghijklmnop", "abcdefgx"}) {
      const std::string key = std::string(base) + end;
      ASSERT_EQ(index.upsert(key, "v"), Outcome::ok);
      model[key] = "v";
    }
  std::vector<std::string> probes;
  for (const auto& [key, value] : model)
    for (const std::string& probe : {key, key + '\0', key + "5", key.substr(0, key.size() / 2)})
      probes.push_back(probe);
  expect_scans_from(index, model, probes);
}

TEST(Masstree, FillsNodesInAscendingOrderAndEmptiesThemInAny) {
  Integers index(false);
  constexpr std::uint64_t records = 50'000;
  for (std::uint64_t key = 0; key < records; ++key) ASSERT_EQ(index.insert(key, key), Outcome::ok);
  expect_sound(index);
  EXPECT_LE(index.dram_bytes(), std::uint64_t{4} << 20);  // 320 B for 15 records
  for (std::uint64_t i = 0; i < records; ++i) {
    const std::uint64_t key = i * 7919 % records;
    ASSERT_EQ(index.remove(key), Outcome::ok);
    if (i % 5000 == 0) expect_sound(index);
  }
  expect_sound(index);
  EXPECT_EQ(index.size(), 0U);
  for (std::uint64_t key = records; key-- > 0;) ASSERT_EQ(index.insert(key, key), Outcome::ok);
  expect_sound(index);
  EXPECT_EQ(index.size(), records);
}

TEST(Masstree, ChurnOfLayersTakesNoMoreMemory) {
  Bytes index(false);
  const auto key = [](unsigned i, char end) {
    return "shared--" + std::to_string(10'000'000 + i) + "--tail" + end;
  };
  std::uint64_t first = 0;
  for (unsigned round = 0; round < 20; ++round) {
    for (unsigned i = 0; i < 2000; ++i)
      for (const char end : {'a', 'b'})
        ASSERT_EQ(index.insert(key(2000 * round + i, end), "v"), Outcome::ok);
    for (unsigned i = 0; i < 2000; ++i)
      for (const char end : {'a', 'b'})
        ASSERT_EQ(index.remove(key(2000 * round + i, end)), Outcome::ok);
    index.quiesce();
    expect_sound(index);
    if (round == 2) first = index.dram_bytes();
  }
  EXPECT_LE(index.dram_bytes(), first + first / 2);
}

TEST(Masstree, WalksBesideSplitsAndEmptyNodesMissNothingThatStays) {
  Bytes index(false);
  constexpr unsigned staying = 300;
  const auto key_of = [](std::uint64_t i) {
    std::string digits = std::to_string(1'000'000 + i);
    return "layer-of-eight--" + digits;
  };
  constexpr std::uint64_t stride = 50;
  for (std::uint64_t i = 0; i < staying; ++i)
    ASSERT_EQ(index.insert(key_of(i * stride), "stays"), Outcome::ok);
  std::atomic<bool> stop{false};
  std::vector<std::thread> changers;
  for (unsigned t = 0; t < 2; ++t)
    changers.emplace_back([&, t] {
      Rng rng(3, t);
      while (!stop.load()) {
        // Runs of neighbours, so that nodes fill and empty.
        const std::uint64_t begin = rng.below(staying * stride);
        const bool adds = rng.below(2) == 0;
        for (std::uint64_t k = begin; k < begin + 40; ++k) {
          if (k % stride == 0) continue;
          if (adds)
            static_cast<void>(index.upsert(key_of(k) + "--more", "v"));
          else
            static_cast<void>(index.remove(key_of(k) + "--more"));
        }
      }
    });
  BytesScan scan;
  for (unsigned round = 0; round < 150; ++round) {
    const std::uint64_t first = round % 50;
    index.scan(key_of(first * stride), 50'000, scan);
    std::uint64_t next = first;
    std::string last;
    for (std::size_t i = 0; i < scan.size(); ++i) {
      ASSERT_LT(last, scan[i].key);
      last = scan[i].key;
      if (scan[i].value == "stays") {
        ASSERT_EQ(last, key_of(next++ * stride));
      }
    }
    ASSERT_EQ(next, staying);
  }
  stop = true;
  for (std::thread& changer : changers) changer.join();
  expect_sound(index);
}

}  // namespace
}  // namespace perdure
