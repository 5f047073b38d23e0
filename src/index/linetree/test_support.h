// What the tests of linetree share: a peer that reaches leaves and locks, and keys that meet in a
// line.
#pragma once

#include <string>
#include <vector>

#include "core/rng.h"
#include "index/common/test_store.h"
#include "index/linetree/linetree.h"

namespace perdure {

template <class Keys>
class LineTreePeer {
 public:
  static constexpr const char* index_name = "linetree";
  using Leaf = linetree::Leaf;
  using Key = typename Keys::Key;
  explicit LineTreePeer(OrderedIndex<Keys>& index) : tree_(static_cast<LineTree<Keys>&>(index)) {}

  [[nodiscard]] const linetree::Shape& shape() const { return tree_.shape_; }
  [[nodiscard]] linetree::Anchor& anchor() const { return tree_.anchor_; }
  [[nodiscard]] Leaf& first() const { return *tree_.first(); }
  [[nodiscard]] Leaf& leaf_of(Key key) const {
    const Epochs::Guard guard(tree_.epochs_);
    return *tree_.template enter<LineTree<Keys>::Purpose::read>(key, 0).leaf;
  }
  [[nodiscard]] pm::VersionLock& lock_of(const Leaf& leaf) const { return tree_.lock_of(&leaf); }
  [[nodiscard]] linetree::LeafInfo& info_of(const Leaf& leaf) const { return tree_.info_of(&leaf); }
  [[nodiscard]] Leaf* next(const Leaf& leaf) const {
    const std::uint64_t offset = leaf.successor();
    return offset == null_offset ? nullptr : tree_.leaf_at(offset);
  }
  [[nodiscard]] std::size_t leaves() const {
    std::size_t count = 0;
    for (const Leaf* at = &first(); at != nullptr; at = next(*at)) ++count;
    return count;
  }
  [[nodiscard]] LeafRecord& record(Key key) const {
    Leaf& leaf = leaf_of(key);
    const typename linetree::Kind<Keys>::Probe probe(tree_.shape_, key);
    const unsigned slot = tree_.search(leaf, probe, [] { return true; });
    PERDURE_ASSERT(slot != linetree::no_slot);
    return leaf.slot(slot);
  }
  [[nodiscard]] Key lowest(const Leaf& leaf) const {
    return linetree::lowest_key(tree_.records_, leaf);
  }
  [[nodiscard]] linetree::Place place(Key key) const {
    return typename linetree::Kind<Keys>::Probe(tree_.shape_, key).place;
  }
  /// `count` keys from `from` on with this home line; and overflow line, unless that is -1.
  [[nodiscard]] std::vector<std::uint64_t> keys_in(unsigned home, int overflow, std::size_t count,
                                                   std::uint64_t from = 0) const {
    std::vector<std::uint64_t> keys;
    for (std::uint64_t key = from; keys.size() < count; ++key)
      if (place(key).home == home &&
          (overflow < 0 || place(key).overflow() == static_cast<unsigned>(overflow)))
        keys.push_back(key);
    return keys;
  }

 private:
  LineTree<Keys>& tree_;
};

namespace linetree_test {

using namespace index_test;
template <class Keys>
using Store = PeerStore<LineTreePeer, Keys>;
using Integers = Store<IntegerKeys>;
using Strings = Store<ByteKeys>;
using Slots = Store<SlotKeys>;

inline constexpr std::uint64_t large_pool = std::uint64_t{64} << 20;

constexpr std::uint64_t number(std::uint64_t n) { return n; }
using Case = ModelledStore<IntegerKeys, Store, number>;
/// Ascends with `n`; all share more than a slot holds of a key.
inline std::string name(std::uint64_t n) {
  const std::string digits = std::to_string(n);
  return "https://example.org/" + std::string(8 - digits.size(), '0') + digits;
}
using StringCase = ModelledStore<ByteKeys, Store, name>;

}  // namespace linetree_test
}  // namespace perdure
