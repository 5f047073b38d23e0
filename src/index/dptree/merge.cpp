#include "index/dptree/merge.h"

#include <algorithm>

namespace perdure {

using dptree::Anchor;
using dptree::LeafSet;
using dptree::State;

// What tells whether a leaf has room is prefetched eight leaves ahead, and four leaves ahead what
// tells how much it needs, where it may lack some.
template <class Keys>
void DpTree<Keys>::Merge::plan() {
  constexpr std::size_t distance = 4;  // leaves
  assign();
  Stretch whole(*this, 0, leaves(), 0);
  for (std::size_t leaf = 0; leaf < leaves(); ++leaf) {
    if (leaf + 2 * distance < base_.size()) pm::prefetch(&set_of(leaf + 2 * distance));
    if (leaf + distance < base_.size() && may_lack_room(leaf + distance))
      view_of(leaf + distance).prefetch(base_.leaf(leaf + distance).which());
    if (may_lack_room(leaf)) plan_pieces(whole, leaf);
  }
}

/// Gives each leaf its changes.
template <class Keys>
void DpTree<Keys>::Merge::assign() {
  plans_.reserve(leaves());
  std::size_t at = 0;
  for (std::size_t leaf = 0; leaf < leaves(); ++leaf) {
    Plan plan{at, changes_.size()};
    if (leaf + 1 < base_.size()) {
      const Key bound = base_.separator(leaf + 1);
      plan.end = at;
      while (plan.end < changes_.size() && tree_.records_.key_of(changes_[plan.end].words) < bound)
        ++plan.end;
    }
    at = plan.end;
    plans_.push_back(plan);
  }
}

template <class Keys>
bool DpTree<Keys>::Merge::may_lack_room(std::size_t leaf) const {
  const std::span<const Pending> mine = changes_of(plans_[leaf]);
  if (base_.size() == 0) return !mine.empty();
  const auto room = view_of(leaf).room(base_.leaf(leaf).which());
  const auto is_put = [](const Pending& change) { return !change.removal(); };
  return mine.size() > room &&
         std::ranges::count_if(mine, is_put) > static_cast<std::ptrdiff_t>(room);
}

/// How many records a leaf's changes add, and how many they take out.
template <class Keys>
auto DpTree<Keys>::Merge::count_changes(std::size_t leaf) const
    -> std::pair<std::size_t, std::size_t> {
  std::size_t added = 0;
  std::size_t removed = 0;
  const auto is_present = [&](const Pending& change) {
    if (base_.size() == 0) return false;
    const Key key = tree_.records_.key_of(change.words);
    const auto found =
        tree_.find_in_leaf(view_of(leaf), base_.leaf(leaf).which(), key, hash_of(key));
    return found.has_value();
  };
  for (const Pending& change : changes_of(plans_[leaf])) {
    const bool present = is_present(change);
    added += static_cast<std::size_t>(!present && !change.removal());
    removed += static_cast<std::size_t>(present && change.removal());
  }
  return {added, removed};
}

template <class Keys>
Reservation DpTree<Keys>::Merge::new_leaf() {
  if (!refused_) {
    const Reservation leaf = tree_.heap_.reserve(LeafView::bytes(tree_.leaf_entries_));
    if (leaf) return leaf;
    refused_ = true;
  }
  return tree_.spare_.take();
}

/// Reserves the leaves that replace one which lacks room, if it does. Without room for them it
/// takes what it has slots for; the first leaves of all are as many as there is room for.
template <class Keys>
void DpTree<Keys>::Merge::plan_pieces(Stretch& whole, std::size_t leaf) {
  Plan& plan = plans_[leaf];
  const std::size_t room = base_.size() == 0 ? 0 : view_of(leaf).room(base_.leaf(leaf).which());
  const auto [added, removed] = count_changes(leaf);
  if (added <= room) return;
  const std::size_t records =
      base_.size() == 0 ? 0 : view_of(leaf).records(base_.leaf(leaf).which());
  const std::size_t wanted = (records + added - removed + fill() - 1) / fill();
  const std::size_t before = blocks_.size();
  while (blocks_.size() - before < wanted) {
    const Reservation block = new_leaf();
    if (!block) break;
    blocks_.push_back(block);
  }
  plan.pieces = blocks_.size() - before;
  if (plan.pieces == wanted) return;
  plan.most = room;
  if (base_.size() == 0) plan.most = plan.pieces * fill();
  for (; base_.size() != 0 && plan.pieces != 0; --plan.pieces) {
    tree_.spare_.put_back(blocks_.back());
    blocks_.pop_back();
  }
  ++lacking_;
  (void)whole.merge_items(leaf, plan, Note::left);
}

template <class Keys>
bool DpTree<Keys>::Merge::plan_joins(std::size_t wanted) {
  const auto records_of = [&](std::size_t leaf) {
    return view_of(leaf).records(base_.leaf(leaf).which());
  };
  const auto unchanged = [&](std::size_t leaf) {
    return plans_[leaf].begin == plans_[leaf].end && plans_[leaf].pieces == 0;
  };
  for (std::size_t leaf = 0; leaf < base_.size() && joined_ < wanted;) {
    const std::size_t first = leaf++;
    if (!unchanged(first)) continue;
    std::size_t records = records_of(first);
    for (; leaf < base_.size() && joined_ < wanted && unchanged(leaf); ++leaf) {
      records += records_of(leaf);
      if (records > fill()) break;
      plans_[leaf].goes = true;
      ++plans_[first].takes_in;
      ++joined_;
    }
  }
  return joined_ == wanted;
}

template <class Keys>
void DpTree<Keys>::Merge::cancel() {
  for (Reservation& block : blocks_) tree_.heap_.cancel(block);
  blocks_.clear();
}

/// The leaf keeps its place in the new version, whatever is done to it.
template <class Keys>
bool DpTree<Keys>::Merge::stays(std::size_t leaf) const {
  const Plan& plan = plans_[leaf];
  return plan.pieces == 0 && plan.takes_in == 0 && !plan.goes &&
         view_of(leaf).records(base_.leaf(leaf).which()) != 0 &&
         std::ranges::none_of(changes_of(plan),
                              [](const Pending& change) { return change.removal(); });
}

// A stretch ends before a leaf that stays, so that the last one in it knows its successor. One is
// what a thread does for the others before its own next operation.
template <class Keys>
void DpTree<Keys>::Merge::cut() {
  constexpr std::size_t most_leaves = 64;
  constexpr std::size_t least_stretches = 16;
  const bool has_helpers = !tree_.workers_.is_alone();
  const std::size_t size =
      has_helpers ? std::clamp<std::size_t>(leaves() / least_stretches, 1, most_leaves) : leaves();
  std::size_t begin = 0;
  std::size_t blocks = 0;
  for (std::size_t leaf = 0; leaf < plans_.size(); ++leaf) {
    if (leaf - begin >= size && stays(leaf))
      stretches_.emplace_back(*this, std::exchange(begin, leaf), leaf, blocks);
    blocks += plans_[leaf].pieces;
  }
  stretches_.emplace_back(*this, begin, plans_.size(), blocks);
}

template <class Keys>
bool DpTree<Keys>::Merge::work() noexcept {
  const std::size_t mine = claimed_.fetch_add(1, std::memory_order_relaxed);
  if (mine >= stretches_.size()) return false;
  stretches_[mine].apply();
  return true;
}

template <class Keys>
void DpTree<Keys>::Merge::apply() {
  cut();
  if (stretches_.size() > 1) tree_.workers_.share(*this);
  while (work()) {
  }
  if (stretches_.size() > 1) tree_.workers_.end_sharing();
  Anchor& anchor = tree_.anchor_;
  const std::uint64_t first = stretches_.front().first();
  const unsigned which = dptree::current_of(anchor.set, base_.version);
  if (anchor.set[which].next.load(std::memory_order_relaxed) != first) {
    LeafSet& other = anchor.set[1 - which];
    other.next.store(first, std::memory_order_relaxed);
    other.stamp.store(target_, std::memory_order_relaxed);
    pm::flush(&other, sizeof other);
  }
  for (Stretch& stretch : stretches_) stretch.hand_over(*made_, old_leaves_, dropped_);
  made_->finish();
}

template <class Keys>
auto DpTree<Keys>::Merge::commit(State state) -> std::unique_ptr<BaseMap> {
  state.version = target_;
  PublishBatch batch(tree_.heap_);
  for (const Reservation& block : blocks_) batch.hold(block);
  batch.publish(&tree_.anchor_.state, state.word());  // A3
  return std::move(made_);
}

template <class Keys>
void DpTree<Keys>::Merge::retire_leaves() {
  for (const std::uint64_t offset : old_leaves_)
    tree_.epochs_.retire(tree_.heap_, offset, LeafView::bytes(tree_.leaf_entries_));
}

template void DpTree<IntegerKeys>::Merge::plan();
template void DpTree<ByteKeys>::Merge::plan();
template bool DpTree<IntegerKeys>::Merge::plan_joins(std::size_t);
template bool DpTree<ByteKeys>::Merge::plan_joins(std::size_t);
template void DpTree<IntegerKeys>::Merge::cancel();
template void DpTree<ByteKeys>::Merge::cancel();
template bool DpTree<IntegerKeys>::Merge::work() noexcept;
template bool DpTree<ByteKeys>::Merge::work() noexcept;
template void DpTree<IntegerKeys>::Merge::apply();
template void DpTree<ByteKeys>::Merge::apply();
template auto DpTree<IntegerKeys>::Merge::commit(State) -> std::unique_ptr<BaseMap>;
template auto DpTree<ByteKeys>::Merge::commit(State) -> std::unique_ptr<BaseMap>;
template void DpTree<IntegerKeys>::Merge::retire_leaves();
template void DpTree<ByteKeys>::Merge::retire_leaves();

}  // namespace perdure
