// Merge: makes the next version of the base tree from the current one and a list of changes.
//
// A leaf with room takes its changes in place: new records go to slots that the current set does
// not list, the order and the bitmap to the other set. A leaf without room is written anew, as
// several. A leaf whose successor changes gets its other set, too, so the work goes from right to
// left.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "index/dptree/dptree.h"

namespace perdure {

template <class Keys>
class DpTree<Keys>::Merge {
 public:
  /// `changes` in key order, one a key.
  Merge(DpTree& tree, const BaseMap& base, std::span<const Pending> changes)
      : tree_(tree),
        base_(base),
        changes_(changes),
        target_(base.version + 1),
        old_leaves_(base.empty_leaves),
        made_(std::make_unique<BaseMap>(target_)) {}

  /// Reserves every new leaf (D4); false: no room, and nothing is held.
  [[nodiscard]] bool plan();
  /// Writes all that the new version consists of; durable with `commit`.
  void apply();
  /// Sets the anchor's state, and with it the new version.
  [[nodiscard]] std::unique_ptr<BaseMap> commit(dptree::State state);
  /// Frees what the new version does not use, and the blobs of a log that was dropped with it: one
  /// blob may be both, where an unfinished merge was begun again. The caller is pinned, and shows
  /// the new version.
  void retire(const std::vector<RecordWords>& garbage);

 private:
  struct Item {
    RecordWords words;
    unsigned slot;  ///< in the leaf as it is, or `fresh`
    bool rewritten;
  };
  struct Plan {
    std::size_t begin;
    std::size_t end;
    std::size_t pieces;  ///< 0: in place
  };
  static constexpr unsigned fresh = ~0U;

  [[nodiscard]] std::size_t leaves() const noexcept {
    return std::max<std::size_t>(1, base_.size());
  }
  [[nodiscard]] std::span<const Pending> changes_of(const Plan& plan) const noexcept {
    return changes_.subspan(plan.begin, plan.end - plan.begin);
  }
  [[nodiscard]] bool reserve(std::size_t pieces);
  unsigned merge_items(std::size_t leaf, const Plan& plan, bool note_dropped);
  void apply_leaf(std::size_t leaf, const Plan& plan);
  void write_other_set(const LeafView& view, unsigned which);
  void write_pieces(std::size_t leaf, std::size_t pieces);
  void write_piece(std::uint64_t offset, std::size_t leaf, std::size_t begin, std::size_t end);
  [[nodiscard]] Key key_of(std::size_t item) const noexcept {
    return tree_.records_.key_of(items_[item].words);
  }

  DpTree& tree_;
  const BaseMap& base_;
  const std::span<const Pending> changes_;
  const std::uint64_t target_;
  std::vector<Plan> plans_;
  std::vector<Reservation> blocks_;
  std::size_t blocks_left_ = 0;
  std::vector<Item> items_;
  std::uint64_t next_ = null_offset;                ///< the leaf right of the one at hand
  std::vector<std::pair<Key, std::uint64_t>> row_;  ///< leaves of the new version, from the right
  std::vector<std::uint64_t> old_leaves_;
  std::vector<RecordWords> dropped_;
  std::unique_ptr<BaseMap> made_;
};

}  // namespace perdure
