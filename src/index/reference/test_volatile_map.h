// What every volatile reference must do: its test instantiates the suite with its name. And what
// the tests of one index check with a map beside it.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "index/reference/test_reference.h"

namespace perdure {

using TextModel = std::map<std::string, std::string>;

template <class Index>
void expect_sound(const Index& index) {
  const auto checked = index.check_invariants();
  ASSERT_TRUE(checked.ok()) << checked.error().line();
}

/// Sound, and a scan over all of it gives the model's records.
inline void expect_holds(BytesIndex& index, const TextModel& model) {
  expect_sound(index);
  BytesScan scan;
  ASSERT_EQ(index.scan("", model.size() + 1, scan), model.size());
  std::size_t i = 0;
  for (const auto& [key, value] : model) EXPECT_EQ(scan[i++], (BytesRecord{key, value}));
}

/// Scans from each of `probes`, for more records than there are.
inline void expect_scans_from(BytesIndex& index, const TextModel& model,
                              const std::vector<std::string>& probes) {
  BytesScan scan;
  for (const std::string& probe : probes) {
    index.scan(probe, model.size() + 1, scan);
    auto at = model.lower_bound(probe);
    for (std::size_t i = 0; i < scan.size(); ++i, ++at) {
      ASSERT_NE(at, model.end()) << probe;
      EXPECT_EQ(scan[i].key, at->first) << probe;
    }
    EXPECT_EQ(at, model.end()) << probe;
  }
}

/// Upserts and removals of keys that `make_key` draws, in long stretches of growing and of
/// shrinking, so that nodes fill and empty.
template <class MakeKey>
void expect_agrees_with_a_map(BytesIndex& index, MakeKey&& make_key) {
  constexpr unsigned steps = 40'000;
  TextModel model;
  Rng rng(7, 0);
  for (unsigned step = 0; step < steps; ++step) {
    const std::string key = make_key(rng);
    const std::string value = std::to_string(step);
    if (rng.below(8) < (step / 5000 % 2 == 0 ? 2U : 6U)) {
      EXPECT_EQ(index.remove(key), model.erase(key) != 0 ? Outcome::ok : Outcome::not_found);
    } else {
      EXPECT_EQ(index.upsert(key, value), Outcome::ok);
      model[key] = value;
    }
    if (step % 1000 == 0) expect_holds(index, model);
  }
  expect_holds(index, model);
}

class VolatileMap : public testing::TestWithParam<const char*> {
 protected:
  template <class Keys>
  static std::unique_ptr<OrderedIndex<Keys>> make(const IndexPlace& place = {}) {
    return make_index<Keys>(GetParam(), place);
  }
};

TEST_P(VolatileMap, GivesTheOutcomesOfAnOrderedIndex) {
  check_integer_outcomes(*make<IntegerKeys>());
  check_bytes_outcomes(*make<ByteKeys>());
}

TEST_P(VolatileMap, BulkLoadsSortedRecordsOnly) { check_bulk_load(*make<IntegerKeys>()); }

TEST_P(VolatileMap, GivesEachSuccessToOneThread) {
  check_exclusive_successes(*make<IntegerKeys>(), 5000,
                            [](unsigned k) { return std::uint64_t{k} << 60; });
  static const std::vector<std::string> keys = [] {
    std::vector<std::string> made;
    for (int k = 0; k < 16; ++k) made.push_back(std::string(100, 'p') + std::to_string(k));
    return made;
  }();
  check_exclusive_successes(*make<ByteKeys>(), 5000,
                            [](unsigned k) { return std::string_view(keys[k]); });
}

TEST_P(VolatileMap, LosesNoKeyWhileNeighboursComeAndGo) {
  check_own_keys(*make<IntegerKeys>(), 4000, 300,
                 [](unsigned t, std::uint64_t k) { return k * 4 + t; });
  // Few letters: keys branch within each other, at every depth.
  const auto text = [](unsigned t, std::uint64_t k) {
    Rng rng(k % 40, 0);
    std::string key;
    for (std::uint64_t length = rng.below(30); key.size() < length;)
      key += rng.below(6) == 0 ? 'b' : 'a';
    return key + std::to_string(k) + static_cast<char>('0' + t);
  };
  std::vector<std::string> keys;
  for (unsigned i = 0; i < 4 * 300; ++i) keys.push_back(text(i % 4, i / 4));
  check_own_keys(*make<ByteKeys>(), 4000, 300,
                 [&](unsigned t, std::uint64_t k) { return std::string_view(keys[4 * k + t]); });
}

TEST_P(VolatileMap, MeasuresItsMemory) {
  for (const bool huge_pages : {false, true}) {
    IndexPlace place;
    place.huge_pages = huge_pages;
    const auto index = make<ByteKeys>(place);
    const std::uint64_t empty = index->dram_bytes();
    for (int i = 0; i < 1000; ++i)
      ASSERT_EQ(index->insert(std::to_string(i), std::string(10'000, 'v')), Outcome::ok);
    EXPECT_GE(index->dram_bytes(), 10'000'000U);  // an empty one may hold a chunk already
    EXPECT_LE(index->dram_bytes() - empty, 16'000'000U);
  }
}

}  // namespace perdure
