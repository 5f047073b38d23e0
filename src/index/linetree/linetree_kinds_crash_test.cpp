// Power cuts made by hand (common/test_cuts.h) around every step of linetree's byte strings, and of
// its slots where they differ from integers.
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
using linetree_test::expect_equal;
using linetree_test::name;
using linetree_test::Slots;
using linetree_test::StringCase;
using linetree_test::succeeds;
using Leaf = linetree::Leaf;

const std::vector<std::string> four_lines{"lines=4"};
constexpr std::uint64_t leaf_bytes = 256;

// Removes the highest records while `more(what is left)`, and has others take their blobs.
template <class More>
void expect_sound_reuse(StringCase& test, linetree_test::BytesModel model, More more) {
  while (more(model)) {
    ASSERT_EQ(test.store.index().remove(model.rbegin()->first), Outcome::ok);
    model.erase(std::prev(model.end()));
  }
  test.store.index().quiesce();
  for (std::uint64_t i = 0; i < 20; ++i) {
    ASSERT_EQ(test.store.index().upsert(name(i), name(i + 1)), Outcome::ok);
    model[name(i)] = name(i + 1);
  }
  ASSERT_TRUE(succeeds(test.store.crash()));
  expect_equal(test.store.index(), model);
}

// L1, R2: the blob and the slice, then the word that leads to the blob.
TEST(LineTreeKindsCrash, StringsAreCommittedByTheirWord) {
  StringCase test({});
  for (std::uint64_t n = 0; n < 10; ++n) test.insert(n);
  PowerCuts insertion(test.store);
  auto before = test.model;
  test.insert(20);
  const std::uint64_t commit = test.offset(&test.store.peer().record(name(20)).value);
  Words loose = insertion.changed();
  Words word = extract(loose, commit);
  ASSERT_EQ(word.size(), 1U);
  ASSERT_GE(loose.size(), 4U) << "blob and slice";
  ASSERT_NO_FATAL_FAILURE(expect_after_cuts(test.store, insertion, {}, loose, before));
  ASSERT_NO_FATAL_FAILURE(expect_after_cuts(test.store, insertion, loose + word, {}, test.model));

  ASSERT_TRUE(succeeds(insertion.cut(loose + word)));
  PowerCuts update(test.store);
  before = test.model;
  ASSERT_EQ(test.store.index().update(name(20), "another value"), Outcome::ok);
  test.model[name(20)] = "another value";
  loose = update.changed();
  word = extract(loose, commit);
  ASSERT_EQ(word.size(), 1U);
  for (const Word& other : loose) EXPECT_NE(other.offset / leaf_bytes, commit / leaf_bytes);
  ASSERT_NO_FATAL_FAILURE(expect_after_cuts(test.store, update, {}, loose, before));
  ASSERT_NO_FATAL_FAILURE(expect_after_cuts(test.store, update, loose + word, {}, test.model));

  ASSERT_TRUE(succeeds(update.cut(loose + word)));
  PowerCuts removal(test.store);
  before = test.model;
  test.remove(20);
  word = removal.changed();
  ASSERT_EQ(word.size(), 1U);
  EXPECT_EQ(word[0].offset, commit);
  EXPECT_EQ(word[0].value, 0U);
  ASSERT_NO_FATAL_FAILURE(expect_after_cuts(test.store, removal, {}, {}, before));
  expect_after_cuts(test.store, removal, word, {}, test.model);
}

/// Inserts ascending keys until the next one splits the last leaf; returns its number.
std::uint64_t fill_until_split(StringCase& test) {
  for (std::uint64_t n = 0;; ++n) {
    StringCase probe(four_lines);
    for (const auto& [key, value] : test.model)
      EXPECT_EQ(probe.store.index().insert(key, value), Outcome::ok);
    probe.insert(n);
    if (probe.store.peer().leaves() != 1) return n;
    test.insert(n);
  }
}

