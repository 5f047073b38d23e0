// What the tests of LB+-Tree share: a peer that reaches leaves and locks.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "core/rng.h"
#include "index/common/test_store.h"
#include "index/lbtree/lbtree.h"

namespace perdure {

template <class Keys>
class LbTreePeer {
 public:
  using Leaf = lbtree::Leaf;
  explicit LbTreePeer(OrderedIndex<Keys>& index) : tree_(static_cast<LbTree<Keys>&>(index)) {}

  [[nodiscard]] Leaf& first() const { return *tree_.first_; }
  [[nodiscard]] Leaf& leaf_of(typename Keys::Key key) const {
    const Epochs::Guard guard(tree_.epochs_);
    return *tree_.template enter<LbTree<Keys>::Purpose::read>(key).leaf;
  }
  [[nodiscard]] pm::VersionLock& lock_of(const Leaf& leaf) const { return tree_.lock_of(&leaf); }
  [[nodiscard]] Leaf* next(const Leaf& leaf) const {
    const std::uint64_t offset = leaf.next(leaf.read_header());
    return offset == null_offset ? nullptr : tree_.leaf_at(offset);
  }
  [[nodiscard]] std::size_t leaves() const {
    std::size_t count = 0;
    for (const Leaf* at = tree_.first_; at != nullptr; at = next(*at)) ++count;
    return count;
  }
  [[nodiscard]] std::uint64_t retired_bytes() const { return tree_.epochs_.retired_bytes(); }
  [[nodiscard]] std::size_t slot(const Leaf& leaf, typename Keys::Key key) const {
    RecordWords found;
    return static_cast<std::size_t>(tree_.search(
        leaf, key, fingerprint_of(key), [] { return true; }, found));
  }

 private:
  LbTree<Keys>& tree_;
};

namespace lbtree_test {

using namespace index_test;

template <class Keys>
class Store : public index_test::Store<Keys> {
 public:
  explicit Store(HeapKind heap = HeapKind::slab, std::uint64_t bytes = Pool::min_pool_bytes,
                 std::vector<std::string> options = {})
      : index_test::Store<Keys>("lbtree", heap, bytes, std::move(options)) {}

  [[nodiscard]] LbTreePeer<Keys> peer() { return LbTreePeer<Keys>(this->index()); }
};

}  // namespace lbtree_test
}  // namespace perdure
