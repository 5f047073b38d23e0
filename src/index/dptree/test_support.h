// What the tests of DPTree share: a peer that reaches the trees, rotates and merges.
#pragma once

#include <string>
#include <vector>

#include "index/common/test_store.h"
#include "index/dptree/dptree.h"

namespace perdure {

template <class Keys>
class DpTreePeer {
 public:
  using Key = typename Keys::Key;
  using Buffer = dptree::Buffer<Keys>;
  explicit DpTreePeer(OrderedIndex<Keys>& index) : tree_(static_cast<DpTree<Keys>&>(index)) {}

  [[nodiscard]] Buffer& front() const { return *tree_.parts_.snapshot().front; }
  [[nodiscard]] Buffer* middle() const { return tree_.parts_.snapshot().middle; }
  [[nodiscard]] const dptree::BaseMap<Keys>& base() const { return *tree_.parts_.snapshot().base; }
  [[nodiscard]] dptree::Anchor& anchor() const { return tree_.parts_.anchor; }
  [[nodiscard]] dptree::LeafView leaf(std::size_t i) const {
    return tree_.parts_.leaf_at(base().leaf(i));
  }
  /// The current set of a leaf.
  [[nodiscard]] dptree::LeafSet& set(std::size_t i) const {
    return leaf(i).set(leaf(i).current(base().version));
  }
  /// True when the base tree has a record with the fingerprint of `key` where that would be.
  [[nodiscard]] bool is_suspected(Key key) const {
    const dptree::LeafView view = tree_.parts_.leaf_at(base().find(key).leaf);
    const dptree::Slots live = view.slots(view.current(base().version));
    const unsigned word = view.bucket_of(hash_of(key));
    return (view.match(word, fingerprint_from(hash_of(key))) & live[word]) != 0;
  }
  /// The log record that the front tree leads to.
  [[nodiscard]] dptree::LogRecord& logged(Key key) const {
    return *front().record_of(front().find(key, hash_of(key)).word);
  }
  [[nodiscard]] std::size_t leaf_bytes() const { return tree_.parts_.leaf_bytes(); }

  /// Readers read again as long as this is there.
  [[nodiscard]] auto hold_readers_off() const {
    return typename dptree::CurrentSnapshot<Keys>::ReadersHeldOff(tree_.parts_.current);
  }

  [[nodiscard]] Epochs& epochs() const { return tree_.parts_.epochs; }

  [[nodiscard]] bool help_merging() const { return tree_.maintenance_.workers().help(); }

  /// Keeps everybody from merging.
  void hold() const { (void)tree_.parts_.merging.lock(); }
  void let_go() const { tree_.parts_.merging.unlock_unchanged(); }
  void rotate() const {
    hold();
    tree_.maintenance_.rotate();
    let_go();
  }
  /// How many changes of the middle tree found no room in the base tree.
  [[nodiscard]] std::size_t left() const { return tree_.maintenance_.leftovers().records().size(); }
  /// An update, where the value is.
  [[nodiscard]] Outcome replace_in_place(typename Keys::Key key, typename Keys::Value value) const {
    bool lacks_blob = false;
    return tree_.in_place_.replace(key, value, hash_of(key), Outcome::not_found, Block::fitting,
                                   lacks_blob);
  }
  [[nodiscard]] Outcome remove_in_place(Key key) const {
    return tree_.in_place_.remove(key, hash_of(key));
  }
  /// The middle tree, or else the front tree; false: there is nothing, or no room for all of it.
  [[nodiscard]] bool merge() const {
    hold();
    const bool merged =
        tree_.maintenance_.merge_one(dptree::MergePurpose::usual) == dptree::MergeResult::all;
    let_go();
    return merged;
  }

 private:
  DpTree<Keys>& tree_;
};

namespace dptree_test {

using index_test::expect_equal;
using index_test::Model;
using index_test::succeeds;

/// Merges when it is told to, and not before.
inline const std::vector<std::string> by_hand{"leaf_entries=8", "buffer_entries=100000",
                                              "workers=0"};

/// Log segments of three records.
inline const std::vector<std::string> short_logs{"leaf_entries=8", "buffer_entries=100000",
                                                 "workers=0", "log_entries=3"};
using BothKinds = testing::Types<IntegerKeys, ByteKeys>;

template <class Keys>
class Store : public index_test::Store<Keys> {
 public:
  explicit Store(std::vector<std::string> options = by_hand,
                 std::uint64_t bytes = Pool::min_pool_bytes)
      : index_test::Store<Keys>("dptree", HeapKind::slab, bytes, std::move(options)) {}

