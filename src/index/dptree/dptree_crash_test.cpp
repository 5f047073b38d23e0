// Power cuts made by hand (record/test_cuts.h) around every step of DPTree.
#include <gtest/gtest.h>

#include <algorithm>

#include "index/common/test_cuts.h"
#include "index/dptree/test_support.h"

namespace perdure {
namespace {

using dptree_test::BothKinds;
using dptree_test::Case;
using dptree_test::expect_equal;
using dptree_test::fill_three_trees;
using dptree_test::Hog;
using dptree_test::make;
using dptree_test::Model;
using dptree_test::short_logs;
using dptree_test::Store;
using dptree_test::succeeds;
using dptree_test::suspected_number;
using index_test::expect_after_cuts;
using index_test::expect_corrupt;
using index_test::extract;
using index_test::PowerCuts;
using index_test::Word;
using index_test::Words;
using index_test::operator+;

template <class Keys>
class DpTreeCrash : public testing::Test {};
TYPED_TEST_SUITE(DpTreeCrash, BothKinds);

/// Even numbers up to 120 in the base tree; some of them and odd ones in the front tree.
template <class Keys>
void fill_two_trees(Case<Keys>& test) {
  for (std::uint64_t number = 0; number < 120; number += 2) test.put(number, number);
  ASSERT_TRUE(test.store.peer().merge());
  for (std::uint64_t number = 20; number < 60; number += 3) test.put(number, 200 + number);
}

template <class Keys>
std::uint64_t offset_of(Case<Keys>& test, const void* address) {
  return test.store.pool().offset_of(address);
}

/// Around one change, whose log record's check word decides; and a record that was torn is none.
template <class Keys, class Step>
void expect_one_log_record(std::uint64_t number, Step&& step) {
  SCOPED_TRACE(number);
  Case<Keys> test;
  ASSERT_NO_FATAL_FAILURE(fill_two_trees(test));
  const auto before = test.model;
  PowerCuts<Keys> recording(test.store);
  step(test, number);
  auto& record = test.store.peer().logged(make<Keys>(number));
  const std::uint64_t check = offset_of(test, &record.check);
  const std::uint64_t own = offset_of(test, &record);
  Words loose = recording.changed();
  const Words commit = extract(loose, check);
  ASSERT_EQ(commit.size(), 1U);
  const auto lost =
      std::ranges::find(loose, own + offsetof(dptree::LogRecord, value), &Word::offset);
  ASSERT_NE(lost, loose.end());
  Words torn = loose + commit;
  torn.erase(torn.begin() + (lost - loose.begin()));
  ASSERT_NO_FATAL_FAILURE(expect_after_cuts<Keys>(test.store, recording, torn, {}, before));
  ASSERT_NO_FATAL_FAILURE(expect_after_cuts<Keys>(test.store, recording, {}, loose, before));
  expect_after_cuts<Keys>(test.store, recording, loose + commit, {}, test.model);
}

// G1, G2: a key of no tree, of the base tree, of the front tree.
TYPED_TEST(DpTreeCrash, APutIsOneWord) {
  for (const std::uint64_t number : {61U, 62U, 23U})
    expect_one_log_record<TypeParam>(number, [](auto& test, std::uint64_t n) { test.put(n, 777); });
}
// G6: of keys that the base tree has, or may have.
TYPED_TEST(DpTreeCrash, AnUpdateIsOneWord) {
  expect_one_log_record<TypeParam>(62, [](auto& test, std::uint64_t n) {
    const auto key = make<TypeParam>(n);
    ASSERT_EQ(test.store.index().update(key, make<TypeParam>(777)), Outcome::ok);
    test.model[key] = make<TypeParam>(777);
  });
}
TYPED_TEST(DpTreeCrash, AnInsertInDoubtIsOneWord) {
  std::uint64_t number = 0;
  {
    Case<TypeParam> test;
    ASSERT_NO_FATAL_FAILURE(fill_two_trees(test));
    number = suspected_number(test, 1001, 1);
  }
  expect_one_log_record<TypeParam>(number, [](auto& test, std::uint64_t n) {
    const auto key = make<TypeParam>(n);
    ASSERT_EQ(test.store.index().insert(key, make<TypeParam>(777)), Outcome::ok);
    test.model[key] = make<TypeParam>(777);
  });
}

/// Around a change that fails: its log record is durable, or not, and stays nothing when
/// the key goes without the log, or comes.
template <class Keys, class Step>
void expect_nothing_of(std::uint64_t number, Step&& step) {
  Case<Keys> test;
  ASSERT_NO_FATAL_FAILURE(fill_two_trees(test));
  const auto key = make<Keys>(number);
  PowerCuts<Keys> recording(test.store);
  step(test, key);
  Words loose = recording.changed();
  // A record's first word is its key's; its last one decides.
  const auto record = std::ranges::find(loose, RecordStore<Keys>::key_word(key), &Word::value);
  ASSERT_NE(record, loose.end());
  const Words commit = extract(loose, record->offset + offsetof(dptree::LogRecord, check));
  ASSERT_EQ(commit.size(), 1U);
  ASSERT_NO_FATAL_FAILURE(expect_after_cuts<Keys>(test.store, recording, {}, loose, test.model));
  ASSERT_NO_FATAL_FAILURE(
      expect_after_cuts<Keys>(test.store, recording, loose + commit, {}, test.model));
  ASSERT_TRUE(succeeds(recording.cut(loose + commit)));
  ASSERT_NO_FATAL_FAILURE(test.expect_sound());
  if (test.model.erase(key) != 0) {
    ASSERT_EQ(test.store.peer().remove_in_place(key), Outcome::ok);
  }
  ASSERT_NO_FATAL_FAILURE(test.expect_sound());
  ASSERT_TRUE(succeeds(test.store.crash()));
  ASSERT_NO_FATAL_FAILURE(test.expect_sound());
  test.put(number, 5);
  ASSERT_TRUE(succeeds(test.store.crash()));
  test.expect_sound();
}
TYPED_TEST(DpTreeCrash, AnInsertOfWhatIsThereIsNothing) {
  expect_nothing_of<TypeParam>(62, [](auto& test, const auto& key) {
    ASSERT_EQ(test.store.index().insert(key, make<TypeParam>(777)), Outcome::exists);
  });
}
TYPED_TEST(DpTreeCrash, AnUpdateOfWhatIsNotThereIsNothing) {
  std::uint64_t number = 0;
  {
    Case<TypeParam> test;
    ASSERT_NO_FATAL_FAILURE(fill_two_trees(test));
    number = suspected_number(test, 1001, 1);
  }
  expect_nothing_of<TypeParam>(number, [](auto& test, const auto& key) {
    ASSERT_EQ(test.store.index().update(key, make<TypeParam>(777)), Outcome::not_found);
  });
}
TYPED_TEST(DpTreeCrash, ARemovalIsOneWord) {
  for (const std::uint64_t number : {62U, 23U})
    expect_one_log_record<TypeParam>(number, [](auto& test, std::uint64_t n) { test.remove(n); });
}

// A2.
TYPED_TEST(DpTreeCrash, ARotationIsOneWord) {
  Case<TypeParam> test;
  ASSERT_NO_FATAL_FAILURE(fill_two_trees(test));
  const std::uint64_t state = offset_of(test, &test.store.peer().anchor().state);
  PowerCuts<TypeParam> recording(test.store);
  test.store.peer().rotate();
  const Words words = recording.changed();
  ASSERT_EQ(words.size(), 1U);
  ASSERT_EQ(words[0].offset, state);
  ASSERT_NO_FATAL_FAILURE(expect_after_cuts(test.store, recording, {}, {}, test.model));
  expect_after_cuts(test.store, recording, words, {}, test.model);
}

template <class Keys>
std::uint64_t middle_log(Case<Keys>& test) {
  auto& anchor = test.store.peer().anchor();
  return offset_of(test, &anchor.log[dptree::State::from(anchor.state).middle()]);
}

// A3, A4, B2, B3, B4, D4: whatever of a merge is on media, it holds the same records before its
// word and after it. Leaves are filled, rewritten, split and emptied, the first one too. Then the
// log is shortened.
template <class Keys, class Changes>
void expect_merge_is_one_word(Changes&& changes) {
  Case<Keys> test;
  ASSERT_NO_FATAL_FAILURE(fill_two_trees(test));
  changes(test);
  test.store.peer().rotate();
  test.put(1, 5);  // the front tree goes on
  const std::uint64_t state = offset_of(test, &test.store.peer().anchor().state);
  const std::uint64_t log = middle_log(test);
  PowerCuts<Keys> recording(test.store);
  ASSERT_TRUE(test.store.peer().merge());
  Words loose = recording.changed();
  const Words commit = extract(loose, state);
  const Words shorter = extract(loose, log);
  ASSERT_EQ(commit.size(), 1U);
  ASSERT_EQ(shorter.size(), 1U);
  ASSERT_FALSE(loose.empty());
  ASSERT_NO_FATAL_FAILURE(expect_after_cuts(test.store, recording, {}, loose, test.model));
  ASSERT_NO_FATAL_FAILURE(
      expect_after_cuts(test.store, recording, loose + commit, shorter, test.model));
  // B1: what the cut merge left does not show when another one takes its number.
  ASSERT_TRUE(succeeds(recording.cut(loose)));
  for (std::uint64_t number = 0; number < 120; number += 7) test.remove(number);
  for (std::uint64_t number = 1; number < 120; number += 9) test.put(number, 3);
  ASSERT_TRUE(test.store.peer().merge());
  ASSERT_NO_FATAL_FAILURE(test.expect_sound());
  ASSERT_TRUE(test.store.peer().merge());
  ASSERT_NO_FATAL_FAILURE(test.expect_sound());
  ASSERT_TRUE(succeeds(test.store.crash()));
  test.expect_sound();
}
TYPED_TEST(DpTreeCrash, AMergeInPlaceIsOneWord) {
  expect_merge_is_one_word<TypeParam>([](auto&) {});
}
TYPED_TEST(DpTreeCrash, AMergeThatSplitsLeavesIsOneWord) {
  expect_merge_is_one_word<TypeParam>([](auto& test) {
    for (std::uint64_t number = 1; number < 50; number += 2) test.put(number, 9);
  });
}
TYPED_TEST(DpTreeCrash, AMergeThatEmptiesLeavesIsOneWord) {
  expect_merge_is_one_word<TypeParam>([](auto& test) {
    for (std::uint64_t number = 0; number < 30; ++number) test.remove(number);
    for (std::uint64_t number = 70; number < 90; ++number) test.remove(number);
  });
}
TYPED_TEST(DpTreeCrash, AMergeThatEmptiesAllIsOneWord) {
  expect_merge_is_one_word<TypeParam>([](auto& test) {
    for (std::uint64_t number = 0; number < 120; ++number) test.remove(number);
  });
}

// B4, G2: a record of the base tree, of the middle tree, of the front tree.
TYPED_TEST(DpTreeCrash, ARemovalInPlaceIsOneWord) {
  for (const std::uint64_t number : {10U, 55U, 70U, 95U}) {
    SCOPED_TRACE(number);
    Case<TypeParam> test(short_logs);
    ASSERT_NO_FATAL_FAILURE(fill_three_trees(test));
    const auto with = test.model;
    PowerCuts<TypeParam> recording(test.store);
    ASSERT_EQ(test.store.peer().remove_in_place(make<TypeParam>(number)), Outcome::ok);
    test.model.erase(make<TypeParam>(number));
    const Words words = recording.changed();
    ASSERT_EQ(words.size(), 1U);
    ASSERT_NO_FATAL_FAILURE(expect_after_cuts<TypeParam>(test.store, recording, {}, {}, with));
    expect_after_cuts<TypeParam>(test.store, recording, words, {}, test.model);
  }
}

// G2, D3: a record of the base tree, of the middle tree, of the front tree; one that was replaced
// there before.
TYPED_TEST(DpTreeCrash, AReplacementInPlaceIsOneWord) {
  for (const std::uint64_t number : {10U, 55U, 70U, 95U, 110U})
    for (const bool again : {false, true}) {
      SCOPED_TRACE(number);
      Case<TypeParam> test(short_logs);
      ASSERT_NO_FATAL_FAILURE(fill_three_trees(test));
      const auto key = make<TypeParam>(number);
      const auto replace = [&](std::uint64_t value) {
        ASSERT_EQ(test.store.peer().replace_in_place(key, make<TypeParam>(value)), Outcome::ok);
        test.model[key] = make<TypeParam>(value);
      };
      if (again) {
        ASSERT_NO_FATAL_FAILURE(replace(6000));
      }
      const auto before = test.model;
      PowerCuts<TypeParam> recording(test.store);
      ASSERT_NO_FATAL_FAILURE(replace(7000));
      Words loose = recording.changed();
      std::uint64_t decides = loose.back().offset;
      if (number >= 90) {
        decides = offset_of(test, &test.store.peer().logged(key).check);
      } else if (number >= 50) {
        const auto& middle = *test.store.peer().middle();
        decides = offset_of(test, &middle.record_of(middle.find(key, hash_of(key)).word)->check);
      }
      const Words commit = extract(loose, decides);
      ASSERT_EQ(commit.size(), 1U);
      ASSERT_NO_FATAL_FAILURE(
          expect_after_cuts<TypeParam>(test.store, recording, {}, loose, before));
      expect_after_cuts<TypeParam>(test.store, recording, loose + commit, {}, test.model);
    }
}

// D4: of a merge without room one part is in the base tree and all of it in the log. A record that
// is in both is removed from the log, then from the base tree.
TYPED_TEST(DpTreeCrash, APartOfAMergeIsOneWord) {
  Case<TypeParam> test;
  for (std::uint64_t number = 0; number < 400; number += 2) test.put(number, number);
  ASSERT_TRUE(test.store.peer().merge());
  for (std::uint64_t number = 0; number < 100; number += 10) test.put(number, 7);
  for (std::uint64_t number = 2; number < 100; number += 20) test.remove(number);
  for (std::uint64_t number = 2; number < 100; number += 40) test.put(number, 8);
  for (std::uint64_t number = 1; number < 100; number += 2) test.put(number, number);
  test.store.peer().rotate();
  test.put(1, 5);
  const std::uint64_t state = offset_of(test, &test.store.peer().anchor().state);
  Hog hog(test.store.pool().heap(), test.store.peer().leaf_bytes(), 3);
  PowerCuts<TypeParam> recording(test.store);
  ASSERT_FALSE(test.store.peer().merge());
  ASSERT_GT(test.store.peer().left(), 0U);
  ASSERT_LT(test.store.peer().left(), 50U);
  Words loose = recording.changed();
  const Words commit = extract(loose, state);
  ASSERT_EQ(commit.size(), 1U);

  const auto with = test.model;
  PowerCuts<TypeParam> removal(test.store);
  ASSERT_EQ(test.store.peer().remove_in_place(make<TypeParam>(20)), Outcome::ok);
  const Words words = removal.changed();
  ASSERT_EQ(words.size(), 2U);
  test.model.erase(make<TypeParam>(20));
  ASSERT_NO_FATAL_FAILURE(test.expect_content());
  const auto without = test.model;
  hog.forget();
  const auto& record = *test.store.peer().middle()->record_of(
      test.store.peer().middle()->find(make<TypeParam>(20), hash_of(make<TypeParam>(20))).word);
  const std::uint64_t check = offset_of(test, &record.check);
  Words bit = words;
  const Words logged = extract(bit, check);
  ASSERT_EQ(logged.size(), 1U);
  ASSERT_NO_FATAL_FAILURE(expect_after_cuts<TypeParam>(test.store, removal, {}, {}, with));
  ASSERT_NO_FATAL_FAILURE(expect_after_cuts<TypeParam>(test.store, removal, logged, bit, without));
  ASSERT_NO_FATAL_FAILURE(expect_after_cuts<TypeParam>(test.store, recording, {}, loose, with));
  expect_after_cuts<TypeParam>(test.store, recording, loose + commit, {}, with);
}

// A3: a bulk load is there or not.
TYPED_TEST(DpTreeCrash, ABulkLoadIsOneWord) {
  Store<TypeParam> store;
  std::vector<std::decay_t<decltype(make<TypeParam>(0))>> keys;
  for (std::uint64_t number = 0; number < 500; ++number) keys.push_back(make<TypeParam>(number));
  Model<TypeParam> model;
  std::vector<typename TypeParam::Record> records;
  for (const auto& key : keys) {
    records.push_back({key, key});
    model.emplace(key, key);
  }
  const std::uint64_t state = store.pool().offset_of(&store.peer().anchor().state);
  PowerCuts<TypeParam> recording(store);
  ASSERT_TRUE(succeeds(store.index().bulk_load(records)));
  Words loose = recording.changed();
  const Words commit = extract(loose, state);
  ASSERT_EQ(commit.size(), 1U);
  ASSERT_NO_FATAL_FAILURE(expect_after_cuts<TypeParam>(store, recording, {}, loose, {}));
  expect_after_cuts<TypeParam>(store, recording, loose + commit, {}, model);
}

// What is damaged is refused, never followed and never repaired by guessing.
TYPED_TEST(DpTreeCrash, DamagedTreesAreCorrupt) {
  Case<TypeParam> test;
  ASSERT_NO_FATAL_FAILURE(fill_two_trees(test));
  const auto peer = test.store.peer();
  const auto& map = peer.base();
  auto& set = peer.set(1);
  const auto leaf = peer.leaf(1);
  const unsigned slot = leaf.order(leaf.current(map.version))[0];
  const std::uint64_t order = offset_of(test, leaf.order(leaf.current(map.version)));
  const std::uint64_t fingerprints = offset_of(test, &leaf.fingerprint(slot)) / 8 * 8;
  const auto word_at = [&](std::uint64_t offset) {
    return test.store.pool().template at<std::atomic<std::uint64_t>>(offset)->load();
  };
  auto& anchor = peer.anchor();
  const dptree::State state = dptree::State::from(anchor.state);
  const std::uint64_t first =
      offset_of(test, &anchor.set[dptree::current_of(anchor.set, state.version)].next);
  const std::uint64_t log = offset_of(test, &anchor.log[state.front]);
  const Words damages{
      {first, std::uint64_t{1} << 40},                               // outside
      {first, map.leaf(0).offset() + 8},                             // not aligned
      {offset_of(test, &set.next), map.leaf(1).offset()},            // a circle of one
      {offset_of(test, &set.next), map.leaf(0).offset()},            // a longer one
      {offset_of(test, &set.count), 9},                              // more than a leaf holds
      {offset_of(test, &set.count), 1},                              // records without a place
      {offset_of(test, &set.bitmap[1]), 1},                          // a slot that is none
      {order, word_at(order) & 0xffffffffffff0000},                  // the same slot twice
      {order, word_at(order) | 0xff},                                // no slot
      {fingerprints, ~word_at(fingerprints)},                        // not of the key
      {offset_of(test, &leaf.record(slot).key), ~std::uint64_t{0}},  // not in order
      {log, std::uint64_t{1} << 40},
      {log, word_at(log) + 8},
      {log, map.leaf(0).offset()},
  };
  PowerCuts<TypeParam> recording(test.store);
  expect_corrupt<TypeParam>(test.store, recording, damages, test.model);
}

}  // namespace
}  // namespace perdure
