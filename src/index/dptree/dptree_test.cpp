// What only DPTree has: rotations, merges, versions, replayed logs.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <string>
#include <thread>

#include "core/rng.h"
#include "index/dptree/test_support.h"

namespace perdure {
namespace {

using dptree::Change;
using dptree::LogRecord;
using dptree_test::BothKinds;
using dptree_test::Case;
using dptree_test::expect_equal;
using dptree_test::Hog;
using dptree_test::make;
using dptree_test::Model;
using dptree_test::Store;
using dptree_test::succeeds;

// B1: the higher stamp that is not above the version.
TEST(DpTreeLeaf, TheVersionSelectsASet) {
  std::array<dptree::LeafSet, 2> set{};
  const auto current = [&](std::uint64_t first, std::uint64_t second, std::uint64_t version) {
    set[0].stamp = first;
    set[1].stamp = second;
    return dptree::current_of(set, version);
  };
  EXPECT_EQ(current(3, 5, 5), 1U);
  EXPECT_EQ(current(3, 5, 4), 0U);
  EXPECT_EQ(current(6, 5, 6), 0U);
  EXPECT_EQ(current(6, 5, 5), 1U);
  EXPECT_EQ(current(1, 0, 1), 0U);
}

template <class Keys>
std::decay_t<decltype(make<Keys>(0))> odd_key(Rng& rng, unsigned shape) {
  if constexpr (Keys::kind == KeyKind::integer) {
    constexpr std::array<std::uint64_t, 3> masks{0x3f, 0xff00ff00ff, ~std::uint64_t{0}};
    return rng() & masks[shape];
  } else {
    constexpr std::array<std::string_view, 2> letters{std::string_view("\0ab\xff", 4), "xyz"};
    std::string key(shape == 2 ? 0 : 20 * shape, 'p');
    for (std::uint64_t i = rng.below(4); i-- > 0;)
      key += shape == 2 ? static_cast<char>(rng.below(256))
                        : letters[shape][rng.below(letters[shape].size())];
    return key;
  }
}

template <class Keys>
class DpTreeOf : public testing::Test {};
TYPED_TEST_SUITE(DpTreeOf, BothKinds);

// M1: nodes with few children and with many, with shared bytes, and keys between all of them.
TYPED_TEST(DpTreeOf, TheMapFindsTheLeafThatCoversAKey) {
  for (unsigned shape = 0; shape < 3; ++shape)
    for (const unsigned count : {1U, 2U, 30U, 400U}) {
      Rng rng(count + shape);
      std::set<std::decay_t<decltype(make<TypeParam>(0))>> separators;
      for (unsigned i = 0; i < count; ++i) separators.insert(odd_key<TypeParam>(rng, shape));
      dptree::BaseMap<TypeParam> map(1);
      for (const auto& separator : separators)
        map.add(separator, dptree::LeafLink(64 * map.size(), map.size() % 2));
      map.finish();
      for (unsigned i = 0; i < 2000; ++i) {
        const auto key = odd_key<TypeParam>(rng, i % 3);
        const auto above = std::distance(separators.begin(), separators.upper_bound(key));
        const auto number = static_cast<std::size_t>(std::max<std::ptrdiff_t>(above, 1) - 1);
        ASSERT_EQ(map.find(key).number, number);
        ASSERT_EQ(map.find(key).leaf, dptree::LeafLink(64 * number, number % 2));
      }
    }
  const dptree::BaseMap<TypeParam> empty(1);
  EXPECT_EQ(empty.find(make<TypeParam>(1)).leaf, dptree::LeafLink());
}

// D1: wherever a scan begins and ends in the three trees, within a leaf or over many, however far
// from evenly the keys are spread.
TYPED_TEST(DpTreeOf, AScanFromAnywhereTakesTheNextRecords) {
  for (const char* leaf_entries : {"leaf_entries=8", "leaf_entries=256"}) {
    Case<TypeParam> test({leaf_entries, "buffer_entries=100000", "workers=0"});
    Rng rng(3);
    const auto uneven = [&] {
      const std::uint64_t number = rng.below(1500);
      return number % 3 == 0 ? number << 40 : number;
    };
    for (unsigned tree = 0; tree < 3; ++tree) {
      for (int i = 0; i < 1200; ++i)
        if (rng.below(4) == 0)
          test.remove(uneven());
        else
          test.put(uneven(), rng.below(1000));
      if (tree == 0) {
        ASSERT_TRUE(test.store.peer().merge());
      } else if (tree == 1) {
        test.store.peer().rotate();
      }
    }
    typename TypeParam::Scan scan;
    for (const std::size_t count : {1U, 2U, 33U, 100U, 3000U})
      for (int round = 0; round < 60; ++round) {
        const auto from = make<TypeParam>(uneven());
        (void)test.store.index().scan(from, count, scan);
        std::size_t i = 0;
        for (auto at = test.model.lower_bound(from); at != test.model.end() && i < count; ++at) {
          ASSERT_LT(i, scan.size());
          ASSERT_EQ(scan[i].key, at->first);
          ASSERT_EQ(scan[i++].value, at->second);
        }
        ASSERT_EQ(i, scan.size());
      }
  }
}

template <class Keys>
void keeps_what_it_is_given(const char* workers) {
  Case<Keys> test({"leaf_entries=4", "log_entries=3", "buffer_entries=4", workers});
  Rng rng(5);
  for (int round = 0; round < 20; ++round) {
    for (int i = 0; i < 150; ++i)
      if (rng.below(3) == 0)
        test.remove(rng.below(400));
      else
        test.put(rng.below(400), rng.below(1000));
    ASSERT_NO_FATAL_FAILURE(test.expect_sound());
    ASSERT_TRUE(succeeds(test.store.crash()));
    ASSERT_NO_FATAL_FAILURE(test.expect_sound());
  }
}
TYPED_TEST(DpTreeOf, KeepsWhatItIsGivenThroughMergesAndRestarts) {
  keeps_what_it_is_given<TypeParam>("workers=0");
  keeps_what_it_is_given<TypeParam>("workers=1");
}

// D1, F2, F3: each tree hides what is below it.
TYPED_TEST(DpTreeOf, TheNewestTreeDecides) {
  Case<TypeParam> test;
  for (std::uint64_t number = 0; number < 60; ++number) test.put(number, 1);
  ASSERT_TRUE(test.store.peer().merge());
  for (std::uint64_t number = 0; number < 60; number += 2) test.put(number, 2);
  for (std::uint64_t number = 0; number < 60; number += 5) test.remove(number);
  test.store.peer().rotate();
  for (std::uint64_t number = 0; number < 60; number += 3) test.put(number, 3);
  for (std::uint64_t number = 0; number < 60; number += 7) test.remove(number);
  ASSERT_NE(test.store.peer().middle(), nullptr);
  ASSERT_NO_FATAL_FAILURE(test.expect_sound());
  ASSERT_TRUE(test.store.peer().merge());
  ASSERT_NO_FATAL_FAILURE(test.expect_sound());
  ASSERT_TRUE(test.store.peer().merge());
  test.expect_sound();
}

// G3, G4, F1, F4: both logs are replayed, and the last record of a key counts.
TYPED_TEST(DpTreeOf, RecoveryReplaysBothLogs) {
  Case<TypeParam> test({"leaf_entries=8", "buffer_entries=100000", "workers=0", "log_entries=5"});
  Rng rng(11);
  const auto change = [&] {
    for (unsigned i = 0; i < 200; ++i)
      if (rng.below(3) == 0)
        test.remove(rng.below(50));
      else
        test.put(rng.below(50), rng.below(1000));
  };
  change();
  ASSERT_TRUE(test.store.peer().merge());
  change();
  test.store.peer().rotate();
  change();
  const std::uint64_t version = test.store.peer().base().version;
  const std::uint64_t entries = test.store.peer().front().log().entries();
  for (unsigned times = 0; times < 2; ++times) {
    ASSERT_TRUE(succeeds(test.store.crash()));
    ASSERT_NE(test.store.peer().middle(), nullptr);
    EXPECT_EQ(test.store.peer().base().version, version);
    EXPECT_EQ(test.store.peer().front().log().entries(), entries);
    ASSERT_NO_FATAL_FAILURE(test.expect_sound());
  }
  change();
  ASSERT_TRUE(succeeds(test.store.crash()));
  ASSERT_NO_FATAL_FAILURE(test.expect_sound());
  ASSERT_TRUE(test.store.peer().merge());
  ASSERT_TRUE(test.store.peer().merge());
  ASSERT_NO_FATAL_FAILURE(test.expect_sound());
  ASSERT_TRUE(succeeds(test.store.crash()));
  test.expect_sound();
}

// B1, B4: what a merge has nothing for keeps its set.
TYPED_TEST(DpTreeOf, AMergeTouchesNothingButWhatChanges) {
  Case<TypeParam> test;
  for (std::uint64_t number = 0; number < 100; ++number) test.put(number, number);
  ASSERT_TRUE(test.store.peer().merge());
  const std::size_t leaves = test.store.peer().base().size();
  ASSERT_GE(leaves, 13U);
  ASSERT_NO_FATAL_FAILURE(test.expect_sound());
  const std::uint64_t blocks = test.store.live_blocks();
  test.put(50, 7);
  test.remove(51);
  ASSERT_TRUE(test.store.peer().merge());
  ASSERT_EQ(test.store.peer().base().size(), leaves);
  std::size_t touched = 0;
  for (std::size_t i = 0; i < leaves; ++i)
    touched += test.store.peer().set(i).stamp == test.store.peer().base().version;
  EXPECT_LE(touched, 2U);
  ASSERT_NO_FATAL_FAILURE(test.expect_sound());
  EXPECT_EQ(test.store.live_blocks(), blocks - (TypeParam::kind == KeyKind::bytes ? 1 : 0));
}

// B3: where only values change, a merge writes these in place and no set, and a restart finds them.
TYPED_TEST(DpTreeOf, AMergeOfValuesKeepsTheSets) {
  Case<TypeParam> test;
  for (std::uint64_t number = 0; number < 100; ++number) test.put(number, number);
  ASSERT_TRUE(test.store.peer().merge());
  const std::uint64_t version = test.store.peer().base().version;
  for (std::uint64_t number = 0; number < 100; number += 3) test.put(number, number + 1000);
  ASSERT_TRUE(test.store.peer().merge());
  ASSERT_EQ(test.store.peer().base().version, version + 1);
  for (std::size_t i = 0; i < test.store.peer().base().size(); ++i)
    EXPECT_LE(test.store.peer().set(i).stamp, version);
  ASSERT_NO_FATAL_FAILURE(test.expect_sound());
  ASSERT_TRUE(succeeds(test.store.crash()));
  test.expect_sound();
}

// B5: more records than there is room for at their home.
TYPED_TEST(DpTreeOf, RecordsWithoutRoomAtHomeAreFound) {
  Case<TypeParam> test({"buffer_entries=100000", "workers=0"});
  const dptree::LeafView any(nullptr, dptree::BaseLeaf::most_entries);
  std::uint64_t next = 0;
  const auto put = [&](unsigned count, unsigned home) {
    for (; count != 0; ++next)
      if (any.bucket_of(hash_of(make<TypeParam>(next))) == home) {
        test.put(next, next);
        --count;
      }
  };
  put(70, 1);
  put(20, 2);
  ASSERT_TRUE(test.store.peer().merge());
  ASSERT_EQ(test.store.peer().base().size(), 1U);
  EXPECT_EQ(test.store.peer().set(0).complete, 0b1101U);
  ASSERT_NO_FATAL_FAILURE(test.expect_sound());
  put(50, 2);
  ASSERT_TRUE(test.store.peer().merge());
  EXPECT_EQ(test.store.peer().set(0).complete, 0b1001U);
  ASSERT_NO_FATAL_FAILURE(test.expect_sound());
  put(100, 3);
  put(60, 0);
  ASSERT_TRUE(test.store.peer().merge());
  ASSERT_EQ(test.store.peer().base().size(), 2U);
  ASSERT_NO_FATAL_FAILURE(test.expect_sound());
  ASSERT_TRUE(succeeds(test.store.crash()));
  ASSERT_NO_FATAL_FAILURE(test.expect_sound());
}

// B6: a record that is not in the line of its choice found that full.
TEST(DpTreeLeaf, RecordsStandInTheLineOfTheirChoice) {
  Case<IntegerKeys> test({"buffer_entries=100000", "workers=0"});
  for (std::uint64_t part = 0; part < 2; ++part) {
    for (std::uint64_t i = 0; i < 80; ++i) test.put(100 * i + part, i);
    ASSERT_TRUE(test.store.peer().merge());
  }
  ASSERT_EQ(test.store.peer().base().size(), 1U);
  const dptree::LeafView leaf = test.store.peer().leaf(0);
  const dptree::LeafSet& set = test.store.peer().set(0);
  unsigned in_line = 0;
  for (unsigned slot = 0; slot < dptree::BaseLeaf::most_entries; ++slot) {
    if (!set.has(slot)) continue;
    const unsigned choice = leaf.choice_of(hash_of(leaf.record(slot).load().key));
    const bool is_there = slot - slot % dptree::records_per_line == choice;
    in_line += is_there ? 1 : 0;
    for (unsigned i = 0; !is_there && i < dptree::records_per_line; ++i)
      EXPECT_TRUE(set.has(choice + i)) << "slot " << slot << " of choice " << choice;
  }
  EXPECT_GT(in_line, 130U);
  test.expect_sound();
}
TYPED_TEST(DpTreeOf, ARecordThatIsNotAtHomeIsCorrupt) {
  Case<TypeParam> test({"buffer_entries=100000", "workers=0"});
  const dptree::LeafView any(nullptr, dptree::BaseLeaf::most_entries);
  for (std::uint64_t next = 0, count = 0; count < 70; ++next)
    if (any.bucket_of(hash_of(make<TypeParam>(next))) == 1) {
      test.put(next, next);
      ++count;
    }
  ASSERT_TRUE(test.store.peer().merge());
  test.store.peer().set(0).complete = 0b1111;
  const Result<void> checked = test.store.index().check_invariants();
  ASSERT_FALSE(checked.ok());
  EXPECT_NE(checked.error().line().find("B5:"), std::string::npos);
  const Result<void> recovered = test.store.crash();
  ASSERT_FALSE(recovered.ok());
  EXPECT_EQ(recovered.error().code, ErrorCode::corrupt);
}

// D5: leaves, logs and blobs go when nothing needs them; the emptied tree takes records again.
TYPED_TEST(DpTreeOf, WhatIsRemovedIsFreed) {
  Case<TypeParam> test;
  const std::uint64_t blocks = test.store.live_blocks();
  for (unsigned times = 0; times < 3; ++times) {
    for (std::uint64_t number = 0; number < 300; ++number) test.put(number, number);
    ASSERT_TRUE(test.store.peer().merge());
    for (std::uint64_t number = 0; number < 300; number += 2) test.put(number, number + 1);
    for (std::uint64_t number = 0; number < 300; ++number) test.remove(number);
    ASSERT_TRUE(test.store.peer().merge());
    EXPECT_EQ(test.store.peer().base().size(), 0U);
    ASSERT_NO_FATAL_FAILURE(test.expect_sound());
    EXPECT_EQ(test.store.live_blocks(), blocks);
  }
}

// D3: no change is made by what is read in a set that is being overwritten.
TYPED_TEST(DpTreeOf, WritersReadAgainWhatIsOverwritten) {
  Case<TypeParam> test;
  for (std::uint64_t number = 0; number < 20; ++number) test.put(number, number);
  ASSERT_TRUE(test.store.peer().merge());
  const auto change_while_it_is_overwritten = [&](auto&& change) {
    auto& bits = test.store.peer().set(0).bitmap[0];
    const std::uint64_t all = bits.exchange(0);
    std::jthread writer;
    const auto held_off = test.store.peer().hold_readers_off();
    writer = std::jthread(change);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    bits = all;
  };
  change_while_it_is_overwritten([&] {
    EXPECT_EQ(test.store.index().insert(make<TypeParam>(1), make<TypeParam>(2)), Outcome::exists);
  });
  change_while_it_is_overwritten([&] {
    EXPECT_EQ(test.store.index().update(make<TypeParam>(2), make<TypeParam>(2)), Outcome::ok);
  });
  change_while_it_is_overwritten(
      [&] { EXPECT_EQ(test.store.index().remove(make<TypeParam>(3)), Outcome::ok); });
  test.model.erase(make<TypeParam>(3));
  test.expect_sound();
}

// What was loaded says how much the first front tree takes, and in how many parts its log is.
TYPED_TEST(DpTreeOf, ABulkLoadIsFollowedByAFrontTreeOfItsSize) {
  Store<TypeParam> store({"log_entries=3", "buffer_entries=10", "merge_percent=20"});
  Model<TypeParam> model;
  for (std::uint64_t number = 0; number < 2000; ++number)
    model.emplace(make<TypeParam>(2 * number), make<TypeParam>(number));
  std::vector<typename TypeParam::Record> records;
  for (const auto& [key, value] : model) records.push_back({key, value});
  ASSERT_TRUE(succeeds(store.index().bulk_load(records)));
  EXPECT_GT(store.peer().front().log().parts(), 1U);
  const std::uint64_t version = store.peer().base().version;
  for (std::uint64_t number = 0; number < 300; ++number) {
    const auto key = make<TypeParam>(2 * number + 1);
    ASSERT_EQ(store.index().insert(key, key), Outcome::ok);
    model.emplace(key, key);
  }
  EXPECT_EQ(store.peer().base().version, version);
  ASSERT_NO_FATAL_FAILURE(expect_equal(store.index(), model));
  ASSERT_TRUE(succeeds(store.crash()));
  expect_equal(store.index(), model);
}

// D7: nobody but the worker merges here.
TEST(DpTree, TheWorkerMerges) {
  Store<IntegerKeys> store({"buffer_entries=100", "workers=1"});
  Model<IntegerKeys> model;
  for (std::uint64_t key = 0; key < 150; ++key) {
    ASSERT_EQ(store.index().insert(key, key), Outcome::ok);
    model[key] = key;
  }
  const auto version = [&] {
    store.peer().hold();
    const std::uint64_t now = store.peer().base().version;
    store.peer().let_go();
    return now;
  };
  for (pm::Backoff backoff; version() == 0;) backoff.wait();
  expect_equal(store.index(), model);
}

// D7: a front tree that is full is merged before the tree is gone, one that is not stays a log.
TEST(DpTree, TheWorkerEndsWhatItWasAskedFor) {
  for (const std::uint64_t records : {99U, 100U, 199U}) {
    Store<IntegerKeys> store({"buffer_entries=100", "workers=1"});
    for (std::uint64_t key = 0; key < records; ++key)
      ASSERT_EQ(store.index().insert(key, key), Outcome::ok);
    ASSERT_TRUE(succeeds(store.crash()));
    EXPECT_EQ(store.peer().middle(), nullptr);
    EXPECT_EQ(store.peer().base().version == 0, records < 100);
    EXPECT_LT(store.peer().front().log().entries(), 100U);
    EXPECT_EQ(store.index().size(), records);
  }
}

// D7: what has become free since the tree was quiet is not used by a worker that nobody asked.
TEST(DpTree, ATreeThatIsQuietStaysAsItIs) {
  Store<IntegerKeys> store({"leaf_entries=8", "log_entries=3", "buffer_entries=100", "workers=1"});
  for (std::uint64_t key = 0; key < 4000; key += 10)
    ASSERT_EQ(store.index().insert(key, key), Outcome::ok);
  store.index().quiesce();
  std::uint64_t version = 0;
  {
    const Hog hog(store.pool().heap());
    for (std::uint64_t key = 1; store.index().insert(key, key) == Outcome::ok;)
      key += key % 10 == 9 ? 2 : 1;
    store.index().quiesce();
    version = store.peer().base().version;
    ASSERT_GT(store.peer().left(), 0U);
  }
  ASSERT_TRUE(succeeds(store.crash()));
  EXPECT_EQ(store.peer().base().version, version);
  EXPECT_NE(store.peer().middle(), nullptr);
}

// Each invariant that the check names is one that it finds.
TEST(DpTree, CheckNamesTheBrokenInvariant) {
  const auto names = [](const char* invariant, auto&& damage) {
    Case<IntegerKeys> test;
    for (std::uint64_t number = 10; number < 400; number += 10) test.put(number, number);
    EXPECT_TRUE(test.store.peer().merge());
    for (std::uint64_t number = 5; number < 400; number += 50) test.put(number, number);
    test.expect_sound();
    damage(test.store.peer());
    const Result<void> checked = test.store.index().check_invariants();
    const std::string line = checked.ok() ? "nothing" : checked.error().line();
    EXPECT_NE(line.find(std::string(invariant) + ":"), std::string::npos) << line;
  };
  names("A1", [](const auto& peer) { peer.anchor().state += std::uint64_t{1} << 40; });
  names("M1", [](const auto& peer) { peer.set(1).next = peer.base().leaf(0).offset(); });
  names("M1", [](const auto& peer) { peer.set(peer.base().size() - 1).next = 4096; });
  names("M2", [](const auto& peer) {
    const unsigned which = peer.base().leaf(1).which();
    peer.leaf(1).set(1 - which).stamp = peer.base().version;
    peer.leaf(1).set(which).stamp = 0;
  });
  names("B2", [](const auto& peer) { peer.set(1).count -= 1; });
  names("B2", [](const auto& peer) {
    const auto leaf = peer.leaf(1);
    std::atomic<std::uint8_t>* const order = leaf.order(leaf.current(peer.base().version));
    const std::uint8_t first = order[0];
    order[0] = order[1].load();
    order[1] = first;
  });
  names("B3", [](const auto& peer) { peer.leaf(1).fingerprint(0) += 1; });
  names("F1", [](const auto& peer) { peer.logged(105).value += 1; });
  names("F1", [](const auto& peer) {
    LogRecord& record = peer.logged(105);
    record.check = LogRecord::check_of(record.words(), peer.front().seal(), Change::removal);
  });
  names("D5", [](const auto& peer) {
    peer.anchor().log[dptree::State::from(peer.anchor().state).front] = null_offset;
  });
}

}  // namespace
}  // namespace perdure
