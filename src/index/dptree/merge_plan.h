// What a merge will do with each leaf of the base tree, decided before it writes anything (D4).
//
// A leaf with room takes its changes in place. A leaf without room is written anew, as several.
// Where the pool has no room for these, the leaf takes what it has slots for, and the rest is left
// over. Then thin neighbours without changes can be joined: the left one takes the records of the
// others in place, which needs no room and makes some.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "index/dptree/parts.h"
#include "index/dptree/spare_leaves.h"

namespace perdure::dptree {

/// A change that waits for its merge.
struct LoggedChange {
  RecordWords words;
  LogRecord* source = nullptr;  ///< null: it comes from a bulk load
  bool removal = false;
};

struct LeafPlan {
  static constexpr std::size_t unlimited = ~std::size_t{0};

  std::size_t begin;  ///< its changes
  std::size_t end;
  std::size_t pieces = 0;            ///< leaves it becomes; 0: it is changed in place
  std::size_t most_new = unlimited;  ///< records it takes; the rest is left over
  std::size_t absorbs = 0;           ///< leaves right of it whose records it takes
  bool is_absorbed = false;          ///< by the leaf left of it
};

/// A record of a leaf after its changes.
struct MergedRecord {
  static constexpr unsigned no_slot = ~0U;

  RecordWords words;
  unsigned slot;   ///< in the leaf as it is, or `no_slot`
  bool rewritten;  ///< in its slot, with a new value
};

template <class Keys>
class MergePlan {
 public:
  using Key = typename Keys::Key;

  /// `changes` in key order, one a key.
  MergePlan(Parts<Keys>& parts, SpareLeaves& spare, const BaseMap<Keys>& base,
            std::span<const LoggedChange> changes)
      : parts_(parts), spare_(spare), base_(base), changes_(changes) {}

  /// Reserves every new leaf that there is room for.
  void make();
  /// Plans to join leaves until `wanted` are free; false: there are not as many.
  bool join(std::size_t wanted);
  /// Gives back what `make` reserved.
  void cancel();

  /// The changes that found no room, by their numbers.
  [[nodiscard]] const std::vector<std::size_t>& left() const noexcept { return left_; }
  /// How many leaves lacked room.
  [[nodiscard]] std::size_t lacking() const noexcept { return lacking_; }
  [[nodiscard]] std::size_t joined() const noexcept { return joined_; }
  [[nodiscard]] bool changes_nothing() const noexcept {
    return !left_.empty() && left_.size() == changes_.size() && joined_ == 0;
  }

  [[nodiscard]] Parts<Keys>& parts() const noexcept { return parts_; }
  [[nodiscard]] const BaseMap<Keys>& base() const noexcept { return base_; }
  /// One at least: the first changes of all make leaves.
  [[nodiscard]] std::size_t leaves() const noexcept {
    return std::max<std::size_t>(1, base_.size());
  }
  [[nodiscard]] const LeafPlan& of(std::size_t leaf) const noexcept { return plans_[leaf]; }
  [[nodiscard]] std::span<const LoggedChange> changes_of(std::size_t leaf) const noexcept {
    return changes_.subspan(plans_[leaf].begin, plans_[leaf].end - plans_[leaf].begin);
  }
  /// The reserved leaves, those for the leftmost pieces first.
  [[nodiscard]] const std::vector<Reservation>& blocks() const noexcept { return blocks_; }
  [[nodiscard]] LeafView view_of(std::size_t leaf) const noexcept {
    return parts_.leaf_at(base_.leaf(leaf));
  }
  /// The leaf keeps its place in the new version, whatever is done to it.
  [[nodiscard]] bool stays(std::size_t leaf) const;

  /// Puts the records of a leaf after its changes in key order into `out`; returns how many are new
  /// to it. on_left(change) is called for those that `most_new` leaves over, on_dropped(words) for
  /// records that the leaf had and has no more.
  template <class OnLeft, class OnDropped>
  std::size_t merge_records(std::size_t leaf, std::vector<MergedRecord>& out, OnLeft&& on_left,
                            OnDropped&& on_dropped) const;

