// Decides which new keys must claim a split of their base leaf before they are logged.
//
// Integers that come evenly fill all leaves at about the same time, and a merge may want as many
// leaves again. So where the heap has none to spare for the splits that the next front tree is
// likely to need, a key whose leaf is full with what is logged claims a split (spare_leaves.h), or
// is refused. Byte strings claim none: they need blobs before they need leaves, and the last room
// is left to these.
#pragma once

#include <cstddef>
#include <cstdint>

#include "index/dptree/leftovers.h"
#include "index/dptree/parts.h"
#include "index/dptree/spare_leaves.h"

namespace perdure::dptree {

template <class Keys>
class SplitClaims {
 public:
  using Key = typename Keys::Key;

  explicit SplitClaims(Parts<Keys>& parts)
      : parts_(parts), spare_(parts.heap, parts.leaf_bytes()) {}

  [[nodiscard]] SpareLeaves& spare() noexcept { return spare_; }
  [[nodiscard]] const SpareLeaves& spare() const noexcept { return spare_; }
  /// Whether this key is new, and its base leaf must be split for it, which no other key has
  /// claimed.
  [[nodiscard]] bool must_claim(Key key, std::uint64_t hash) const {
    return spare_.are_scarce() && needs_split(key, hash);
  }
  /// False: the heap has no room for the leaves, not even in retired blocks that are no longer
  /// read.
  [[nodiscard]] bool claim();
  void withdraw() { spare_.unclaim(); }
  /// After a merge, and where none could do anything. The caller holds `merging`.
  void recount(const Leftovers& leftovers);
  /// The heap has no leaf for another split. The caller holds `merging`.
  [[nodiscard]] bool lack_leaves() { return spare_.are_scarce() && !spare_.could_claim(1); }

 private:
  [[nodiscard]] bool needs_split(Key key, std::uint64_t hash) const;
  [[nodiscard]] std::size_t logged_keys(const Snapshot<Keys>& trees, LeafPlace place,
                                        std::size_t most, bool exact) const;
  [[nodiscard]] std::size_t likely_splits(const Snapshot<Keys>& trees) const;
  [[nodiscard]] bool splits_are_scarce();

  Parts<Keys>& parts_;
  SpareLeaves spare_;
};

extern template class SplitClaims<IntegerKeys>;
extern template class SplitClaims<ByteKeys>;

}  // namespace perdure::dptree