// L1, L6, T2: the right leaf and the blob of its lowest key, one word, then what has moved is
// emptied, by recovery too.
TEST(LineTreeKindsCrash, SplitIsOneWord) {
  StringCase test(four_lines);
  const std::uint64_t n = fill_until_split(test);
  const std::uint64_t left = test.offset(&test.store.peer().first());
  const std::uint64_t link = test.offset(&test.store.peer().first().next);
  PowerCuts cuts(test.store);
  const auto before = test.model;
  test.insert(n);
  ASSERT_EQ(test.store.peer().leaves(), 2U);
  const LeafRecord& record = test.store.peer().record(name(n));
  ASSERT_EQ(&test.store.peer().leaf_of(name(n)), test.store.peer().next(test.store.peer().first()));
  const std::uint64_t blob = record.value << 16 >> 16;
  Words right = cuts.changed();
  const Words commit = extract(right, link);
  const Words word = extract(right, test.offset(&record.value));
  const Words rest = extract(right, test.offset(&record.key)) +
                     extract(right, [&](std::uint64_t at) { return at - blob < 64; });
  const Words dropped = extract(right, [&](std::uint64_t at) { return at - left < leaf_bytes; });
  ASSERT_EQ(commit.size(), 1U);
  ASSERT_EQ(word.size(), 1U);
  ASSERT_GE(dropped.size(), 4U);
  for (const Word& one : dropped) EXPECT_EQ(one.value, 0U);
  ASSERT_NO_FATAL_FAILURE(expect_after_cuts(test.store, cuts, {}, right, before));
  ASSERT_TRUE(succeeds(cuts.cut(right)));
  EXPECT_EQ(test.store.peer().leaves(), 1U) << "the new leaf is forgotten";
  ASSERT_NO_FATAL_FAILURE(expect_after_cuts(test.store, cuts, right + commit, dropped, before));
  const Words done = right + commit + dropped;
  ASSERT_NO_FATAL_FAILURE(expect_after_cuts(test.store, cuts, done, rest, before));
  ASSERT_NO_FATAL_FAILURE(expect_after_cuts(test.store, cuts, done + rest + word, {}, test.model));

  // What recovery has emptied stays so although the records are removed and their blobs are reused.
  ASSERT_TRUE(succeeds(cuts.cut(right + commit)));
  expect_sound_reuse(test, before, [](const auto& left) { return left.size() > 2; });
}

// L4: a displacement leaves the slot twice; recovery empties one, and marks the blob once.
TEST(LineTreeKindsCrash, DisplacementIsMended) {
  StringCase test(four_lines);
  const auto peer = test.store.peer();
  const unsigned home = 1;
  const unsigned overflow = 2;
  std::uint64_t fresh = 0;
  for (fresh = 50'000;
       peer.place(name(fresh)).home != home || peer.place(name(fresh)).overflow() != overflow;)
    ++fresh;
  for (const unsigned line : {home, overflow}) {
    unsigned room = 4;
    for (std::uint64_t n = 0; room > 0; ++n) {
      const auto place = peer.place(name(n));
      if (place.home != line || place.overflow() == home || place.overflow() == overflow) continue;
      test.insert(n);
      --room;
    }
  }
  PowerCuts cuts(test.store);
  const auto before = test.model;
  test.insert(fresh);
  ASSERT_EQ(test.store.peer().leaves(), 1U) << "displaced, not split";
  const LeafRecord& record = test.store.peer().record(name(fresh));
  const std::uint64_t slot = test.offset(&record);
  const std::uint64_t leaf = slot / leaf_bytes;
  Words blob = cuts.changed();
  const Words commit = extract(blob, slot + 8);
  const Words slice = extract(blob, slot);  // none: all share it
  const Words copy = extract(blob, [&](std::uint64_t at) { return at / leaf_bytes == leaf; });
  ASSERT_EQ(commit.size(), 1U);
  ASSERT_EQ(copy.size(), 2U) << "the displaced slot, in its other line";
  const Words emptied{{slot + 8, 0}};
  ASSERT_NO_FATAL_FAILURE(expect_after_cuts(test.store, cuts, {}, blob, before));
  ASSERT_NO_FATAL_FAILURE(expect_after_cuts(test.store, cuts, copy, blob, before));
  ASSERT_NO_FATAL_FAILURE(
      expect_after_cuts(test.store, cuts, copy + emptied, blob + slice, before));
  ASSERT_NO_FATAL_FAILURE(
      expect_after_cuts(test.store, cuts, copy + blob + slice + commit, {}, test.model));
}

// L3, L6, T2: copies are invisible until one word lengthens the left interval; recovery empties
// them, so that the originals can be removed and freed.
TEST(LineTreeKindsCrash, MergeIsOneWord) {
  StringCase test(four_lines);
  test.insert(fill_until_split(test));
  Leaf& left = test.store.peer().first();
  Leaf& right = *test.store.peer().next(left);
  const std::string separator(test.store.peer().lowest(right));
  const auto shrink = [&](bool above) {
    std::vector<std::string> keys;
    for (const auto& [key, value] : test.model)
      if ((key >= separator) == above) keys.push_back(key);
    for (; keys.size() > 4; keys.pop_back()) {
      ASSERT_EQ(test.store.index().remove(keys.back()), Outcome::ok);
      test.model.erase(keys.back());
    }
  };
  ASSERT_NO_FATAL_FAILURE(shrink(false));
  ASSERT_NO_FATAL_FAILURE(shrink(true));
  ASSERT_EQ(test.store.peer().leaves(), 2U);
  const std::string victim = test.model.rbegin()->first;
  const std::uint64_t link = test.offset(&left.next);
  const std::uint64_t dead = test.offset(&right.next);
  const std::uint64_t removed = test.offset(&test.store.peer().record(victim).value);
  const std::uint64_t begin = test.offset(&left);
  PowerCuts cuts(test.store);
  const auto before = test.model;
  ASSERT_EQ(test.store.index().remove(victim), Outcome::ok);
  test.model.erase(victim);
  ASSERT_EQ(test.store.peer().leaves(), 1U);
  Words copies = cuts.changed();
  const Words commit = extract(copies, link);
  const Words removal = extract(copies, removed);
  const Words unlinked = extract(copies, dead);
  ASSERT_EQ(commit.size(), 1U);
  ASSERT_EQ(removal.size(), 1U);
  for (const Word& word : copies) EXPECT_LT(word.offset - begin, leaf_bytes) << "in the left leaf";
  ASSERT_GE(copies.size(), 3U);
  // A line's stores persist in order: no word without its slice.
  Words slices = extract(copies, [](std::uint64_t at) { return at % 16 == 0; });
  ASSERT_NO_FATAL_FAILURE(expect_after_cuts(test.store, cuts, {}, {}, before));
  ASSERT_NO_FATAL_FAILURE(expect_after_cuts(test.store, cuts, removal, slices, test.model));
  ASSERT_NO_FATAL_FAILURE(
      expect_after_cuts(test.store, cuts, removal + slices, copies, test.model));
  const Words all = removal + slices + copies;
  ASSERT_NO_FATAL_FAILURE(expect_after_cuts(test.store, cuts, all + commit, unlinked, test.model));

  // The originals are removed after the cut, and their blobs reused.
  ASSERT_TRUE(succeeds(cuts.cut(all)));
  expect_sound_reuse(test, test.model, [&](const auto& left) {
    return !left.empty() && left.rbegin()->first >= separator;
  });
}

