// DPTree in full pools: what a merge leaves over, and changes in place.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "core/rng.h"
#include "index/dptree/test_support.h"

namespace perdure {
namespace {

using dptree_test::BothKinds;
using dptree_test::Case;
using dptree_test::expect_equal;
using dptree_test::fill_thinly;
using dptree_test::fill_three_trees;
using dptree_test::fill_up;
using dptree_test::Hog;
using dptree_test::make;
using dptree_test::Model;
using dptree_test::short_logs;
using dptree_test::Store;
using dptree_test::succeeds;

template <class Keys>
class DpTreeFull : public testing::Test {};
TYPED_TEST_SUITE(DpTreeFull, BothKinds);

// D4: a merge does what there is room for, and is made up for when there is more.
TYPED_TEST(DpTreeFull, AMergeWithoutRoomLeavesTheRestOver) {
  Case<TypeParam> test;
  for (std::uint64_t number = 0; number < 400; number += 2) test.put(number, number);
  ASSERT_TRUE(test.store.peer().merge());
  for (std::uint64_t number = 1; number < 400; number += 2) test.put(number, number);
  for (std::uint64_t number = 0; number < 400; number += 10) test.put(number, 1);
  for (std::uint64_t number = 4; number < 400; number += 10) test.remove(number);
  for (std::uint64_t number = 14; number < 400; number += 20) test.put(number, 2);
  {
    Hog hog(test.store.pool().heap(), test.store.peer().leaf_bytes(), 5);
    std::size_t before = 400;
    for (unsigned times = 0; times < 3; ++times) {
      EXPECT_FALSE(test.store.peer().merge());
      EXPECT_GT(test.store.peer().left(), 0U);
      EXPECT_LE(test.store.peer().left(), before);
      before = test.store.peer().left();
      ASSERT_NE(test.store.peer().middle(), nullptr);
      ASSERT_NO_FATAL_FAILURE(test.expect_content());
    }
    EXPECT_LT(before, 200U);
  }
  ASSERT_NO_FATAL_FAILURE(test.expect_sound());
  ASSERT_TRUE(succeeds(test.store.crash()));
  ASSERT_NO_FATAL_FAILURE(test.expect_sound());
  ASSERT_TRUE(test.store.peer().merge());
  EXPECT_EQ(test.store.peer().middle(), nullptr);
  ASSERT_NO_FATAL_FAILURE(test.expect_sound());
  ASSERT_TRUE(succeeds(test.store.crash()));
  test.expect_sound();
}

// What is removed anywhere makes room everywhere: thin leaves are joined, which needs no room.
TYPED_TEST(DpTreeFull, ThinLeavesAreJoinedWhereOthersLackRoom) {
  Case<TypeParam> test(short_logs);
  ASSERT_NO_FATAL_FAILURE(fill_thinly(test));
  Hog hog(test.store.pool().heap());
  std::uint64_t next = 0;
  (void)fill_up(test, next);
  ASSERT_LT(next, 2000U);
  for (std::uint64_t number = 2000; number < 4000; number += 10)
    if (number % 70 != 0) {
      ASSERT_NO_FATAL_FAILURE(test.remove(number));
    }
  test.store.index().quiesce();
  ASSERT_NO_FATAL_FAILURE(test.expect_content());
  EXPECT_GT(fill_up(test, next), 60U);
  ASSERT_NO_FATAL_FAILURE(test.expect_content());
  hog.forget();
  ASSERT_TRUE(succeeds(test.store.crash()));
  test.expect_sound();
}

// B4, G2: removals find room where the records are, and in each state the tree recovers.
TYPED_TEST(DpTreeFull, RemovalsNeedNoRoom) {
  for (const std::uint64_t until : {40U, 80U, 120U}) {
    Case<TypeParam> test(short_logs);
    ASSERT_NO_FATAL_FAILURE(fill_three_trees(test));
    {
      Hog hog(test.store.pool().heap());
      for (std::uint64_t number = 1000;; ++number) {
        const auto key = make<TypeParam>(number);
        const Outcome outcome = test.store.index().insert(key, key);
        if (outcome == Outcome::out_of_space) break;
        ASSERT_EQ(outcome, Outcome::ok);
        test.model[key] = key;
      }
      for (std::uint64_t number = 0; number < until; ++number)
        ASSERT_NO_FATAL_FAILURE(test.remove(number));
      ASSERT_NO_FATAL_FAILURE(test.remove(0));
      ASSERT_NO_FATAL_FAILURE(test.expect_content());
      hog.forget();
      ASSERT_TRUE(succeeds(test.store.crash()));
    }
    ASSERT_NO_FATAL_FAILURE(test.expect_sound());
    for (std::uint64_t number = 0; number < 200; ++number) test.put(number, number);
    while (test.store.peer().merge()) continue;
    ASSERT_NO_FATAL_FAILURE(test.expect_sound());
    ASSERT_TRUE(succeeds(test.store.crash()));
    test.expect_sound();
  }
}

// G2: values are replaced where they are, also where a merge has left some over, and what merges
// and recoveries make of them is the same.
TYPED_TEST(DpTreeFull, ReplacementsNeedNoRoomForALogRecord) {
  for (const bool stuck : {false, true}) {
    Case<TypeParam> test(short_logs);
    ASSERT_NO_FATAL_FAILURE(fill_three_trees(test));
    {
      Hog hog(test.store.pool().heap(), test.store.peer().leaf_bytes(), stuck ? 1 : 1000);
      if (stuck) {
        EXPECT_FALSE(test.store.peer().merge());
      }
      for (std::uint64_t round = 1; round <= 3; ++round)
        for (std::uint64_t number = 0; number < 120; ++number) {
          const auto key = make<TypeParam>(number);
          const auto value = make<TypeParam>(1000 * round + number);
          ASSERT_EQ(test.store.peer().replace_in_place(key, value), Outcome::ok) << number;
          test.model[key] = value;
        }
      const auto absent = make<TypeParam>(120);
      EXPECT_EQ(test.store.peer().replace_in_place(absent, absent), Outcome::not_found);
      ASSERT_NO_FATAL_FAILURE(test.expect_content());
    }
    for (std::uint64_t number = 0; number < 20; ++number)
      ASSERT_NO_FATAL_FAILURE(test.remove(6 * number));
    test.expect_sound_for_good();
  }
}

// A full pool refuses to replace none of its values: integers have no other need.
TEST(DpTreeFullOfIntegers, ValuesAreReplacedWhereNothingElseIsPossible) {
  Case<IntegerKeys> test(short_logs);
  ASSERT_NO_FATAL_FAILURE(fill_three_trees(test));
  Hog hog(test.store.pool().heap());
  std::uint64_t next = 1000;
  (void)fill_up(test, next);
  for (std::uint64_t round = 1; round <= 3; ++round)
    for (auto& [key, value] : test.model) {
      value = 1000 * round + key;
      const Outcome outcome = round % 2 == 0 ? test.store.index().update(key, value)
                                             : test.store.index().upsert(key, value);
      ASSERT_EQ(outcome, Outcome::ok) << key;
    }
  ASSERT_NO_FATAL_FAILURE(test.expect_content());
  EXPECT_EQ(test.store.index().update(999, 1), Outcome::not_found);
  EXPECT_EQ(test.store.index().upsert(999, 1), Outcome::out_of_space);
  hog.forget();
  ASSERT_TRUE(succeeds(test.store.crash()));
  test.expect_sound();
}

// What no merge could take in is refused before it is logged: it would keep the logs, and so all
// else, from being merged. Records come in so that leaves are split at about the same time.
TEST(DpTreeFullOfIntegers, EveryLeafFillsUp) {
  Case<IntegerKeys> test({"leaf_entries=32", "log_entries=16", "buffer_entries=64", "workers=0"});
  constexpr unsigned most_refusals = 300;
  for (std::uint64_t i = 0, refusals = 0; refusals < most_refusals; ++i) {
    const std::uint64_t key = mix64(i);
    const Outcome outcome = test.store.index().insert(key, i);
    ASSERT_TRUE(outcome == Outcome::ok || outcome == Outcome::out_of_space);
    refusals = outcome == Outcome::ok ? 0 : refusals + 1;
    if (outcome == Outcome::ok) test.model[key] = i;
  }
  EXPECT_EQ(test.store.peer().left(), 0U);
  test.store.index().quiesce();
  const std::size_t slots = test.store.peer().base().size() * 32;
  EXPECT_GT(test.model.size() * 100, slots * 99) << "of " << slots << " slots";
  ASSERT_NO_FATAL_FAILURE(test.expect_sound());
  ASSERT_TRUE(succeeds(test.store.crash()));
  test.expect_sound();
}

// Removals in place make room for what comes next, without a restart between.
TYPED_TEST(DpTreeFull, AFullPoolTakesRecordsAgainAfterRemovals) {
  Case<TypeParam> test({"leaf_entries=8", "log_entries=3", "buffer_entries=64"});
  const std::size_t value_bytes = TypeParam::kind == KeyKind::integer ? 0 : 3000;
  const auto insert = [&](std::uint64_t number) {
    auto value = make<TypeParam>(number);
    if constexpr (TypeParam::kind == KeyKind::bytes) value.resize(value_bytes, 'v');
    const Outcome outcome = test.store.index().insert(make<TypeParam>(number), value);
    if (outcome == Outcome::ok) test.model[make<TypeParam>(number)] = value;
    return outcome;
  };
  std::uint64_t records = 0;
  while (insert(mix64(records)) == Outcome::ok) ++records;
  ASSERT_GT(records, 1000U);
  ASSERT_NO_FATAL_FAILURE(test.expect_sound());
  for (std::uint64_t i = 0; i < records; ++i)
    if (i % 4 != 0) {
      ASSERT_NO_FATAL_FAILURE(test.remove(mix64(i)));
    }
  ASSERT_NO_FATAL_FAILURE(test.expect_sound());
  for (std::uint64_t i = 0; i < records / 2; ++i)
    ASSERT_EQ(insert(mix64(i + 10 * records)), Outcome::ok) << i << " of " << records;
  ASSERT_NO_FATAL_FAILURE(test.expect_sound());
  ASSERT_TRUE(succeeds(test.store.crash()));
  test.expect_sound();
}

TYPED_TEST(DpTreeFull, ABulkLoadThatDoesNotFitLeavesNothing) {
  Store<TypeParam> store;
  std::vector<std::decay_t<decltype(make<TypeParam>(0))>> keys;
  std::vector<typename TypeParam::Record> records;
  for (std::uint64_t number = 0; number < 2000; ++number) keys.push_back(make<TypeParam>(number));
  for (const auto& key : keys) records.push_back({key, key});
  const std::uint64_t blocks = store.live_blocks();
  {
    const Hog hog(store.pool().heap(), store.peer().leaf_bytes(), 20);
    const Result<void> loaded = store.index().bulk_load(records);
    ASSERT_FALSE(loaded.ok());
    EXPECT_EQ(loaded.error().code, ErrorCode::out_of_space);
  }
  EXPECT_EQ(store.live_blocks(), blocks);
  ASSERT_NO_FATAL_FAILURE(expect_equal(store.index(), {}));
  ASSERT_TRUE(succeeds(store.index().bulk_load(records)));
  Model<TypeParam> model;
  for (const auto& key : keys) model.emplace(key, key);
  ASSERT_NO_FATAL_FAILURE(expect_equal(store.index(), model));
  ASSERT_TRUE(succeeds(store.crash()));
  expect_equal(store.index(), model);
}

}  // namespace
}  // namespace perdure
