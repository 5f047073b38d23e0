// What the tests of uTree share: a peer that reaches list and leaves.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/assert.h"
#include "index/common/test_store.h"
#include "index/utree/utree.h"

namespace perdure {

template <class Keys>
class UTreePeer {
 public:
  using Leaf = utree::Leaf;
  using ListNode = utree::ListNode;
  using Key = typename Keys::Key;
  static constexpr const char* index_name = "utree";
  explicit UTreePeer(OrderedIndex<Keys>& index) : tree_(static_cast<UTree<Keys>&>(index)) {}

  [[nodiscard]] ListNode& head() const { return *tree_.head_; }
  [[nodiscard]] Leaf& first() const { return *tree_.first_; }
  [[nodiscard]] Leaf& leaf_of(Key key) const {
    const Epochs::Guard guard(tree_.epochs_);
    return *tree_.template enter<UTree<Keys>::Purpose::read>(key).leaf;
  }
  /// The node of a present key.
  [[nodiscard]] ListNode& node_of(Key key) const {
    const Leaf& leaf = leaf_of(key);
    const auto position = tree_.search(leaf, key, [] { return true; });
    PERDURE_ASSERT(position.present);
    return *tree_.node_at(leaf.node(position.rank));
  }
  [[nodiscard]] std::size_t leaves() const {
    std::size_t count = 0;
    for (const Leaf* at = tree_.first_; at != nullptr; at = at->next.load()) ++count;
    return count;
  }
  [[nodiscard]] std::uint64_t retired_bytes() const { return tree_.epochs_.retired_bytes(); }

 private:
  UTree<Keys>& tree_;
};

namespace utree_test {

using namespace index_test;

template <class Keys>
using Store = index_test::PeerStore<UTreePeer, Keys>;

}  // namespace utree_test
}  // namespace perdure
