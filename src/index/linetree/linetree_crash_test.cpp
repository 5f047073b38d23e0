// Power cuts made by hand (common/test_cuts.h) around every step of linetree.
#include <gtest/gtest.h>

#include "index/common/test_cuts.h"
#include "index/linetree/test_support.h"

namespace perdure {
namespace {

using index_test::expect_after_cuts;
using index_test::extract;
using index_test::PowerCuts;
using index_test::Word;
using index_test::Words;
using index_test::operator+;
using linetree_test::Case;
using linetree_test::expect_equal;
using linetree_test::IntegerModel;
using linetree_test::succeeds;
using Leaf = linetree::Leaf;

const std::vector<std::string> small{"lines=4"};

// L1: an insertion is the value, then the key, in one line.
TEST(LineTreeCrash, InsertIsCommittedByItsKey) {
  Case test({});
  for (std::uint64_t key = 1000; key < 1010; ++key) test.insert(key);
  PowerCuts cuts(test.store);
  const auto before = test.model;
  test.insert(2000, 7);
  const LeafRecord& record = test.store.peer().record(2000);
  Words value = cuts.changed();
  const Words key = extract(value, test.offset(&record.key));
  ASSERT_EQ(key.size(), 1U);
  ASSERT_EQ(value.size(), 1U);
  EXPECT_EQ(value[0].offset, test.offset(&record.value));
  EXPECT_EQ(value[0].offset / 64, key[0].offset / 64) << "one line, one flush";
  expect_after_cuts(test.store, cuts, {}, value, before);
  expect_after_cuts(test.store, cuts, value + key, {}, test.model);
}

// L1: update and remove are one word each.
TEST(LineTreeCrash, UpdateAndRemoveAreOneWord) {
  Case test({});
  for (std::uint64_t key = 1000; key < 1016; ++key) test.insert(key);
  PowerCuts update(test.store);
  auto before = test.model;
  ASSERT_EQ(test.store.index().update(1003, 7), Outcome::ok);
  test.model[1003] = 7;
  const Words value = update.changed();
  ASSERT_EQ(value.size(), 1U);
  EXPECT_EQ(value[0].offset, test.offset(&test.store.peer().record(1003).value));
  expect_after_cuts(test.store, update, {}, {}, before);
  ASSERT_TRUE(succeeds(update.cut(value)));
  PowerCuts removal(test.store);
  before = test.model;
  const std::uint64_t key = test.offset(&test.store.peer().record(1005).key);
  test.remove(1005);
  const Words word = removal.changed();
  ASSERT_EQ(word.size(), 1U);
  EXPECT_EQ(word[0].offset, key);
  EXPECT_EQ(word[0].value, ~std::uint64_t{0});
  expect_after_cuts(test.store, removal, {}, {}, before);
  expect_after_cuts(test.store, removal, word, {}, test.model);
}

/// A leaf in which the lines `home` and `overflow` of `key` are full, so that inserting it
/// displaces a record.
std::uint64_t fill_two_lines(Case& test, unsigned home, unsigned overflow) {
  const auto peer = test.store.peer();
  const auto keys = peer.keys_in(home, static_cast<int>(overflow), 1, 1'000'000);
  for (const unsigned line : {home, overflow}) {
    // Their own overflow lines have room.
    unsigned room = line == 0 ? 3 : 4;
    for (std::uint64_t key = 1; room > 0; ++key) {
      const auto place = peer.place(key);
      if (place.home != line || place.overflow() == home || place.overflow() == overflow) continue;
      test.insert(key);
      --room;
    }
  }
  return keys[0];
}

// L4: a displacement leaves the record twice; recovery takes one out before anything changes.
TEST(LineTreeCrash, DisplacementIsMended) {
  for (const unsigned home : {0U, 2U}) {
    SCOPED_TRACE(home);
    Case test(small);
    const std::uint64_t key = fill_two_lines(test, home, 3);
    PowerCuts cuts(test.store);
    const auto before = test.model;
    test.insert(key, 4711);
    ASSERT_EQ(test.store.peer().leaves(), 2U) << "displaced, not split";
    const LeafRecord& record = test.store.peer().record(key);
    Words copy = cuts.changed();
    const Words value = extract(copy, test.offset(&record.value));
    const Words commit = extract(copy, test.offset(&record.key));
    ASSERT_EQ(copy.size(), 2U) << "the displaced record, in its other line";
    ASSERT_EQ(commit.size(), 1U);
    ASSERT_NE(copy[0].offset / 64, commit[0].offset / 64);
    const Words copied_value = extract(copy, [](std::uint64_t at) { return at % 16 == 8; });
    const std::uint64_t displaced = copy[0].value;
    const Words emptied{{commit[0].offset, ~std::uint64_t{0}}};

    ASSERT_NO_FATAL_FAILURE(expect_after_cuts(test.store, cuts, {}, copied_value, before));
    const Words twice = copied_value + copy;
    ASSERT_NO_FATAL_FAILURE(expect_after_cuts(test.store, cuts, twice, {}, before));
    ASSERT_NO_FATAL_FAILURE(expect_after_cuts(test.store, cuts, twice + emptied, value, before));
    ASSERT_NO_FATAL_FAILURE(
        expect_after_cuts(test.store, cuts, twice + value + commit, {}, test.model));

    // What recovery has stored is the mending alone; a cut that loses it is mended again.
    ASSERT_TRUE(succeeds(cuts.cut(twice)));
    for (const Word& word : cuts.changed())
      EXPECT_EQ(word.offset, copied_value[0].offset) << "the copy's key is as it was before";
    const Words mended{{copy[0].offset, ~std::uint64_t{0}}};
    ASSERT_NO_FATAL_FAILURE(expect_after_cuts(test.store, cuts, twice, mended, before));

    // A removal after the recovery takes the record out for good.
    ASSERT_TRUE(succeeds(cuts.cut(twice)));
    auto without = before;
    ASSERT_EQ(test.store.index().remove(displaced), Outcome::ok);
    without.erase(displaced);
    ASSERT_TRUE(succeeds(test.store.crash()));
    ASSERT_NO_FATAL_FAILURE(expect_equal(test.store.index(), without));
    // An update after the recovery changes what every later lookup finds.
    ASSERT_TRUE(succeeds(cuts.cut(twice)));
    auto updated = before;
    ASSERT_EQ(test.store.index().update(displaced, 5), Outcome::ok);
    updated[displaced] = 5;
    ASSERT_TRUE(succeeds(test.store.crash()));
    ASSERT_NO_FATAL_FAILURE(expect_equal(test.store.index(), updated));
  }
}

// L4: where no record of the two lines can move, one does that makes room for one of theirs. After
// every cut at most one of the two is there twice.
TEST(LineTreeCrash, TwoDisplacementsAreMended) {
  Case test(small);
  const auto peer = test.store.peer();
  const auto fill = [&](unsigned home, int overflow, std::size_t count) {
    const auto keys = peer.keys_in(home, overflow, count);
    for (const std::uint64_t key : keys) test.insert(key);
    return keys;
  };
  const std::uint64_t second = fill(1, 3, 4)[0];  // goes to line 3
  fill(2, 3, 4);
  const std::uint64_t first = fill(3, 0, 1)[0];  // leaves it, for line 0
  fill(3, 1, 3);
  const std::uint64_t key = peer.keys_in(1, 2, 1)[0];
  PowerCuts cuts(test.store);
  const auto before = test.model;
  test.insert(key, 4711);
  ASSERT_EQ(test.store.peer().leaves(), 2U) << "displaced, not split";
  Words all = cuts.changed();
  const auto words_of = [&](std::uint64_t of) {
    const LeafRecord& record = test.store.peer().record(of);
    const Words value = extract(all, test.offset(&record.value));
    return std::pair{value, extract(all, test.offset(&record.key))};
  };
  const auto [first_value, first_key] = words_of(first);
  const auto [second_value, second_key] = words_of(second);
  const auto [value, commit] = words_of(key);
  ASSERT_EQ(all.size(), 0U) << "three slots, of three lines";
  for (const Words& one : {first_key, second_key, commit}) ASSERT_EQ(one.size(), 1U);
  const auto emptied = [](const Words& word) { return Words{{word[0].offset, ~std::uint64_t{0}}}; };

  ASSERT_NO_FATAL_FAILURE(expect_after_cuts(test.store, cuts, {}, first_value, before));
  const Words moved = first_value + first_key;
  ASSERT_NO_FATAL_FAILURE(expect_after_cuts(test.store, cuts, moved, {}, before));
  ASSERT_NO_FATAL_FAILURE(
      expect_after_cuts(test.store, cuts, moved + emptied(second_key), second_value, before));
  const Words both = moved + second_value + second_key;
  ASSERT_NO_FATAL_FAILURE(expect_after_cuts(test.store, cuts, both, {}, before));
  ASSERT_NO_FATAL_FAILURE(
      expect_after_cuts(test.store, cuts, both + emptied(commit), value, before));
  ASSERT_NO_FATAL_FAILURE(
      expect_after_cuts(test.store, cuts, both + value + commit, {}, test.model));
  // A removal after the mending takes each of the two out for good.
  for (const auto& [kept, twice] : {std::pair{moved, first}, std::pair{both, second}}) {
    ASSERT_TRUE(succeeds(cuts.cut(kept)));
    auto without = before;
    ASSERT_EQ(test.store.index().remove(twice), Outcome::ok);
    without.erase(twice);
    ASSERT_TRUE(succeeds(test.store.crash()));
    ASSERT_NO_FATAL_FAILURE(expect_equal(test.store.index(), without));
  }
}

/// Inserts ascending keys until the next one splits the first leaf; returns that key.
std::uint64_t fill_until_split(Case& test, std::uint64_t key = 1000) {
  for (;; ++key) {
    Case probe(small);
    for (const auto& [present, value] : test.model) probe.insert(present, value);
    const auto leaves = probe.store.peer().leaves();
    probe.insert(key);
    if (probe.store.peer().leaves() != leaves) return key;
    test.insert(key);
  }
}

// L1, T2: the right leaf and everything in it, then one word; the insertion is a step of its own.
void expect_one_word(Case& test, std::uint64_t key) {
  const std::size_t leaves = test.store.peer().leaves();
  Leaf& left = test.store.peer().leaf_of(key);
  const std::uint64_t link = test.offset(&left.next);
  PowerCuts cuts(test.store);
  const auto before = test.model;
  test.insert(key);
  ASSERT_EQ(test.store.peer().leaves(), leaves + 1);
  const LeafRecord& record = test.store.peer().record(key);
  Words right = cuts.changed();
  const Words commit = extract(right, link);
  const Words inserted_value = extract(right, test.offset(&record.value));
  const Words inserted_key = extract(right, test.offset(&record.key));
  ASSERT_EQ(commit.size(), 1U);
  ASSERT_EQ(inserted_key.size(), 1U);
  ASSERT_GE(right.size(), 10U);
  // The inserted record's slot was empty when the new leaf was written.
  const Words unused{{inserted_key[0].offset, ~std::uint64_t{0}}};
  for (const Word& word : right) EXPECT_NE(word.offset / 256, link / 256) << "the left leaf stays";
  ASSERT_NO_FATAL_FAILURE(expect_after_cuts(test.store, cuts, unused, right, before));
  ASSERT_TRUE(succeeds(cuts.cut(right)));
  EXPECT_EQ(test.store.peer().leaves(), leaves) << "the new leaf is forgotten";
  const Words done = right + commit;
  ASSERT_NO_FATAL_FAILURE(
      expect_after_cuts(test.store, cuts, done + unused, inserted_value, before));
  expect_after_cuts(test.store, cuts, done + inserted_value + inserted_key, {}, test.model);
}

TEST(LineTreeCrash, SplitIsOneWord) {
  Case test(small);
  expect_one_word(test, fill_until_split(test));
}

// V4: where keys ascend the new leaf begins without records.
TEST(LineTreeCrash, SplitAboveAllRecordsIsOneWord) {
  Case test(small);
  const std::uint64_t first = fill_until_split(test);
  test.insert(first);
  const std::uint64_t second = fill_until_split(test, first + 1);
  const auto records = [&] {
    return test.store.peer().info_of(test.store.peer().leaf_of(second - 1)).records();
  };
  const std::uint32_t before = records();
  {
    Case same(small);
    for (const auto& [key, value] : test.model) same.insert(key, value);
    same.insert(second);
    EXPECT_EQ(same.store.peer().record(second).key, second);
    EXPECT_EQ(same.store.peer().info_of(same.store.peer().leaf_of(second)).records(), 1U);
    EXPECT_EQ(same.store.peer().info_of(same.store.peer().leaf_of(second - 1)).records(), before);
  }
  expect_one_word(test, second);
}

/// Two leaves below the boundary; the right one holds so few records that the removal of `victim`
/// merges it into the left one.
struct MergeCase : Case {
  std::uint64_t victim = 0;
  Leaf* left = nullptr;
  Leaf* right = nullptr;

