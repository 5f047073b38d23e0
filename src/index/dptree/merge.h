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
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "index/dptree/dptree.h"

namespace perdure {

template <class Keys>
class DpTree<Keys>::Merge {
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
  /// Writes all that the new version consists of; durable with `commit`.
  void apply();
  /// Sets the anchor's state, and with it the new version.
  [[nodiscard]] std::unique_ptr<BaseMap> commit(dptree::State state);
  /// The records that the new version has no more, where they have blobs.
  [[nodiscard]] std::vector<RecordWords>& dropped() noexcept { return dropped_; }
  /// Frees the leaves that the new version does not use. The caller is pinned, and shows the new
  /// version.
  void retire_leaves();

 private:
  struct Item {
    RecordWords words;
    unsigned slot;  ///< in the leaf as it is, or `fresh`
    bool rewritten;
  };
  struct Plan {
    std::size_t begin;
    std::size_t end;
    std::size_t pieces = 0;        ///< 0: in place
    std::size_t most = unlimited;  ///< records it takes in; the rest is left over
    std::size_t takes_in = 0;      ///< so many leaves right of it
    bool goes = false;             ///< into the left one
  };
  struct New {
    RecordWords words;
    std::uint64_t hash;
  };
  static constexpr unsigned fresh = ~0U;
  enum class Note : std::uint8_t { nothing, left, dropped };

  [[nodiscard]] std::size_t leaves() const noexcept {
    return std::max<std::size_t>(1, base_.size());
  }
  [[nodiscard]] std::span<Pending> changes_of(const Plan& plan) const noexcept {
    return changes_.subspan(plan.begin, plan.end - plan.begin);
  }
  [[nodiscard]] std::size_t fill() const noexcept {
    return std::max<std::size_t>(1, tree_.leaf_entries_ * std::size_t{7} / 8);
  }
  void plan_pieces(std::size_t leaf, Plan& plan, std::size_t room);
  [[nodiscard]] std::size_t merge_items(std::size_t leaf, const Plan& plan, Note note);
  void take_in(std::size_t leaf, const Plan& plan);
  /// How many of a leaf's changes are records that it has no slot for.
  [[nodiscard]] std::size_t count_new(const LeafView& view, unsigned which, const Plan& plan) const;
  void ask_for_leaf(std::size_t leaf) const noexcept;
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

  DpTree& tree_;
  const BaseMap& base_;
  const std::span<Pending> changes_;
  const std::uint64_t target_;
  std::vector<Plan> plans_;
  std::vector<Reservation> blocks_;
  std::size_t blocks_left_ = 0;
  std::vector<std::size_t> left_;
  std::size_t lacking_ = 0;
  std::size_t joined_ = 0;
  std::vector<Item> items_;
  std::vector<New> new_;              ///< records of the leaf at hand
  std::uint64_t next_ = null_offset;  ///< the leaf right of the one at hand
  std::vector<std::pair<Key, dptree::LeafLink>>
      row_;  ///< leaves of the new version, from the right
  std::vector<std::uint64_t> old_leaves_;
  std::vector<RecordWords> dropped_;
  std::unique_ptr<BaseMap> made_;
};

}  // namespace perdure
