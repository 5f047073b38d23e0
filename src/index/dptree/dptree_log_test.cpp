// DPTree's logs: which records count, changes that are logged before anybody knows what they come
// to, logs in parts.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

#include "core/rng.h"
#include "index/common/test_dram_pool.h"
#include "index/dptree/test_support.h"

namespace perdure {
namespace {

using dptree::Change;
using dptree::LogRecord;
using dptree_test::BothKinds;
using dptree_test::Case;
using dptree_test::fill_thinly;
using dptree_test::fill_up;
using dptree_test::Hog;
using dptree_test::make;
using dptree_test::short_logs;
using dptree_test::succeeds;
using dptree_test::suspected_number;

// G1: a record counts for its own log only, and not when a word of it is missing.
TEST(DpTreeLog, ARecordCountsForItsOwnLogOnly) {
  LogRecord record{};
  record.key = 17;
  record.value = 4;
  record.check = LogRecord::check_of({17, 4}, 5, Change::put);
  Change change{};
  ASSERT_TRUE(record.counts(5, change));
  EXPECT_EQ(change, Change::put);
  EXPECT_FALSE(record.counts(6, change));
  record.key = 0;
  EXPECT_FALSE(record.counts(5, change));
  record.key = 17;
  record.value = 0;
  EXPECT_FALSE(record.counts(5, change));
  record.value = 4;
  record.check = LogRecord::check_of({17, 4}, 5, Change::removal);
  ASSERT_TRUE(record.counts(5, change));
  EXPECT_EQ(change, Change::removal);
  const LogRecord nothing{};
  EXPECT_FALSE(nothing.counts(0, change));
}

template <class Keys>
class DpTreeLogs : public testing::Test {};
TYPED_TEST_SUITE(DpTreeLogs, BothKinds);

// G6: a change whose key the base tree may have, by the fingerprints, is in the log before anybody
// knows. What it comes to is right, and so it is after a restart.
TYPED_TEST(DpTreeLogs, ChangesInDoubtComeToWhatTheyShould) {
  Case<TypeParam> test({"buffer_entries=100000", "workers=0"});
  for (std::uint64_t number = 0; number < 4000; number += 2) test.put(number, number);
  ASSERT_TRUE(test.store.peer().merge());
  std::uint64_t speculative = 0;
  const auto change = [&](std::uint64_t number, std::uint64_t value) {
    const auto key = make<TypeParam>(number);
    speculative += !test.model.contains(key) && test.store.peer().is_suspected(key) ? 1 : 0;
    const bool is_there = test.model.contains(key);
    if (value % 2 == 0) {
      ASSERT_EQ(test.store.index().update(key, make<TypeParam>(value)),
                is_there ? Outcome::ok : Outcome::not_found);
      if (is_there) test.model[key] = make<TypeParam>(value);
    } else {
      ASSERT_EQ(test.store.index().insert(key, make<TypeParam>(value)),
                is_there ? Outcome::exists : Outcome::ok);
      if (!is_there) test.model[key] = make<TypeParam>(value);
    }
  };
  const std::uint64_t blocks = test.store.live_blocks();
  for (std::uint64_t number = 1; number < 1000; number += 2) change(number, 4);  // not there
  for (std::uint64_t number = 0; number < 1000; number += 2) change(number, 5);  // there
  EXPECT_EQ(test.store.peer().front().log().entries(), 0U);
  EXPECT_LE(test.store.live_blocks(), blocks + 8);  // segments of the log
  ASSERT_NO_FATAL_FAILURE(test.expect_sound());
  Rng rng(3);
  for (unsigned i = 0; i < 3000; ++i) change(rng.below(4000), rng.below(1000));
  EXPECT_GT(speculative, 200U);
  ASSERT_NO_FATAL_FAILURE(test.expect_sound());
  ASSERT_TRUE(succeeds(test.store.crash()));
  ASSERT_NO_FATAL_FAILURE(test.expect_sound());
  test.store.peer().rotate();
  for (unsigned i = 0; i < 3000; ++i) change(rng.below(4000), rng.below(1000));
  ASSERT_TRUE(succeeds(test.store.crash()));
  ASSERT_NO_FATAL_FAILURE(test.expect_sound());
  while (test.store.peer().merge()) continue;
  test.expect_sound();
}

// G6: what has come to nothing does not count when the key goes without the log: from the base
// tree, beside the front log or the middle log, or from the middle tree.
TYPED_TEST(DpTreeLogs, AChangeThatCameToNothingStaysNothing) {
  enum class Place { base, base_under_middle, middle };
  for (const Place place : {Place::base, Place::base_under_middle, Place::middle}) {
    SCOPED_TRACE(static_cast<int>(place));
    Case<TypeParam> test;
    for (std::uint64_t number = 0; number < 100; number += 2) test.put(number, number);
    ASSERT_TRUE(test.store.peer().merge());
    if (place == Place::middle) {
      test.put(40, 9);
      test.store.peer().rotate();
    }
    const auto key = make<TypeParam>(40);
    ASSERT_EQ(test.store.index().insert(key, make<TypeParam>(7)), Outcome::exists);
    if (place == Place::base_under_middle) test.store.peer().rotate();
    ASSERT_NO_FATAL_FAILURE(test.expect_sound());
    ASSERT_EQ(test.store.peer().remove_in_place(key), Outcome::ok);
    ASSERT_EQ(test.store.peer().remove_in_place(key), Outcome::not_found);
    test.model.erase(key);
    ASSERT_NO_FATAL_FAILURE(test.expect_sound());
    ASSERT_TRUE(succeeds(test.store.crash()));
    ASSERT_NO_FATAL_FAILURE(test.expect_sound());
    while (test.store.peer().merge()) continue;
    ASSERT_NO_FATAL_FAILURE(test.expect_sound());
    test.put(40, 3);
    ASSERT_TRUE(succeeds(test.store.crash()));
    test.expect_sound();
  }
}

// D5, G6: a speculative insert that a merge has taken over while its log stays fails when
// that is replayed, and then leads to the base tree's blob.
TYPED_TEST(DpTreeLogs, WhatIsInTheBaseTreeAlreadyIsFreedWithTheLog) {
  Case<TypeParam> test;
  for (std::uint64_t number = 0; number < 4000; number += 2) test.put(number, number);
  ASSERT_TRUE(test.store.peer().merge());
  const std::uint64_t number = suspected_number(test, 1001, 2);
  const auto key = make<TypeParam>(number);
  ASSERT_EQ(test.store.index().insert(key, key), Outcome::ok);
  test.model[key] = key;
  for (std::uint64_t other = 1; other < 20; other += 2) test.put(other, other);
  {
    Hog hog(test.store.pool().heap(), test.store.peer().leaf_bytes(), 0);
    ASSERT_FALSE(test.store.peer().merge());
    ASSERT_GT(test.store.peer().left(), 0U);
    hog.forget();
    ASSERT_TRUE(succeeds(test.store.crash()));
  }
  ASSERT_FALSE(test.store.peer().middle()->find(key, hash_of(key)).any());
  ASSERT_NO_FATAL_FAILURE(test.expect_sound());
  ASSERT_EQ(test.store.peer().remove_in_place(key), Outcome::ok);
  test.model.erase(key);
  ASSERT_NO_FATAL_FAILURE(test.expect_sound());
  for (std::uint64_t other = 3001; other < 3101; other += 2) test.put(other, other);
  test.expect_sound_for_good();
}

// Without room for its log record, a change still says what it would come to.
TYPED_TEST(DpTreeLogs, AFullPoolDoesNotHideWhatIsThere) {
  Case<TypeParam> test(short_logs);
  ASSERT_NO_FATAL_FAILURE(fill_thinly(test));
  Hog hog(test.store.pool().heap());
  std::uint64_t next = 0;
  (void)fill_up(test, next);
  typename TypeParam::ValueOut value{};
  for (std::uint64_t number = 2000; number < 4000; ++number) {
    const auto key = make<TypeParam>(number);
    if (test.store.index().lookup(key, value) == Outcome::ok) {
      ASSERT_EQ(test.store.index().insert(key, key), Outcome::exists);
    } else {
      ASSERT_EQ(test.store.index().update(key, key), Outcome::not_found);
    }
  }
  hog.forget();
  ASSERT_TRUE(succeeds(test.store.crash()));
  test.expect_sound();
}

// G3: a log in parts, over a larger tree; it is replayed, goes on, and is replayed again.
TYPED_TEST(DpTreeLogs, ALogInPartsKeepsTheOrderOfAKeysRecords) {
  Case<TypeParam> test(short_logs);
  for (std::uint64_t number = 0; number < 4000; ++number) test.put(number, number);
  ASSERT_EQ(test.store.peer().front().log().parts(), 1U);
  ASSERT_TRUE(test.store.peer().merge());
  test.store.peer().rotate();
  ASSERT_TRUE(test.store.peer().merge());
  ASSERT_GT(test.store.peer().front().log().parts(), 4U);
  Rng rng(7);
  const auto change = [&] {
    for (unsigned i = 0; i < 600; ++i)
      if (rng.below(3) == 0)
        test.remove(rng.below(60));
      else
        test.put(rng.below(60), rng.below(1000));
  };
  for (unsigned times = 0; times < 3; ++times) {
    ASSERT_NO_FATAL_FAILURE(change());
    ASSERT_TRUE(succeeds(test.store.crash()));
    ASSERT_NO_FATAL_FAILURE(test.expect_sound());
  }
  test.store.peer().rotate();  // into a log that keeps segments
  for (unsigned times = 0; times < 3; ++times) {
    ASSERT_NO_FATAL_FAILURE(change());
    ASSERT_TRUE(succeeds(test.store.crash()));
    ASSERT_NO_FATAL_FAILURE(test.expect_sound());
  }
}

// G3, G5: whether it was kept, is new or was set aside, a segment stands before all opened earlier.
TEST(DpTreeLogTail, SegmentsAreOpenedInTheOrderOfTheirChain) {
  using dptree::LogSegment;
  constexpr unsigned records = 3;
  constexpr std::size_t kept = 6;
  const auto pool = dram_pool();
  std::atomic<std::uint64_t> head{null_offset};
  std::vector<std::uint64_t> opened;
  const auto open = [&](dptree::LogTail& tail, bool all) {
    for (unsigned i = 0; i < records; ++i) {
      const auto* slot = tail.take(
          tail.part(0), [] {}, all);
      if (slot == nullptr) return false;
      if (i == 0) opened.push_back(pool->offset_of(slot) - sizeof(LogSegment));
    }
    return true;
  };
  const auto chain = [&] {
    std::vector<std::uint64_t> all;
    for (std::uint64_t at = head; at != null_offset; at = pool->at<LogSegment>(at)->next)
      all.push_back(at);
    return all;
  };
  dptree::LogTail before(*pool, records, 0);
  before.begin(head, {}, 0);
  for (std::size_t i = 0; i < kept; ++i) ASSERT_TRUE(open(before, false));
  opened.clear();

  dptree::LogTail tail(*pool, records, 0);
  tail.begin(head, chain(), 3);
  for (unsigned i = 0; i < 5; ++i) ASSERT_TRUE(open(tail, false));
  ASSERT_EQ(chain().size(), kept + 2) << "two of the five are new";
  while (pool->heap().reserve(LogSegment::bytes(records))) {
  }
  ASSERT_FALSE(open(tail, false)) << "what is set aside is not for everybody";
  ASSERT_TRUE(open(tail, true));
  tail.release();
  for (unsigned i = 0; i < 2; ++i) ASSERT_TRUE(open(tail, false));
  ASSERT_FALSE(open(tail, true));
  std::ranges::reverse(opened);
  EXPECT_EQ(chain(), opened);
}

}  // namespace
}  // namespace perdure