  MergeCase() : Case(small) {
    insert(fill_until_split(*this));
    left = &store.peer().first();
    right = store.peer().next(*left);
    const std::uint64_t separator = right->lowest();
    const auto in = [&](bool above) {
      std::vector<std::uint64_t> keys;
      for (const auto& [key, value] : model)
        if ((key >= separator) == above) keys.push_back(key);
      return keys;
    };
    std::vector<std::uint64_t> below = in(false);
    for (; below.size() > 4; below.pop_back()) remove(below.back());
    std::vector<std::uint64_t> above = in(true);
    for (; above.size() > 4; above.pop_back()) remove(above.back());
    victim = above.back();
    EXPECT_EQ(store.peer().leaves(), 3U);
  }
};

// L3, L5, T2: copies are invisible until one word lengthens the left interval.
TEST(LineTreeCrash, MergeIsOneWord) {
  MergeCase test;
  const std::uint64_t link = test.offset(&test.left->next);
  const std::uint64_t begin = test.offset(test.left);
  const std::uint64_t dead = test.offset(&test.right->next);
  const std::uint64_t removed = test.offset(&test.store.peer().record(test.victim).key);
  PowerCuts cuts(test.store);
  const auto before = test.model;
  test.remove(test.victim);
  ASSERT_EQ(test.store.peer().leaves(), 2U);
  Words copies = cuts.changed();
  const Words commit = extract(copies, link);
  const Words removal = extract(copies, removed);
  // The unlinked leaf leads nowhere from here on; that is never flushed and may or may not persist.
  const Words unlinked = extract(copies, dead);
  ASSERT_EQ(commit.size(), 1U);
  ASSERT_EQ(removal.size(), 1U);
  ASSERT_GE(copies.size(), 3U) << "what the split left is emptied, what moves is copied";
  for (const Word& word : copies) EXPECT_EQ((word.offset - begin) / 256, 0U) << "in the left leaf";
  ASSERT_NO_FATAL_FAILURE(expect_after_cuts(test.store, cuts, {}, {}, before));
  ASSERT_NO_FATAL_FAILURE(expect_after_cuts(test.store, cuts, removal, copies, test.model));
  expect_after_cuts(test.store, cuts, removal + copies + commit, unlinked, test.model);
}

// L5: copies that an interrupted merge has left never come back, whatever happens to the originals
// before the next merge.
TEST(LineTreeCrash, CopiesOfAnInterruptedMergeStayStale) {
  for (const bool again : {false, true}) {
    MergeCase test;
    const std::uint64_t link = test.offset(&test.left->next);
    PowerCuts cuts(test.store);
    test.remove(test.victim);
    Words copies = cuts.changed();
    (void)extract(copies, link);
    (void)extract(copies, test.offset(&test.right->next));
    ASSERT_TRUE(succeeds(cuts.cut(copies)));
    const auto peer = test.store.peer();
    ASSERT_EQ(peer.leaves(), 3U);
    const std::uint64_t separator = peer.next(peer.first())->lowest();
    std::vector<std::uint64_t> moved;
    for (const auto& [key, value] : test.model)
      if (key >= separator) moved.push_back(key);
    ASSERT_EQ(moved.size(), 3U);
    ASSERT_EQ(test.store.index().update(moved[0], 99), Outcome::ok);
    test.model[moved[0]] = 99;
    if (again) {
      ASSERT_TRUE(succeeds(test.store.crash()));
      ASSERT_NO_FATAL_FAILURE(expect_equal(test.store.index(), test.model));
    }
    test.remove(moved[1]);  // merges
    ASSERT_EQ(test.store.peer().leaves(), 2U);
    ASSERT_NO_FATAL_FAILURE(expect_equal(test.store.index(), test.model));
    ASSERT_TRUE(succeeds(test.store.crash()));
    expect_equal(test.store.index(), test.model);
  }
}

// T2: a bulk load is there or not, by the anchor's word.
TEST(LineTreeCrash, BulkLoadIsOneWord) {
  for (const std::uint64_t lowest : {std::uint64_t{0}, linetree::boundary - 50}) {
    Case test({});
    std::vector<IntegerRecord> records;
    for (std::uint64_t i = 0; i < 100; ++i) {
      records.push_back({lowest + i, i + 7});
      test.model[lowest + i] = i + 7;
    }
    PowerCuts cuts(test.store);
    ASSERT_TRUE(succeeds(test.store.index().bulk_load(records)));
    Words loose = cuts.changed();
    const Words commit = extract(loose, test.offset(&test.store.peer().anchor().first));
    ASSERT_EQ(commit.size(), 1U);
    expect_after_cuts<IntegerKeys>(test.store, cuts, {}, loose, {});
    expect_after_cuts<IntegerKeys>(test.store, cuts, loose + commit, {}, test.model);
  }
}

// A chain that is damaged is refused, never followed and never repaired by guessing.
TEST(LineTreeCrash, DamagedChainsAreCorrupt) {
  Case test(small);
  for (std::uint64_t key = 1000; key < 1200; ++key) test.insert(key);
  const auto peer = test.store.peer();
  Leaf& leaf = peer.leaf_of(1100);
  const std::uint64_t link = test.offset(&leaf.next);
  const std::uint64_t lo = test.offset(&leaf.lo);
  const std::uint64_t record = test.offset(&peer.record(1100).key);
  std::uint64_t stranger = 1100;  // in the interval, and in neither of its lines
  while (peer.place(stranger).home == peer.place(1100).home ||
         peer.place(stranger).overflow() == peer.place(1100).home ||
         peer.place(stranger).home == peer.place(1100).overflow() ||
         peer.place(stranger).overflow() == peer.place(1100).overflow())
    ++stranger;
  ASSERT_EQ(&peer.leaf_of(stranger), &leaf);
  PowerCuts cuts(test.store);
  const Words damages{{link, test.offset(&leaf)},          // a cycle of one
                      {link, test.offset(&peer.first())},  // a longer one
                      {link, test.offset(&leaf) + 64},     // not aligned
                      {link, std::uint64_t{1} << 40},      // outside
                      {link, null_offset},                 // no leaf at the boundary
                      {lo, 0},                             // out of order
                      {test.offset(&peer.anchor()), 64},   // no leaf there
                      {record, 5},                         // below the interval
                      {record, stranger}};                 // in a wrong line
  index_test::expect_corrupt(test.store, cuts, damages, test.model);
}

}  // namespace
}  // namespace perdure