  [[nodiscard]] DpTreePeer<Keys> peer() { return DpTreePeer<Keys>(this->index()); }
  [[nodiscard]] std::uint64_t live_blocks() { return this->pool().heap().usage().live_blocks; }
};

template <class Keys>
auto make(std::uint64_t number) {
  if constexpr (Keys::kind == KeyKind::integer)
    return number;
  else
    return "one prefix for all " + std::to_string(100'000 + number);
}

/// A store and what it should hold.
template <class Keys>
struct Case {
  Store<Keys> store;
  Model<Keys> model;

  explicit Case(std::vector<std::string> options = by_hand) : store(std::move(options)) {}

  void put(std::uint64_t number, std::uint64_t value) {
    const auto key = make<Keys>(number);
    ASSERT_EQ(store.index().upsert(key, make<Keys>(value)), Outcome::ok);
    model[key] = make<Keys>(value);
  }
  void remove(std::uint64_t number) {
    const auto key = make<Keys>(number);
    ASSERT_EQ(store.index().remove(key), model.erase(key) != 0 ? Outcome::ok : Outcome::not_found);
  }
  /// By lookups and a scan: blocks that a test holds would show in `check_invariants`.
  void expect_content() {
    typename Keys::Scan scan;
    ASSERT_EQ(store.index().scan({}, model.size() + 1, scan), model.size());
    std::size_t i = 0;
    typename Keys::ValueOut value{};
    for (const auto& [key, expected] : model) {
      ASSERT_EQ(scan[i].key, key);
      ASSERT_EQ(scan[i++].value, expected);
      ASSERT_EQ(store.index().lookup(key, value), Outcome::ok);
      ASSERT_EQ(value, expected);
    }
  }
  void expect_sound() { expect_equal(store.index(), model); }
  /// Now, recovered, when all is merged, and recovered from that.
  void expect_sound_for_good() {
    ASSERT_NO_FATAL_FAILURE(expect_sound());
    ASSERT_TRUE(succeeds(store.crash()));
    ASSERT_NO_FATAL_FAILURE(expect_sound());
    while (store.peer().merge()) continue;
    ASSERT_NO_FATAL_FAILURE(expect_sound());
    ASSERT_TRUE(succeeds(store.crash()));
    expect_sound();
  }
};

/// Every tenth number up to 4000 in the base tree.
template <class Keys>
void fill_thinly(Case<Keys>& test) {
  for (std::uint64_t number = 0; number < 4000; number += 10) test.put(number, number);
  ASSERT_TRUE(test.store.peer().merge());
}
/// Inserts the numbers that follow `next` until there is no room; how many.
template <class Keys>
std::uint64_t fill_up(Case<Keys>& test, std::uint64_t& next) {
  for (std::uint64_t taken = 0;; ++taken) {
    next += next % 10 == 9 ? 2 : 1;
    const auto key = make<Keys>(next);
    if (test.store.index().insert(key, key) != Outcome::ok) return taken;
    test.model[key] = key;
  }
}

/// A key from `first` on, in steps of `step`, that the base tree has not, but may by its
/// fingerprints.
template <class Keys>
std::uint64_t suspected_number(Case<Keys>& test, std::uint64_t first, std::uint64_t step) {
  while (!test.store.peer().is_suspected(make<Keys>(first))) first += step;
  return first;
}

/// Records in the base, the middle and the front tree.
template <class Keys>
void fill_three_trees(Case<Keys>& test) {
  for (std::uint64_t number = 0; number < 60; ++number) test.put(number, number);
  ASSERT_TRUE(test.store.peer().merge());
  for (std::uint64_t number = 50; number < 100; ++number) test.put(number, number + 1);
  test.store.peer().rotate();
  for (std::uint64_t number = 90; number < 120; ++number) test.put(number, number + 2);
}

/// Takes all room of a pool but `left` blocks of `bytes`, as long as it lives.
class Hog {
 public:
  Hog(Heap& heap, std::size_t bytes, std::size_t left) : heap_(heap) {
    take(bytes);
    for (std::size_t i = 0; i < left && !held_.empty(); ++i) {
      heap_.cancel(held_.back());
      held_.pop_back();
    }
  }
  /// All that is left, of every size.
  explicit Hog(Heap& heap) : heap_(heap) {
    for (unsigned i = size_classes::count; i-- > 0;) take(size_classes::bytes_of(i));
  }
  ~Hog() {
    for (Reservation& block : held_) heap_.cancel(block);
  }
  Hog(const Hog&) = delete;
  Hog& operator=(const Hog&) = delete;
  /// The pool goes with them.
  void forget() { held_.clear(); }

 private:
  void take(std::size_t bytes) {
    while (const Reservation block = heap_.reserve(bytes)) held_.push_back(block);
  }
  Heap& heap_;
  std::vector<Reservation> held_;
};

}  // namespace dptree_test
}  // namespace perdure
