// What the tests of Roart share: a peer that reaches nodes and arrays.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/assert.h"
#include "index/common/test_store.h"
#include "index/roart/walk.h"

namespace perdure {

template <class Keys>
class RoartPeer {
 public:
  using Entry = roart::Entry;
  using LeafArray = roart::LeafArray;
  using Node = roart::Node;
  using Key = typename Keys::Key;
  static constexpr const char* index_name = "roart";
  explicit RoartPeer(OrderedIndex<Keys>& index) : tree_(static_cast<Roart<Keys>&>(index)) {}

  [[nodiscard]] Node& root() const { return *tree_.root_; }
  /// The node whose entry a key's path ends at, and that entry.
  [[nodiscard]] std::pair<Node*, Entry> place_of(Key key) const {
    const Epochs::Guard guard(tree_.epochs_);
    const auto at = tree_.find_place(KeyPath<Keys>(key));
    return {at.node, at.entry};
  }
  [[nodiscard]] LeafArray& array_of(Key key) const { return *tree_.array_at(place_of(key).second); }
  /// The slot of a present key.
  [[nodiscard]] std::atomic<std::uint64_t>& slot_of(Key key) const {
    LeafArray& array = array_of(key);
    const auto found = tree_.search(array, typename Roart<Keys>::Probe(key));
    PERDURE_ASSERT(found.slot);
    return array.word[found.place];
  }
  /// How many arrays the records are in.
  [[nodiscard]] std::size_t arrays() const {
    std::size_t count = 0;
    for_each_lock([&](roart::OpeningLock&, bool array) { count += array ? 1 : 0; });
    return count;
  }

  // The restart.

  [[nodiscard]] std::uint16_t opening() const { return tree_.opening_; }
  [[nodiscard]] bool is_walking() const { return tree_.state_.is_walking(); }
  /// Nodes and arrays that are of this opening; the root is.
  [[nodiscard]] std::size_t touched() const {
    std::size_t count = 0;
    for_each_lock([&](roart::OpeningLock& lock, bool) {
      count += roart::OpeningLock::opening_of(lock.peek()) == opening() ? 1 : 0;
    });
    return count;
  }
  [[nodiscard]] roart::Restart& restart() const {
    const auto root =
        read_index_root(tree_.pool_, tree_.pool_.roots().front().name, Roart<Keys>::root_kind);
    PERDURE_ASSERT(root.ok());
    return *tree_.pool_.template at<roart::Restart>(root->option[1]);
  }
  /// Changes do not walk any more (where there is no worker).
  void hold_walk() { tree_.walk_->arrays_a_change = 0; }
  [[nodiscard]] Epochs::Guard pin() { return Epochs::Guard(tree_.epochs_); }
  void walk(unsigned arrays) { tree_.walk_on(arrays); }
  /// The locks of all nodes but the root, and of all arrays. No other thread runs.
  template <class Visit>
  void for_each_lock(Visit&& visit) const {
    visit_below(root(), visit);
  }

 private:
  template <class Visit>
  void visit_below(const Node& node, Visit& visit) const {
    for (Entry each = node.next(0); each; each = node.next(each.symbol() + 1)) {
      if (each.is_array()) {
        visit(tree_.array_at(each)->lock, true);
      } else {
        visit(tree_.node_at(each)->lock, false);
        visit_below(*tree_.node_at(each), visit);
      }
    }
  }

  Roart<Keys>& tree_;
};

namespace roart_test {

using namespace index_test;

template <class Keys>
using Store = index_test::PeerStore<RoartPeer, Keys>;

}  // namespace roart_test
}  // namespace perdure
