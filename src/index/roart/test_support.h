// What the tests of Roart share: a peer that reaches nodes and arrays.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "index/record/test_store.h"
#include "index/roart/roart.h"

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
  [[nodiscard]] std::size_t arrays() const { return arrays_below(root()); }

 private:
  [[nodiscard]] std::size_t arrays_below(const Node& node) const {
    std::size_t count = 0;
    for (Entry each = node.next(0); each; each = node.next(each.symbol() + 1))
      count += each.is_array() ? 1 : arrays_below(*tree_.node_at(each));
    return count;
  }

  Roart<Keys>& tree_;
};

namespace roart_test {

using index_test::BytesModel;
using index_test::expect_equal;
using index_test::IntegerModel;
using index_test::Model;
using index_test::succeeds;

template <class Keys>
using Store = index_test::PeerStore<RoartPeer, Keys>;

}  // namespace roart_test
}  // namespace perdure
