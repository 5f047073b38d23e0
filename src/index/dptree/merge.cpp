#include "index/dptree/merge.h"

#include <algorithm>
#include <utility>

#include "index/common/publish_batch.h"

namespace perdure::dptree {

// A stretch ends before a leaf that stays, so that the last one in it knows its successor. One is
// what a thread does for the others before its own next operation.
template <class Keys>
void Merge<Keys>::cut_into_stretches() {
  constexpr std::size_t most_leaves = 64;
  constexpr std::size_t least_stretches = 16;
  const std::size_t leaves = plan_.leaves();
  const std::size_t size = workers_.is_alone()
                               ? leaves
                               : std::clamp<std::size_t>(leaves / least_stretches, 1, most_leaves);
  std::size_t begin = 0;
  std::size_t blocks = 0;
  for (std::size_t leaf = 0; leaf < leaves; ++leaf) {
    if (leaf - begin >= size && plan_.stays(leaf))
      stretches_.emplace_back(plan_, std::exchange(begin, leaf), leaf, blocks);
    blocks += plan_.of(leaf).pieces;
  }
  stretches_.emplace_back(plan_, begin, leaves, blocks);
}

template <class Keys>
bool Merge<Keys>::work() noexcept {
  const std::size_t mine = claimed_.fetch_add(1, std::memory_order_relaxed);
  if (mine >= stretches_.size()) return false;
  stretches_[mine].write();
  return true;
}

template <class Keys>
void Merge<Keys>::write() {
  cut_into_stretches();
  if (stretches_.size() > 1) workers_.share(*this);
  while (work()) {
  }
  if (stretches_.size() > 1) workers_.end_sharing();
  write_anchor_set(stretches_.front().first());
  for (const Stretch<Keys>& stretch : stretches_) {
    const auto& result = stretch.result();
    made_->records += result.records;
    for (auto at = result.leaves.rbegin(); at != result.leaves.rend(); ++at)
      made_->add(at->first, at->second);
    old_leaves_.insert(old_leaves_.end(), result.old_leaves.begin(), result.old_leaves.end());
    dropped_.insert(dropped_.end(), result.dropped.begin(), result.dropped.end());
  }
  made_->finish();
}

/// The anchor leads to the first leaf (A4).
template <class Keys>
void Merge<Keys>::write_anchor_set(std::uint64_t first) {
  Anchor& anchor = plan_.parts().anchor;
  const unsigned which = current_of(anchor.set, plan_.base().version);
  if (anchor.set[which].next.load(std::memory_order_relaxed) == first) return;
  LeafSet& other = anchor.set[1 - which];
  other.next.store(first, std::memory_order_relaxed);
  other.stamp.store(made_->version, std::memory_order_relaxed);
  pm::flush(&other, sizeof other);
}

template <class Keys>
auto Merge<Keys>::commit(State state) -> std::unique_ptr<BaseMap<Keys>> {
  state.version = made_->version;
  PublishBatch batch(plan_.parts().heap);
  for (const Reservation& block : plan_.blocks()) batch.hold(block);
  batch.publish(&plan_.parts().anchor.state, state.word());
  return std::move(made_);
}

template <class Keys>
void Merge<Keys>::retire_leaves() {
  Parts<Keys>& parts = plan_.parts();
  for (const std::uint64_t offset : old_leaves_)
    parts.epochs.retire(parts.heap, offset, parts.leaf_bytes());
}

template class Merge<IntegerKeys>;
template class Merge<ByteKeys>;

}  // namespace perdure::dptree
