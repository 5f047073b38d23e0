// Merge: makes the next version of the base tree from the current one and a list of changes.
//
// A leaf with room takes its changes in place: values go where they were, new records to slots
// without a bit, the order and the bitmap to the other set. Where all that changes is values, order
// and bitmap stay what they are, and so does the set. A leaf without room is written anew, as
// several. A leaf whose successor changes gets its other set, too, so the work goes from right to
// left.
//
// Where the pool has no room for leaves, a leaf takes what it has slots for, and the rest is left
// over. Then thin neighbours that have no changes can be joined: the left one takes the records of
// the others in place, which needs no room and makes some.
//
// What is planned by one thread is written by all that come by, a stretch of leaves at a time. Each
// fences what it has written before it says that it is done.
#pragma once

#include <algorithm>
#include <atomic>
#include <utility>
#include <vector>

#include "index/dptree/dptree.h"

namespace perdure {

template <class Keys>
class DpTree<Keys>::Merge final : public dptree::SharedWork {
 public:
  static constexpr std::size_t unlimited = ~std::size_t{0};

  /// `changes` in key order, one a key.
  Merge(DpTree& tree, const BaseMap& base, std::span<Pending> changes)
      : tree_(tree),
        base_(base),
        changes_(changes),
        target_(base.version + 1),
        old_leaves_(base.empty_leaves),
        made_(std::make_unique<BaseMap>(target_)) {}

  /// Reserves every new leaf that there is room for (D4).
  void plan();
  /// Plans to join leaves until `wanted` are free; false: there are not as many.
  bool plan_joins(std::size_t wanted);
  /// The changes that found no room, by their numbers.
  [[nodiscard]] const std::vector<std::size_t>& left() const noexcept { return left_; }
  /// How many leaves lacked room.
  [[nodiscard]] std::size_t lacking() const noexcept { return lacking_; }
  [[nodiscard]] std::size_t joined() const noexcept { return joined_; }
  /// Gives back what `plan` reserved.
  void cancel();
  /// Writes all that the new version consists of, with whoever helps; durable with `commit`.
  void apply();
  /// A part of it; false: no part is left.
  bool work() noexcept override;
  /// Sets the anchor's state, and with it the new version.
  [[nodiscard]] std::unique_ptr<BaseMap> commit(dptree::State state);
  /// The records that the new version has no more, where they have blobs.
  [[nodiscard]] std::vector<RecordWords>& dropped() noexcept { return dropped_; }
  /// Frees the leaves that the new version does not use. The caller is pinned, and shows the new
  /// version.
  void retire_leaves();

 private:
  class Stretch;
  struct Plan {
    std::size_t begin;
    std::size_t end;
    std::size_t pieces = 0;        ///< 0: in place
    std::size_t most = unlimited;  ///< records it takes in; the rest is left over
    std::size_t takes_in = 0;      ///< so many leaves right of it
    bool goes = false;             ///< into the left one
  };
  enum class Note : std::uint8_t { left, dropped };

  [[nodiscard]] std::size_t leaves() const noexcept {
    return std::max<std::size_t>(1, base_.size());
  }
  [[nodiscard]] std::span<Pending> changes_of(const Plan& plan) const noexcept {
    return changes_.subspan(plan.begin, plan.end - plan.begin);
  }
  [[nodiscard]] std::size_t fill() const noexcept {
    return std::max<std::size_t>(1, tree_.leaf_entries_ * std::size_t{7} / 8);
  }
  [[nodiscard]] LeafView view_of(std::size_t leaf) const noexcept {
    return tree_.leaf_at(base_.leaf(leaf));
  }
  [[nodiscard]] const dptree::LeafSet& set_of(std::size_t leaf) const noexcept {
    return view_of(leaf).set(base_.leaf(leaf).which());
  }
  void assign();
  [[nodiscard]] bool may_lack_room(std::size_t leaf) const;
  [[nodiscard]] std::pair<std::size_t, std::size_t> count_changes(std::size_t leaf) const;
  [[nodiscard]] Reservation new_leaf();
  void plan_pieces(Stretch& whole, std::size_t leaf);
  [[nodiscard]] bool stays(std::size_t leaf) const;
  /// Makes the stretches.
  void cut();

