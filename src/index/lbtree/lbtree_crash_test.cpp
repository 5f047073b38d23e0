// Power cuts made by hand (common/test_cuts.h) around every step of LB+-Tree.
#include <gtest/gtest.h>

#include "index/common/test_cuts.h"
#include "index/lbtree/test_support.h"

namespace perdure {
namespace {

using index_test::expect_after_cuts;
using index_test::extract;
using index_test::PowerCuts;
using index_test::Word;
using index_test::Words;
using index_test::operator+;
using lbtree_test::expect_equal;
using lbtree_test::Model;
using lbtree_test::Store;
using lbtree_test::succeeds;
using Leaf = lbtree::Leaf;
using Header = lbtree::Header;

/// Integer stores around one leaf that holds the keys 1000, 1010, ... in the order given.
struct IntegerCase {
  Store<IntegerKeys> store;
  Model<IntegerKeys> model;

  void insert(std::uint64_t key) {
    ASSERT_EQ(store.index().insert(key, key * 3), Outcome::ok);
    model[key] = key * 3;
  }
  void insert_all(std::initializer_list<std::uint64_t> keys) {
    for (const std::uint64_t key : keys) insert(key);
  }
  [[nodiscard]] std::uint64_t offset(const void* address) {
    return store.pool().offset_of(address);
  }
};

// L1, L2, T4: an insertion beside the header commits by word 0 alone.
TEST(LbTreeCrash, InsertIntoLineZeroIsAtomic) {
  IntegerCase test;
  test.insert_all({1000, 1010});
  const std::uint64_t word_0 = test.offset(&test.store.peer().first().header[0]);
  PowerCuts cuts(test.store);
  const auto before = test.model;
  test.insert(1005);
  Words loose = cuts.changed();
  const Words commit = extract(loose, word_0);
  ASSERT_EQ(commit.size(), 1U);
  ASSERT_EQ(loose.size(), 2U) << "the record, and nothing else";
  for (const Word& word : loose) EXPECT_EQ(word.offset / 64, word_0 / 64) << "one line, one flush";
  expect_after_cuts(test.store, cuts, {}, loose, before);
  expect_after_cuts(test.store, cuts, loose + commit, {}, test.model);
}

// L1, L2: entry moving: three records and the new one appear in another line, then one word moves
// all.
TEST(LbTreeCrash, EntryMovingIsAtomic) {
  IntegerCase test;
  test.insert_all({1000, 1010, 1020});
  Leaf& leaf = test.store.peer().first();
  const std::uint64_t word_0 = test.offset(&leaf.header[0]);
  PowerCuts cuts(test.store);
  const auto before = test.model;
  test.insert(1005);
  ASSERT_EQ(leaf.read_header().live() & Leaf::line_0, 0U) << "line 0 was emptied";
  Words loose = cuts.changed();
  const Words commit = extract(loose, word_0);
  ASSERT_EQ(commit.size(), 1U);
  ASSERT_GE(loose.size(), 8U) << "four records";
  expect_after_cuts(test.store, cuts, {}, loose, before);
  expect_after_cuts(test.store, cuts, loose + commit, {}, test.model);
}

// L1, T5: update and remove are one word each.
TEST(LbTreeCrash, UpdateAndRemoveAreOneWord) {
  IntegerCase test;
  for (std::uint64_t key = 1000; key < 1100; key += 10) test.insert(key);
  PowerCuts cuts(test.store);
  ASSERT_EQ(test.store.index().update(1030, 7), Outcome::ok);
  EXPECT_EQ(cuts.changed().size(), 1U);
  test.model[1030] = 7;
  PowerCuts removal(test.store);
  ASSERT_EQ(test.store.index().remove(1050), Outcome::ok);
  const Words words = removal.changed();
  ASSERT_EQ(words.size(), 1U);
  EXPECT_EQ(words[0].offset, test.offset(&test.store.peer().leaf_of(1050).header[0]));
  expect_after_cuts(test.store, removal, {}, {}, test.model);
  test.model.erase(1050);
  expect_after_cuts(test.store, removal, words, {}, test.model);
}

/// A full first leaf, 7 keys from 1000 and 7 from 2000 on, and one after it, which a split must
/// keep.
void fill_leaf(IntegerCase& test, bool ascending) {
  for (std::uint64_t n = 0; n < 15; ++n) test.insert(2000 + 10 * n);
  for (std::uint64_t n = 0; n < 7; ++n) test.insert(1000 + 10 * (ascending ? n : 6 - n));
  ASSERT_EQ(test.store.peer().first().read_header().free(), 0U);
  ASSERT_EQ(test.store.peer().leaves(), 2U);
}

// L4, T4: the new record goes right: new leaf, link, alternate bit and moved slots are one step.
TEST(LbTreeCrash, SplitToTheRightIsAtomic) {
  for (const bool ascending : {true, false}) {
    IntegerCase test;
    ASSERT_NO_FATAL_FAILURE(fill_leaf(test, ascending));
    const std::uint64_t word_0 = test.offset(&test.store.peer().first().header[0]);
    PowerCuts cuts(test.store);
    const auto before = test.model;
    test.insert(2005);
    ASSERT_EQ(test.store.peer().leaves(), 3U);
    Words loose = cuts.changed();
    const Words commit = extract(loose, word_0);
    ASSERT_EQ(commit.size(), 1U);
    ASSERT_NO_FATAL_FAILURE(expect_after_cuts(test.store, cuts, {}, loose, before));
    ASSERT_TRUE(succeeds(cuts.cut(loose)));
    EXPECT_EQ(test.store.peer().leaves(), 2U) << "the new leaf is forgotten";
    expect_after_cuts(test.store, cuts, loose + commit, {}, test.model);
  }
}

// L4, T4: the new record goes left: the split commits first, then the insertion.
TEST(LbTreeCrash, SplitToTheLeftIsTwoAtomicSteps) {
  for (const bool ascending : {true, false}) {
    IntegerCase test;
    ASSERT_NO_FATAL_FAILURE(fill_leaf(test, ascending));
    Leaf& leaf = test.store.peer().first();
    const std::uint64_t begin = test.offset(&leaf);
    const std::uint64_t siblings = test.offset(&leaf.sibling);
    Header between = leaf.read_header();
    for (unsigned slot = 0; slot < Leaf::entries; ++slot)
      if (leaf.record[slot].load().key >= 2000) between.drop(1U << slot);
    between.flip();
    PowerCuts cuts(test.store);
    const auto before = test.model;
    test.insert(1);
    ASSERT_EQ(test.store.peer().leaves(), 3U);
    Words split = cuts.changed();
    const Words insertion_commit = extract(split, begin);
    const Words insertion =
        extract(split, [=](std::uint64_t at) { return at > begin && at < siblings; });
    const Words split_commit{{begin, between.word_0}};
    ASSERT_NO_FATAL_FAILURE(expect_after_cuts(test.store, cuts, {}, split, before));
    ASSERT_NO_FATAL_FAILURE(
        expect_after_cuts(test.store, cuts, split + split_commit, insertion, before));
    expect_after_cuts(test.store, cuts, split + insertion + insertion_commit, {}, test.model);
  }
}

// T3, T4: a leaf that became empty is dropped, whether the cut came before or after the unlinking.
TEST(LbTreeCrash, UnlinkingIsAtomic) {
  IntegerCase test;
  for (std::uint64_t key = 1000; key < 1400; key += 10) test.insert(key);
  Leaf& leaf = test.store.peer().leaf_of(1200);
  const std::uint64_t begin = test.offset(&leaf);
  const auto leaves = test.store.peer().leaves();
  std::vector<std::uint64_t> keys;
  for (std::uint64_t key = 1000; key < 1400; key += 10)
    if (&test.store.peer().leaf_of(key) == &leaf) keys.push_back(key);
  while (keys.size() > 1) {
    ASSERT_EQ(test.store.index().remove(keys.back()), Outcome::ok);
    test.model.erase(keys.back());
    keys.pop_back();
  }
  PowerCuts cuts(test.store);
  const auto before = test.model;
  ASSERT_EQ(test.store.index().remove(keys[0]), Outcome::ok);
  test.model.erase(keys[0]);
  ASSERT_EQ(test.store.peer().leaves(), leaves - 1);
  Words rest = cuts.changed();
  const Words removal = extract(rest, begin);
  // The unlinked leaf leads nowhere from here on; that is never flushed and may or may not persist.
  const Words dead =
      extract(rest, [=](std::uint64_t at) { return at > begin && at < begin + sizeof(Leaf); });
  ASSERT_EQ(removal.size(), 1U);
  ASSERT_EQ(rest.size(), 1U) << "the link";
  ASSERT_EQ(dead.size(), 1U);
  expect_after_cuts(test.store, cuts, {}, {}, before);
  expect_after_cuts(test.store, cuts, removal, rest, test.model);
  expect_after_cuts(test.store, cuts, removal + rest, dead, test.model);
}

// T3, T4: recovery unlinks empty leaves, and a cut inside recovery does no harm.
TEST(LbTreeCrash, RecoveryMayBeCutToo) {
  IntegerCase test;
  for (std::uint64_t key = 1000; key < 1800; key += 10) test.insert(key);
  PowerCuts cuts(test.store);
  Words emptied;
  for (const std::uint64_t key : {1100U, 1110U, 1300U, 1790U}) {
    Leaf& leaf = test.store.peer().leaf_of(key);
    const Header header = leaf.read_header();
    for (unsigned slot = 0; slot < Leaf::entries; ++slot)
      if ((header.live() >> slot & 1) != 0) test.model.erase(leaf.record[slot].load().key);
    emptied.push_back({test.offset(&leaf), header.word_0 & ~Header::live_mask});
  }
  ASSERT_TRUE(succeeds(cuts.cut(emptied)));
  const Words recovered = cuts.changed();
  Words links = recovered;
  for (const Word& word : emptied) (void)extract(links, word.offset);
  ASSERT_GE(links.size(), 3U) << "recovery has unlinked leaves";
  expect_after_cuts(test.store, cuts, emptied, links, test.model);
}

template <class Keys>
void bulk_load_is_atomic() {
  Store<Keys> store;
  std::vector<std::string> texts;
  for (unsigned i = 1000; i < 1100; ++i) texts.push_back("key " + std::to_string(i));
  Model<Keys> model;
  std::vector<typename Keys::Record> records;
  for (unsigned i = 0; i < 100; ++i) {
    if constexpr (Keys::kind == KeyKind::integer)
      records.push_back({i, i + 7});
    else
      records.push_back({texts[i], texts[i]});
    model.emplace(records.back().key, records.back().value);
  }
  const std::uint64_t word_0 = store.pool().offset_of(&store.peer().first().header[0]);
  PowerCuts cuts(store);
  ASSERT_TRUE(succeeds(store.index().bulk_load(records)));
  Words loose = cuts.changed();
  const Words commit = extract(loose, word_0);
  ASSERT_EQ(commit.size(), 1U);
  expect_after_cuts<Keys>(store, cuts, {}, loose, {});
  expect_after_cuts<Keys>(store, cuts, loose + commit, {}, model);
}

// T4: a bulk load is there or not.
TEST(LbTreeCrash, BulkLoadIsAtomic) {
  bulk_load_is_atomic<IntegerKeys>();
  bulk_load_is_atomic<ByteKeys>();
}

// L1, T4: byte strings: blob, record and fingerprint count only with word 0, a new value only with
// the record's value word; what a cut leaves unlinked is free again (check_invariants counts
// blocks).
TEST(LbTreeCrash, StringsAreAtomicToo) {
  Store<ByteKeys> store;
  lbtree_test::BytesModel model;
  for (unsigned i = 10; i < 30; ++i) {
    const std::string key = "some shared prefix " + std::to_string(i);
    ASSERT_EQ(store.index().insert(key, key), Outcome::ok);
    model[key] = key;
  }
  const std::string key = "some shared prefix 20x";
  for (unsigned round = 0; round < 12; ++round) {
    SCOPED_TRACE(round);
    const std::string fresh = key + std::to_string(round);
    const std::uint64_t word_0 = store.pool().offset_of(&store.peer().leaf_of(fresh).header[0]);
    PowerCuts insertion(store);
    const auto without = model;
    const auto leaves = store.peer().leaves();
    ASSERT_EQ(store.index().insert(fresh, std::string(100, 'v')), Outcome::ok);
    model[fresh] = std::string(100, 'v');
    if (store.peer().leaves() != leaves) continue;
    Words loose = insertion.changed();
    const Words commit = extract(loose, word_0);
    ASSERT_EQ(commit.size(), 1U);
    ASSERT_NO_FATAL_FAILURE(expect_after_cuts(store, insertion, {}, loose, without));
    ASSERT_TRUE(succeeds(insertion.cut(loose + commit)));
    ASSERT_NO_FATAL_FAILURE(expect_equal(store.index(), model));
  }

  Leaf& leaf = store.peer().leaf_of(key + "0");
  const std::uint64_t value_word =
      store.pool().offset_of(&leaf.record[store.peer().slot(leaf, key + "0")].value);
  PowerCuts update(store);
  const auto old = model;
  ASSERT_EQ(store.index().update(key + "0", "a new value"), Outcome::ok);
  model[key + "0"] = "a new value";
  Words loose = update.changed();
  const Words commit = extract(loose, value_word);
  ASSERT_EQ(commit.size(), 1U);
  expect_after_cuts(store, update, {}, loose, old);
  expect_after_cuts(store, update, loose + commit, {}, model);
}

// A chain that is damaged is refused, never followed and never repaired by guessing.
TEST(LbTreeCrash, DamagedChainsAreCorrupt) {
  IntegerCase test;
  for (std::uint64_t key = 1000; key < 1400; key += 10) test.insert(key);
  auto peer = test.store.peer();
  Leaf& leaf = peer.leaf_of(1200);
  const std::uint64_t begin = test.offset(&leaf);
  const std::uint64_t link = test.offset(&leaf.sibling[leaf.read_header().alternate()]);
  const std::uint64_t record = test.offset(&leaf.record[peer.slot(leaf, 1200)].key);
  const std::uint64_t header = leaf.read_header().word_0;
  PowerCuts cuts(test.store);
  const Words damages{{link, begin},                        // a cycle of one
                      {link, test.offset(&peer.first())},   // a longer one
                      {link, begin + 64},                   // not aligned
                      {link, std::uint64_t{1} << 40},       // outside
                      {begin, header | Header::zero_mask},  // an impossible header
                      {record, 5}};                         // a key without its fingerprint
  index_test::expect_corrupt(test.store, cuts, damages, test.model);
}

}  // namespace
}  // namespace perdure