TEST(LineTreeKindsCrash, BulkLoadIsOneWord) {
  StringCase test({});
  std::vector<std::string> keys;
  for (std::uint64_t n = 0; n < 60; ++n) keys.push_back(name(n));
  index_test::expect_bulk_load_is_one_word<ByteKeys, std::string>(
      test.store, keys, test.offset(&test.store.peer().anchor().first));
}

// A chain that is damaged is refused, never followed and never repaired by guessing.
TEST(LineTreeKindsCrash, DamagedChainsAreCorrupt) {
  StringCase test(four_lines);
  for (std::uint64_t n = 0; n < 100; ++n) test.insert(n);
  const auto peer = test.store.peer();
  Leaf& leaf = peer.leaf_of(name(50));
  LeafRecord& record = peer.record(name(50));
  const std::uint64_t link = test.offset(&leaf.next);
  const std::uint64_t lo = test.offset(&leaf.lo);
  const std::uint64_t slice = test.offset(&record.key);
  const std::uint64_t word = test.offset(&record.value);
  PowerCuts cuts(test.store);
  const Words damages{{link, test.offset(&leaf)},                     // a cycle of one
                      {link, test.offset(&peer.first())},             // a longer one
                      {link, std::uint64_t{1} << 40},                 // outside
                      {lo, 0},                                        // a second lowest of all
                      {lo, std::uint64_t{1} << 40},                   // outside
                      {lo, peer.next(leaf)->lowest()},                // the next one's
                      {slice, 7},                                     // of another key
                      {word, record.value ^ std::uint64_t{1} << 50},  // a wrong tag
                      {word, peer.record(name(0)).value},             // a key below the interval
                      {word, std::uint64_t{1} << 48 | 1 << 30}};      // no blob
  index_test::expect_corrupt(test.store, cuts, damages, test.model);
}

// Slots: the value's slot, then the key; the key is the rule, as of integers.
TEST(LineTreeKindsCrash, SlotsAreCommittedByTheirKey) {
  Slots store;
  linetree_test::SlotModel model;
  for (std::uint64_t key = 0; key < 10; ++key) {
    ASSERT_EQ(store.index().insert(key, "value"), Outcome::ok);
    model[key] = "value";
  }
  PowerCuts<SlotKeys> insertion(store);
  const auto before = model;
  ASSERT_EQ(store.index().insert(77, std::string(100, 'x')), Outcome::ok);
  model[77] = std::string(100, 'x');
  const LeafRecord& record = store.peer().record(77);
  Words loose = insertion.changed();
  const Words key = extract(loose, store.pool().offset_of(&record.key));
  ASSERT_EQ(key.size(), 1U);
  ASSERT_NO_FATAL_FAILURE(expect_after_cuts<SlotKeys>(store, insertion, {}, loose, before));
  ASSERT_NO_FATAL_FAILURE(expect_after_cuts<SlotKeys>(store, insertion, loose + key, {}, model));
  ASSERT_TRUE(succeeds(insertion.cut(loose + key)));
  PowerCuts<SlotKeys> update(store);
  const auto old = model;
  ASSERT_EQ(store.index().update(77, std::string(120, 'y')), Outcome::ok);
  model[77] = std::string(120, 'y');
  loose = update.changed();
  const Words word = extract(loose, store.pool().offset_of(&store.peer().record(77).value));
  ASSERT_EQ(word.size(), 1U);
  ASSERT_NO_FATAL_FAILURE(expect_after_cuts<SlotKeys>(store, update, {}, loose, old));
  expect_after_cuts<SlotKeys>(store, update, loose + word, {}, model);
}

}  // namespace
}  // namespace perdure