  DpTree& tree_;
  const BaseMap& base_;
  const std::span<Pending> changes_;
  const std::uint64_t target_;
  std::vector<Plan> plans_;
  std::vector<Reservation> blocks_;
  std::vector<std::size_t> left_;
  std::size_t lacking_ = 0;
  std::size_t joined_ = 0;
  bool refused_ = false;            ///< the heap has no more leaves
  std::vector<Stretch> stretches_;  ///< from the left
  std::atomic<std::size_t> claimed_{0};
  std::vector<std::uint64_t> old_leaves_;
  std::vector<RecordWords> dropped_;
  std::unique_ptr<BaseMap> made_;
};

/// Leaves that one thread writes, and what they become.
template <class Keys>
class DpTree<Keys>::Merge::Stretch {
 public:
  /// Of the leaves from `begin` on to before `end`, for which `blocks` were planned up to its end.
  Stretch(Merge& merge, std::size_t begin, std::size_t end, std::size_t blocks)
      : merge_(merge),
        tree_(merge.tree_),
        base_(merge.base_),
        begin_(begin),
        end_(end),
        blocks_left_(blocks),
        next_(end < base_.size() ? base_.leaf(end).offset() : null_offset) {}

  void apply() noexcept;
  /// The first leaf of the stretch or right of it.
  [[nodiscard]] std::uint64_t first() const noexcept { return next_; }
  /// Adds to what the merge has made.
  void hand_over(BaseMap& made, std::vector<std::uint64_t>& old_leaves,
                 std::vector<RecordWords>& dropped) const {
    made.records += records_;
    for (auto at = row_.rbegin(); at != row_.rend(); ++at) made.add(at->first, at->second);
    old_leaves.insert(old_leaves.end(), old_leaves_.begin(), old_leaves_.end());
    dropped.insert(dropped.end(), dropped_.begin(), dropped_.end());
  }
  /// Puts the records of a leaf after its changes together; returns how many are new to it.
  std::size_t merge_items(std::size_t leaf, const Plan& plan, Note note);

 private:
  struct Item {
    RecordWords words;
    unsigned slot;  ///< in the leaf as it is, or `fresh`
    bool rewritten;
  };
  struct New {
    RecordWords words;
    std::uint64_t hash;
  };
  static constexpr unsigned fresh = ~0U;

  [[nodiscard]] dptree::LeafLink link_to(std::uint64_t offset, unsigned which) const noexcept {
    const dptree::LeafSet& set = tree_.leaf_at(offset).set(which);
    return {offset, which, set.home.load(std::memory_order_relaxed)};
  }
  void take_in(std::size_t leaf, const Plan& plan);
  void prefetch_leaf(std::size_t leaf) const noexcept;
  void find_suspects(std::size_t leaf) noexcept;
  [[nodiscard]] std::optional<std::pair<unsigned, RecordWords>> find(const LeafView& view,
                                                                     unsigned which,
                                                                     const Pending& change) const;
  void apply_leaf(std::size_t leaf, const Plan& plan);
  [[nodiscard]] std::optional<unsigned> apply_in_place(const LeafView& view, unsigned which,
                                                       const Plan& plan);
  void write_grown_set(const LeafView& view, unsigned which, dptree::Slots live);
  void write_set(const LeafView& view, unsigned which, std::size_t count, const dptree::Slots& live,
                 std::uint64_t home);
  void write_other_set(const LeafView& view, unsigned which);
  void write_pieces(std::size_t leaf, std::size_t pieces);
  void write_piece(std::uint64_t offset, std::size_t leaf, std::size_t begin, std::size_t end);
  [[nodiscard]] Key key_of(std::size_t item) const noexcept {
    return tree_.records_.key_of(items_[item].words);
  }

  Merge& merge_;
  DpTree& tree_;
  const BaseMap& base_;
  const std::size_t begin_;
  const std::size_t end_;
  std::size_t blocks_left_;  ///< of the merge's blocks, those for leaves left of the one at hand
  std::vector<Item> items_;
  std::vector<New> new_;  ///< records of the leaf at hand
  std::uint64_t next_;    ///< the leaf right of the one at hand
  std::vector<std::pair<Key, dptree::LeafLink>>
      row_;  ///< leaves of the new version, from the right
  std::vector<std::uint64_t> old_leaves_;
  std::vector<RecordWords> dropped_;
  std::uint64_t records_ = 0;
};

}  // namespace perdure
