// Power cuts made by hand (common/test_cuts.h) around every step of uTree.
#include <gtest/gtest.h>

#include "index/common/test_cuts.h"
#include "index/utree/test_support.h"

namespace perdure {
namespace {

using index_test::expect_after_cuts;
using index_test::extract;
using index_test::PowerCuts;
using index_test::Word;
using index_test::Words;
using index_test::operator+;
using utree_test::Model;
using utree_test::Store;
using utree_test::succeeds;
using ListNode = utree::ListNode;

template <class Keys>
auto key_of(std::uint64_t number) {
  if constexpr (Keys::kind == KeyKind::integer)
    return number;
  else
    return "some shared prefix " + std::to_string(10'000 + number);
}

/// A store of the keys 1000, 1010, ... 1190, which leaves of 4 hold.
template <class Keys>
struct Case : utree_test::ModelledStore<Keys, Store, key_of<Keys>> {
  Case() : Case::ModelledStore({"leaf_entries=4"}) {
    for (std::uint64_t number = 1000; number < 1200; number += 10) this->insert(number, number * 3);
  }
  [[nodiscard]] ListNode& node(std::uint64_t number) {
    return this->store.peer().node_of(key_of<Keys>(number));
  }
};

template <class Keys>
class UTreeCrash : public testing::Test {};
using BothKinds = testing::Types<IntegerKeys, ByteKeys>;
TYPED_TEST_SUITE(UTreeCrash, BothKinds);

// L2: whatever of the new node and its blob is on media, the link alone decides.
TYPED_TEST(UTreeCrash, InsertIsOneWord) {
  for (const std::uint64_t number : {999U, 1005U, 1045U, 1195U}) {
    SCOPED_TRACE(number);
    Case<TypeParam> test;
    auto& before = number < 1000 ? test.store.peer().head() : test.node(number - 5);
    const std::uint64_t link = test.offset(&before.next);
    const auto without = test.model;
    PowerCuts<TypeParam> cuts(test.store);
    test.insert(number);
    Words loose = cuts.changed();
    const Words commit = extract(loose, link);
    ASSERT_EQ(commit.size(), 1U);
    ASSERT_GE(loose.size(), number == 1195 ? 2U : 3U);
    ASSERT_NO_FATAL_FAILURE(expect_after_cuts(test.store, cuts, {}, loose, without));
    expect_after_cuts(test.store, cuts, loose + commit, {}, test.model);
  }
}

// L2: a removal is the link of the node before, also where that is another leaf's, or the head.
TYPED_TEST(UTreeCrash, RemoveIsOneWord) {
  for (const std::uint64_t number : {1000U, 1010U, 1020U, 1040U, 1190U}) {
    SCOPED_TRACE(number);
    Case<TypeParam> test;
    auto& before = number == 1000 ? test.store.peer().head() : test.node(number - 10);
    const std::uint64_t link = test.offset(&before.next);
    const auto with = test.model;
    PowerCuts<TypeParam> cuts(test.store);
    test.remove(number);
    const Words words = cuts.changed();
    ASSERT_EQ(words.size(), 1U);
    EXPECT_EQ(words[0].offset, link);
    ASSERT_NO_FATAL_FAILURE(expect_after_cuts(test.store, cuts, {}, {}, with));
    expect_after_cuts(test.store, cuts, words, {}, test.model);
  }
}

// L3: a new value is one word; a byte string's blob counts only with it.
TYPED_TEST(UTreeCrash, UpdateIsOneWord) {
  Case<TypeParam> test;
  const std::uint64_t word = test.offset(&test.node(1050).record.value);
  const auto old = test.model;
  PowerCuts<TypeParam> cuts(test.store);
  ASSERT_EQ(test.store.index().update(key_of<TypeParam>(1050), key_of<TypeParam>(7)), Outcome::ok);
  test.model[key_of<TypeParam>(1050)] = key_of<TypeParam>(7);
  Words loose = cuts.changed();
  const Words commit = extract(loose, word);
  ASSERT_EQ(commit.size(), 1U);
  EXPECT_EQ(loose.empty(), TypeParam::kind == KeyKind::integer);
  ASSERT_NO_FATAL_FAILURE(expect_after_cuts(test.store, cuts, {}, loose, old));
  expect_after_cuts(test.store, cuts, loose + commit, {}, test.model);
}

// L2: a bulk load is there or not.
TYPED_TEST(UTreeCrash, BulkLoadIsOneWord) {
  using Keys = TypeParam;
  Store<Keys> store;
  constexpr unsigned count = 2000;  // shared among two threads
  std::vector<decltype(key_of<Keys>(0))> keys;
  for (unsigned i = 0; i < count; ++i) keys.push_back(key_of<Keys>(10'000 + i));
  index_test::expect_bulk_load_is_one_word<Keys>(store, keys,
                                                 store.pool().offset_of(&store.peer().head().next));
}

// A list that is damaged is refused, never followed and never repaired by guessing.
TYPED_TEST(UTreeCrash, DamagedListsAreCorrupt) {
  Case<TypeParam> test;
  ListNode& node = test.node(1100);
  const std::uint64_t link = test.offset(&node.next);
  const std::uint64_t key = test.offset(&node.record.key);
  const std::uint64_t first = test.offset(&test.node(1000));
  PowerCuts<TypeParam> cuts(test.store);
  Words damages{{link, test.offset(&node)},                      // a circle of one
                {link, first},                                   // a longer one
                {link, test.offset(&test.store.peer().head())},  // through the head
                {link, first + 8},                               // not aligned
                {link, test.store.pool().roots()[0].offset},     // another block
                {link, std::uint64_t{1} << 40},                  // outside
                {key, 5}};                                       // descending
  if constexpr (TypeParam::kind == KeyKind::bytes) {
    const std::uint64_t value = test.offset(&node.record.value);
    const std::uint64_t other = test.node(1050).record.value.load();
    damages.push_back({value, other});                   // a blob of two nodes, out of order
    damages.push_back({value, std::uint64_t{1} << 40});  // outside
  }
  index_test::expect_corrupt(test.store, cuts, damages, test.model);
}

}  // namespace
}  // namespace perdure
