// Power cuts made by hand (common/test_cuts.h) around every step of PacTree.
#include <gtest/gtest.h>

#include "index/common/test_cuts.h"
#include "index/pactree/test_support.h"

namespace perdure {
namespace {

using index_test::expect_after_cuts;
using index_test::extract;
using index_test::PowerCuts;
using index_test::Words;
using index_test::operator+;
using pactree::DataNode;
using pactree_test::make;
using pactree_test::Model;
using pactree_test::Store;
using pactree_test::succeeds;

/// A store of the keys 0, 10, ..., in nodes of 8. The thread that splits or merges replays.
template <class Keys>
struct Held : pactree_test::ModelledStore<Keys, Store, make<Keys>> {
  explicit Held(std::uint64_t records) : Held::ModelledStore({"node_entries=8", "workers=0"}) {
    for (std::uint64_t i = 0; i < records; ++i) this->insert(10 * i);
  }
  [[nodiscard]] DataNode& node(std::uint64_t number) {
    return this->store.peer().node_of(make<Keys>(number));
  }
};

template <class Keys>
class PacTreeCrash : public testing::Test {};
using BothKinds = testing::Types<IntegerKeys, ByteKeys>;
TYPED_TEST_SUITE(PacTreeCrash, BothKinds);

// L2: the commit word decides; tags and lock count for nothing.
TYPED_TEST(PacTreeCrash, InsertIsOneWord) {
  Held<TypeParam> test(6);
  const std::uint64_t commit_at = test.offset(&test.node(0).commit);
  const auto without = test.model;
  PowerCuts<TypeParam> cuts(test.store);
  test.insert(25);
  Words loose = cuts.changed();
  const Words commit = extract(loose, commit_at);
  ASSERT_EQ(commit.size(), 1U);
  ASSERT_NO_FATAL_FAILURE(expect_after_cuts(test.store, cuts, {}, loose, without));
  expect_after_cuts(test.store, cuts, loose + commit, {}, test.model);
}

// L4
TYPED_TEST(PacTreeCrash, UpdateIsOneWord) {
  Held<TypeParam> test(6);
  const std::uint64_t value_at =
      test.offset(&test.store.peer().record_of(make<TypeParam>(30)).value);
  const auto old = test.model;
  PowerCuts<TypeParam> cuts(test.store);
  ASSERT_EQ(test.store.index().update(make<TypeParam>(30), make<TypeParam>(7)), Outcome::ok);
  test.model[make<TypeParam>(30)] = make<TypeParam>(7);
  Words loose = cuts.changed();
  const Words value = extract(loose, value_at);
  ASSERT_EQ(value.size(), 1U);
  ASSERT_NO_FATAL_FAILURE(expect_after_cuts(test.store, cuts, {}, loose, old));
  expect_after_cuts(test.store, cuts, loose + value, {}, test.model);
}

// L7, G2: a split that was logged and not linked leaves nothing; one that is linked is whole, with
// or without the left node's bits.
TYPED_TEST(PacTreeCrash, ASplitCutAnywhereLosesNothing) {
  Held<TypeParam> test(8);
  DataNode& left = test.store.peer().first();
  const auto before = test.model;
  ASSERT_TRUE(test.store.peer().hold_replay());
  PowerCuts<TypeParam> cuts(test.store);
  test.insert(65);
  Words loose = cuts.changed();
  test.store.peer().release_replay();
  const Words commit = extract(loose, test.offset(&left.commit));
  const Words link = extract(loose, test.offset(&left.next));
  ASSERT_EQ(commit.size(), 1U);
  ASSERT_EQ(link.size(), 1U);
  ASSERT_NO_FATAL_FAILURE(expect_after_cuts(test.store, cuts, {}, loose, before));
  ASSERT_NO_FATAL_FAILURE(expect_after_cuts(test.store, cuts, loose + link, {}, test.model));
  expect_after_cuts(test.store, cuts, loose + link + commit, {}, test.model);
}

// L7, G2: a merge in the other order, the left node's bits and then the link.
TYPED_TEST(PacTreeCrash, AMergeCutAnywhereLosesNothing) {
  Held<TypeParam> test(8);
  test.insert(65);
  for (const std::uint64_t number : {0U, 10U, 70U, 65U}) test.remove(number);
  test.store.index().quiesce();
  DataNode& left = test.store.peer().first();
  DataNode& right = *test.store.peer().next_of(left);
  const auto before = test.model;
  ASSERT_TRUE(test.store.peer().hold_replay());
  PowerCuts<TypeParam> cuts(test.store);
  test.remove(60);
  ASSERT_EQ(test.store.peer().nodes(), 1U);
  Words loose = cuts.changed();
  test.store.peer().release_replay();
  const Words removal = extract(loose, test.offset(&right.commit));
  const Words commit = extract(loose, test.offset(&left.commit));
  const Words link = extract(loose, test.offset(&left.next));
  ASSERT_EQ(removal.size(), 1U);
  ASSERT_EQ(commit.size(), 1U);
  ASSERT_EQ(link.size(), 1U);
  ASSERT_NO_FATAL_FAILURE(expect_after_cuts(test.store, cuts, {}, loose, before));
  ASSERT_NO_FATAL_FAILURE(expect_after_cuts(test.store, cuts, removal, loose, test.model));
  const Words filled = removal + loose + commit;
  ASSERT_NO_FATAL_FAILURE(expect_after_cuts(test.store, cuts, filled, {}, test.model));
  expect_after_cuts(test.store, cuts, filled + link, {}, test.model);
}

/// What is left of `words` recovers, but for the log's alone, which a fence keeps from happening.
template <class Keys>
void expect_one_word_and_its_entry(Held<Keys>& test, PowerCuts<Keys>& cuts) {
  const Words words = cuts.changed();
  ASSERT_EQ(words.size(), 2U);
  ASSERT_NO_FATAL_FAILURE(expect_after_cuts(test.store, cuts, {}, {}, test.model));
  unsigned refused = 0;
  for (const auto& word : words)
    if (cuts.cut({&word, 1}).ok())
      pactree_test::expect_equal(test.store.index(), test.model);
    else
      ++refused;
  EXPECT_EQ(refused, 1U);
  expect_after_cuts(test.store, cuts, words, {}, test.model);
}

// T2, G2
TYPED_TEST(PacTreeCrash, ReplayOfASplitIsOneWordAndItsEntry) {
  Held<TypeParam> test(8);
  ASSERT_TRUE(test.store.peer().hold_replay());
  test.insert(65);
  test.store.peer().release_replay();
  PowerCuts<TypeParam> cuts(test.store);
  test.store.index().quiesce();
  expect_one_word_and_its_entry(test, cuts);
}

// S6: the nodes that the anchors' shared beginning made run empty, and go with the last anchor.
TYPED_TEST(PacTreeCrash, ReplayOfAMergeIsOneWordAndItsEntry) {
  Held<TypeParam> test(17);
  ASSERT_EQ(test.store.peer().nodes(), 3U);
  test.remove(160);
  ASSERT_EQ(test.store.peer().nodes(), 2U);
  ASSERT_TRUE(test.store.peer().hold_replay());
  for (std::uint64_t number = 80; number < 160; number += 10) test.remove(number);
  ASSERT_EQ(test.store.peer().nodes(), 1U);
  test.store.peer().release_replay();
  PowerCuts<TypeParam> cuts(test.store);
  test.store.index().quiesce();
  expect_one_word_and_its_entry(test, cuts);
}

// Media that are damaged are refused, never followed and never repaired by guessing.
TYPED_TEST(PacTreeCrash, DamagedListsAreCorrupt) {
  Held<TypeParam> test(24);
  DataNode& node = test.node(100);
  const std::uint64_t first = test.offset(&test.store.peer().first());
  const std::uint64_t next = test.offset(&node.next);
  PowerCuts<TypeParam> cuts(test.store);
  const Words damages{{next, test.offset(&node)},                   // a circle of one
                      {next, first},                                // a longer one
                      {next, 0},                                    // nodes are cut off
                      {next, first + 8},                            // not aligned
                      {next, test.store.pool().roots()[0].offset},  // another block
                      {next, std::uint64_t{1} << 40},               // outside
                      {test.offset(&node.anchor.key), ~std::uint64_t{0}},
                      {test.offset(&node.commit), 1 << 8}};  // no such slot
  index_test::expect_corrupt(test.store, cuts, damages, test.model);
}

}  // namespace
}  // namespace perdure