 private:
  [[nodiscard]] std::size_t records_of(std::size_t leaf) const noexcept {
    return base_.size() == 0 ? 0 : view_of(leaf).records(base_.leaf(leaf).which());
  }
  [[nodiscard]] std::size_t room_of(std::size_t leaf) const noexcept {
    return base_.size() == 0 ? 0 : view_of(leaf).room(base_.leaf(leaf).which());
  }
  /// Records that a new leaf gets at most.
  [[nodiscard]] std::size_t fill() const noexcept {
    return std::max<std::size_t>(1, parts_.leaf_entries * std::size_t{7} / 8);
  }
  void assign_changes();
  [[nodiscard]] bool may_lack_room(std::size_t leaf) const;
  [[nodiscard]] std::pair<std::size_t, std::size_t> count_changes(std::size_t leaf) const;
  [[nodiscard]] Reservation new_leaf();
  void plan_pieces(std::size_t leaf);

  Parts<Keys>& parts_;
  SpareLeaves& spare_;
  const BaseMap<Keys>& base_;
  const std::span<const LoggedChange> changes_;
  std::vector<LeafPlan> plans_;
  std::vector<Reservation> blocks_;
  std::vector<std::size_t> left_;
  std::size_t lacking_ = 0;
  std::size_t joined_ = 0;
  bool heap_is_full_ = false;
};

/// The first number from `first` up to `end` of which is_below(number) says no, which it does of
/// all that follow, too. Binary search without the branch, which would be unpredictable.
template <class IsBelow>
[[nodiscard]] unsigned first_not_below(unsigned first, unsigned end, IsBelow&& is_below) {
  unsigned left = end - first;
  for (; left > 1;) {
    const unsigned half = left / 2;
    first += half & (0U - static_cast<unsigned>(is_below(first + half - 1)));
    left -= half;
  }
  return first + static_cast<unsigned>(left != 0 && is_below(first));
}

// A change is looked for by halving, and the records between two are copied without a look at their
// keys.
template <class Keys>
template <class OnLeft, class OnDropped>
std::size_t MergePlan<Keys>::merge_records(std::size_t leaf, std::vector<MergedRecord>& out,
                                           OnLeft&& on_left, OnDropped&& on_dropped) const {
  const RecordStore<Keys>& records = parts_.records;
  const std::span<const LoggedChange> changes = changes_of(leaf);
  out.resize(parts_.leaf_entries + changes.size());
  MergedRecord* to = out.data();
  std::size_t added = 0;
  const auto add = [&](const LoggedChange& change) {
    if (change.removal) return;
    if (added == plans_[leaf].most_new) return on_left(change);
    *to++ = {change.words, MergedRecord::no_slot, false};
    ++added;
  };
  if (base_.size() == 0) {
    for (const LoggedChange& change : changes) add(change);
    out.resize(static_cast<std::size_t>(to - out.data()));
    return added;
  }
  const LeafView view = view_of(leaf);
  const LeafOrder order = view.listed(base_.leaf(leaf).which());
  unsigned at = 0;
  const auto keep_until = [&](unsigned end) {
    for (; at < end; ++at) *to++ = {view.record(order.slot[at]).load(), order.slot[at], false};
  };
  for (const LoggedChange& change : changes) {
    keep_until(first_not_below(at, order.count, [&](unsigned i) {
      return records.less(view.record(order.slot[i]).load(), change.words);
    }));
    const bool present =
        at < order.count && !records.less(change.words, view.record(order.slot[at]).load());
    if (!present) {
      add(change);
      continue;
    }
    const unsigned slot = order.slot[at++];
    const RecordWords words = view.record(slot).load();
    const bool rewritten = !change.removal && change.words.value != words.value;
    if (change.removal || rewritten) on_dropped(words);
    if (!change.removal) *to++ = {change.words, slot, rewritten};
  }
  keep_until(order.count);
  out.resize(static_cast<std::size_t>(to - out.data()));
  return added;
}

extern template class MergePlan<IntegerKeys>;
extern template class MergePlan<ByteKeys>;

}  // namespace perdure::dptree
