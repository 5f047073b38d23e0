#include "index/dptree/merge_plan.h"

namespace perdure::dptree {

// What tells whether a leaf has room is prefetched eight leaves ahead, and four leaves ahead what
// tells how much it needs, where it may lack some.
template <class Keys>
void MergePlan<Keys>::make() {
  constexpr std::size_t distance = 4;  // leaves
  assign_changes();
  for (std::size_t leaf = 0; leaf < leaves(); ++leaf) {
    if (const std::size_t far = leaf + 2 * distance; far < base_.size())
      pm::prefetch(&view_of(far).set(base_.leaf(far).which()));
    if (const std::size_t near = leaf + distance; near < base_.size() && may_lack_room(near))
      view_of(near).prefetch(base_.leaf(near).which());
    if (may_lack_room(leaf)) plan_pieces(leaf);
  }
}

template <class Keys>
void MergePlan<Keys>::assign_changes() {
  plans_.reserve(leaves());
  std::size_t at = 0;
  for (std::size_t leaf = 0; leaf < leaves(); ++leaf) {
    LeafPlan plan{at, changes_.size()};
    if (leaf + 1 < base_.size()) {
      const Key bound = base_.separator(leaf + 1);
      plan.end = at;
      while (plan.end < changes_.size() && parts_.records.key_of(changes_[plan.end].words) < bound)
        ++plan.end;
    }
    at = plan.end;
    plans_.push_back(plan);
  }
}

template <class Keys>
bool MergePlan<Keys>::may_lack_room(std::size_t leaf) const {
  const std::span<const LoggedChange> mine = changes_of(leaf);
  const std::size_t room = room_of(leaf);
  const auto is_put = [](const LoggedChange& change) { return !change.removal; };
  return mine.size() > room && (base_.size() == 0 || std::ranges::count_if(mine, is_put) >
                                                         static_cast<std::ptrdiff_t>(room));
}

/// How many records a leaf's changes add, and how many they take out.
template <class Keys>
auto MergePlan<Keys>::count_changes(std::size_t leaf) const -> std::pair<std::size_t, std::size_t> {
  std::size_t added = 0;
  std::size_t removed = 0;
  const auto is_present = [&](const LoggedChange& change) {
    if (base_.size() == 0) return false;
    const Key key = parts_.records.key_of(change.words);
    return parts_.find_in_leaf(base_.leaf(leaf), key, hash_of(key)).has_value();
  };
  for (const LoggedChange& change : changes_of(leaf)) {
    const bool present = is_present(change);
    added += static_cast<std::size_t>(!present && !change.removal);
    removed += static_cast<std::size_t>(present && change.removal);
  }
  return {added, removed};
}

template <class Keys>
Reservation MergePlan<Keys>::new_leaf() {
  if (!heap_is_full_) {
    const Reservation leaf = parts_.heap.reserve(parts_.leaf_bytes());
    if (leaf) return leaf;
    heap_is_full_ = true;
  }
  return spare_.take();
}

/// Reserves the leaves that replace one which lacks room, if it does. Without room for them it
/// takes what it has slots for; the first leaves of all are as many as there is room for.
template <class Keys>
void MergePlan<Keys>::plan_pieces(std::size_t leaf) {
  LeafPlan& plan = plans_[leaf];
  const std::size_t room = room_of(leaf);
  const auto [added, removed] = count_changes(leaf);
  if (added <= room) return;
  const std::size_t wanted = (records_of(leaf) + added - removed + fill() - 1) / fill();
  const std::size_t before = blocks_.size();
  while (blocks_.size() - before < wanted) {
    const Reservation block = new_leaf();
    if (!block) break;
    blocks_.push_back(block);
  }
  plan.pieces = blocks_.size() - before;
  if (plan.pieces == wanted) return;
  plan.most_new = room;
  if (base_.size() == 0) plan.most_new = plan.pieces * fill();
  for (; base_.size() != 0 && plan.pieces != 0; --plan.pieces) {
    spare_.put_back(blocks_.back());
    blocks_.pop_back();
  }
  ++lacking_;
  std::vector<MergedRecord> merged;
  (void)merge_records(
      leaf, merged,
      [&](const LoggedChange& change) {
        left_.push_back(static_cast<std::size_t>(&change - changes_.data()));
      },
      [](const RecordWords&) {});
}

template <class Keys>
bool MergePlan<Keys>::join(std::size_t wanted) {
  const auto is_unchanged = [&](std::size_t leaf) {
    return plans_[leaf].begin == plans_[leaf].end && plans_[leaf].pieces == 0;
  };
  for (std::size_t leaf = 0; leaf < base_.size() && joined_ < wanted;) {
    const std::size_t first = leaf++;
    if (!is_unchanged(first)) continue;
    std::size_t records = records_of(first);
    for (; leaf < base_.size() && joined_ < wanted && is_unchanged(leaf); ++leaf) {
      records += records_of(leaf);
      if (records > fill()) break;
      plans_[leaf].is_absorbed = true;
      ++plans_[first].absorbs;
      ++joined_;
    }
  }
  return joined_ == wanted;
}

template <class Keys>
void MergePlan<Keys>::cancel() {
  for (Reservation& block : blocks_) parts_.heap.cancel(block);
  blocks_.clear();
}

template <class Keys>
bool MergePlan<Keys>::stays(std::size_t leaf) const {
  const LeafPlan& plan = plans_[leaf];
  return plan.pieces == 0 && plan.absorbs == 0 && !plan.is_absorbed && records_of(leaf) != 0 &&
         std::ranges::none_of(changes_of(leaf), &LoggedChange::removal);
}

template class MergePlan<IntegerKeys>;
template class MergePlan<ByteKeys>;

}  // namespace perdure::dptree
