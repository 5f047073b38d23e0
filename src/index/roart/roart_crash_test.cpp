// Power cuts made by hand (common/test_cuts.h) around every step of Roart.
#include <gtest/gtest.h>

#include "index/common/test_cuts.h"
#include "index/roart/test_support.h"

namespace perdure {
namespace {

using index_test::expect_after_cuts;
using index_test::extract;
using index_test::PowerCuts;
using index_test::Word;
using index_test::Words;
using index_test::operator+;
using roart::Entry;
using roart::LeafArray;
using roart::Node;
using roart_test::Model;
using roart_test::Store;
using roart_test::succeeds;

/// The path of a number ends with its two bytes.
template <class Keys>
auto key_of(std::uint64_t number) {
  if constexpr (Keys::kind == KeyKind::integer)
    return number;
  else
    return std::string(1, static_cast<char>(number >> 8)) +
           std::string(1, static_cast<char>(number & 0xff));
}

template <class Keys>
struct Case : roart_test::ModelledStore<Keys, Store, key_of<Keys>> {
  explicit Case(std::initializer_list<unsigned> numbers) : Case::ModelledStore({"leaf_entries=4"}) {
    for (const unsigned number : numbers) this->insert(number);
  }
  [[nodiscard]] Node& node(unsigned number) {
    return *this->store.peer().place_of(key_of<Keys>(number)).first;
  }
  [[nodiscard]] std::uint64_t slot(unsigned number) {
    return this->offset(&this->store.peer().slot_of(key_of<Keys>(number)));
  }
  /// Those of `words` that are entries of a node.
  [[nodiscard]] Words entries(Words& words, const Node& node) {
    const std::uint64_t begin = this->offset(&node) + sizeof(Node);
    const std::uint64_t end = this->offset(&node) + node.bytes();
    return extract(words, [=](std::uint64_t at) { return at >= begin && at < end; });
  }
};

template <class Keys>
class RoartCrash : public testing::Test {};
using BothKinds = testing::Types<IntegerKeys, ByteKeys>;
TYPED_TEST_SUITE(RoartCrash, BothKinds);

// A1, A2: whatever of the record is on media, the slot alone decides.
TYPED_TEST(RoartCrash, InsertIsOneWord) {
  Case<TypeParam> test{1, 2, 3};
  const auto without = test.model;
  PowerCuts<TypeParam> cuts(test.store);
  test.insert(4);
  Words loose = cuts.changed();
  const Words commit = extract(loose, test.slot(4));
  ASSERT_EQ(commit.size(), 1U);
  ASSERT_NO_FATAL_FAILURE(expect_after_cuts(test.store, cuts, {}, loose, without));
  expect_after_cuts(test.store, cuts, loose + commit, {}, test.model);
}

TYPED_TEST(RoartCrash, RemoveIsOneWord) {
  Case<TypeParam> test{1, 2, 3};
  const auto with = test.model;
  const std::uint64_t slot = test.slot(2);
  PowerCuts<TypeParam> cuts(test.store);
  test.remove(2);
  Words loose = cuts.changed();
  const Words commit = extract(loose, slot);
  ASSERT_EQ(commit.size(), 1U);
  ASSERT_NO_FATAL_FAILURE(expect_after_cuts(test.store, cuts, {}, loose, with));
  expect_after_cuts(test.store, cuts, commit, loose, test.model);
}

TYPED_TEST(RoartCrash, UpdateIsOneWord) {
  Case<TypeParam> test{1, 2, 3};
  const auto old = test.model;
  std::uint64_t word = test.slot(2);
  if constexpr (TypeParam::kind == KeyKind::integer)
    word = roart::Slot(test.store.peer().slot_of(2).load()).offset() + offsetof(LeafRecord, value);
  PowerCuts<TypeParam> cuts(test.store);
  ASSERT_EQ(test.store.index().update(key_of<TypeParam>(2), key_of<TypeParam>(700)), Outcome::ok);
  test.model[key_of<TypeParam>(2)] = key_of<TypeParam>(700);
  Words loose = cuts.changed();
  const Words commit = extract(loose, word);
  ASSERT_EQ(commit.size(), 1U);
  ASSERT_NO_FATAL_FAILURE(expect_after_cuts(test.store, cuts, {}, loose, old));
  expect_after_cuts(test.store, cuts, loose + commit, {}, test.model);
}

// T3: an array whose records differ below its node's level becomes a node by one word.
TYPED_TEST(RoartCrash, DeeperSplitIsOneWord) {
  Case<TypeParam> test{1, 2, 3, 4};
  const auto without = test.model;
  PowerCuts<TypeParam> cuts(test.store);
  test.insert(5);
  Words loose = cuts.changed();
  const Words slot = extract(loose, test.slot(5));
  const Words link = test.entries(loose, test.store.peer().root());
  ASSERT_EQ(link.size(), 1U);
  ASSERT_NO_FATAL_FAILURE(expect_after_cuts(test.store, cuts, slot, loose, without));
  ASSERT_NO_FATAL_FAILURE(expect_after_cuts(test.store, cuts, loose + link, {}, without));
  expect_after_cuts(test.store, cuts, loose + link + slot, {}, test.model);
}

// T2: between the two stores of a split the old array holds records of the new one, too.
TYPED_TEST(RoartCrash, SplitIsTwoWordsInOrder) {
  Case<TypeParam> test{1, 2, 3, 4, 5, 6};
  const auto without = test.model;
  Node& node = test.node(6);
  const Entry old = test.store.peer().place_of(key_of<TypeParam>(6)).second;
  const std::uint64_t old_word = test.offset(&node.word_of(old));
  PowerCuts<TypeParam> cuts(test.store);
  test.insert(7);
  Words loose = cuts.changed();
  const Words slot = extract(loose, test.slot(7));
  const Words left = extract(loose, old_word);
  const Words right = test.entries(loose, node);
  ASSERT_EQ(left.size(), 1U);
  ASSERT_EQ(right.size(), 1U);
  ASSERT_NO_FATAL_FAILURE(expect_after_cuts(test.store, cuts, slot, loose, without));
  ASSERT_NO_FATAL_FAILURE(expect_after_cuts(test.store, cuts, loose + right, {}, without));
  ASSERT_NO_FATAL_FAILURE(expect_after_cuts(test.store, cuts, loose + right + left, {}, without));
  expect_after_cuts(test.store, cuts, loose + right + left + slot, {}, test.model);
}

// T2: the same with a removal from the new half, after which the old array leads to what is gone.
TYPED_TEST(RoartCrash, CutSplitsDoNotBringBackWhatWasRemoved) {
  Case<TypeParam> test{1, 2, 3, 4, 5, 6};
  Node& node = test.node(6);
  const Entry old = test.store.peer().place_of(key_of<TypeParam>(6)).second;
  const std::uint64_t old_word = test.offset(&node.word_of(old));
  PowerCuts<TypeParam> cuts(test.store);
  test.insert(7);
  test.remove(6);
  Words words = cuts.changed();
  (void)extract(words, old_word);
  auto expected = test.model;
  ASSERT_TRUE(succeeds(cuts.cut(words)));
  roart_test::expect_equal(test.store.index(), expected);
}

// A key that leaves a node's path above its level: a node with both takes the place by one word.
TYPED_TEST(RoartCrash, DeeperForkIsOneWord) {
  for (const unsigned number : {0x300U, 0x700U}) {
    SCOPED_TRACE(number);
    Case<TypeParam> test{0x500, 0x501, 0x502, 0x503, 0x504};
    const auto without = test.model;
    PowerCuts<TypeParam> cuts(test.store);
    test.insert(number);
    Words loose = cuts.changed();
    const Words slot = extract(loose, test.slot(number));
    const Words link = test.entries(loose, test.store.peer().root());
    ASSERT_EQ(link.size(), 1U);
    ASSERT_NO_FATAL_FAILURE(expect_after_cuts(test.store, cuts, slot, loose, without));
    ASSERT_NO_FATAL_FAILURE(expect_after_cuts(test.store, cuts, loose + link, {}, without));
    expect_after_cuts(test.store, cuts, loose + link + slot, {}, test.model);
  }
}

// T2: a key that leaves it at the level of the node above, and comes first: two words, between
// which two entries lead to the same node.
TYPED_TEST(RoartCrash, ForkIsTwoWordsInOrder) {
  Case<TypeParam> test{0x500, 0x501, 0x502, 0x503, 0x504, 0x700};
  const auto without = test.model;
  Node& node = test.node(0x700);
  const std::uint64_t lowest = test.offset(&node.word_of(node.next(0)));
  PowerCuts<TypeParam> cuts(test.store);
  test.insert(0x300);
  Words loose = cuts.changed();
  const Words slot = extract(loose, test.slot(0x300));
  const Words second = extract(loose, lowest);
  const Words first = test.entries(loose, node);
  ASSERT_EQ(first.size(), 1U);
  ASSERT_EQ(second.size(), 1U);
  EXPECT_TRUE(Entry(first[0].value).symbol() == 6);
  ASSERT_NO_FATAL_FAILURE(expect_after_cuts(test.store, cuts, slot, loose, without));
  ASSERT_NO_FATAL_FAILURE(expect_after_cuts(test.store, cuts, loose + first, {}, without));
  ASSERT_NO_FATAL_FAILURE(expect_after_cuts(test.store, cuts, loose + first + second, {}, without));
  expect_after_cuts(test.store, cuts, loose + first + second + slot, {}, test.model);
}

// A removal that takes an array out, and then the node: each is one word, in either order harmless.
TYPED_TEST(RoartCrash, ReclaimingIsOneWordAStep) {
  Case<TypeParam> test{1, 2, 3, 4, 5};
  for (const unsigned number : {5U, 4U}) test.remove(number);
  const auto with = test.model;
  const std::uint64_t slot = test.slot(3);
  PowerCuts<TypeParam> cuts(test.store);
  test.remove(3);
  Words loose = cuts.changed();
  const Words commit = extract(loose, slot);
  ASSERT_EQ(commit.size(), 1U);
  Words links = test.entries(loose, test.store.peer().root());
  ASSERT_EQ(links.size(), 1U) << "the node was not replaced by the array that was left";
  ASSERT_NO_FATAL_FAILURE(expect_after_cuts(test.store, cuts, {}, {}, with));
  ASSERT_NO_FATAL_FAILURE(expect_after_cuts(test.store, cuts, commit, loose, test.model));
  expect_after_cuts(test.store, cuts, commit + loose + links, {}, test.model);
}

TYPED_TEST(RoartCrash, BulkLoadIsOneWord) {
  using Keys = TypeParam;
  constexpr unsigned count = 2000;  // shared among two threads
  Store<Keys> store({"leaf_entries=8"});
  std::vector<decltype(key_of<Keys>(0))> keys;
  for (unsigned i = 0; i < count; ++i) keys.push_back(key_of<Keys>(i * 3));
  Node& root = store.peer().root();
  index_test::expect_bulk_load_is_one_word<Keys>(
      store, keys, store.pool().offset_of(&root.word_of(root.next(0))));
}

// A tree that is damaged is refused, never followed and never repaired by guessing.
TYPED_TEST(RoartCrash, DamagedTreesAreCorrupt) {
  Case<TypeParam> test{1, 2, 3, 4, 5, 6, 7, 8, 9, 0x500, 0x700};
  Node& node = test.node(9);
  const Entry entry = test.store.peer().place_of(key_of<TypeParam>(9)).second;
  const std::uint64_t word = test.offset(&node.word_of(entry));
  const Node& root = test.store.peer().root();
  const std::uint64_t slot = test.slot(9);
  const std::uint64_t slot_word = test.store.peer().slot_of(key_of<TypeParam>(9)).load();
  const std::uint64_t far = std::uint64_t{1} << 40;
  PowerCuts<TypeParam> cuts(test.store);
  const Words damages{
      {word, Entry(entry.symbol(), entry.kind(), far).word()},                    // outside
      {word, Entry(entry.symbol(), roart::Kind::n4, test.offset(&root)).word()},  // a circle
      {word, Entry(entry.symbol(), roart::Kind::n4, entry.offset()).word()},      // no node
      {word, Entry(entry.symbol(), roart::Kind::none, entry.offset()).word()},    // of no kind
      {word, Entry(400, entry.kind(), entry.offset()).word()},                    // no symbol
      {word, entry.word() + 64},                                                  // no block
      {test.offset(&node.word_of(node.next(0))), 0},                              // no lowest entry
      {slot, slot_word + 8},                                                      // not aligned
      {slot, slot_word ^ std::uint64_t{1} << 60},                                 // fingerprint
      {slot, roart::Slot(roart::Slot(slot_word).fingerprint(), far).word()},      // outside
      {test.offset(&node) + 8, 3}};                                               // level, kind
  index_test::expect_corrupt(test.store, cuts, damages, test.model);
}

}  // namespace
}  // namespace perdure
