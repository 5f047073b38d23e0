// PacTree's merges: a node with few records gives them to the one on its left.
#include "index/pactree/pactree.h"

namespace perdure {

// A node without records goes whatever its neighbour holds.
template <class Keys>
bool PacTree<Keys>::fit(const DataNode& left, const DataNode& right) const noexcept {
  const unsigned more = right.count();
  return more == 0 || left.count() + more <= entries_ / 2;
}

// Ends when the node that `key` belongs to has been merged, or has no neighbour to merge with.
template <class Keys>
void PacTree<Keys>::merge_around(Key key, std::uint64_t hash) {
  for (pm::Backoff backoff;; backoff.wait()) {
    DataNode& node = *lock_node(key, hash).node;
    const DataNode* const next = next_of(node);
    bool merged = is_sparse(node) && next != nullptr && fit(node, *next) && merge_next(node, next);
    const bool tries_left = !merged && is_sparse(node) && &node != first_;
    DataNode* const previous =
        tries_left ? node_at(node.prev.load(std::memory_order_acquire)) : nullptr;
    if (merged)
      node.lock.unlock();
    else
      node.lock.unlock_unchanged();
    if (merged) announce();
    if (!tries_left || !fit(*previous, node)) return;

    if (!previous->lock.lock()) continue;  // L10: from left to right
    const bool adjacent = next_of(*previous) == &node;
    merged = adjacent && merge_next(*previous, &node);
    if (merged)
      previous->lock.unlock();
    else
      previous->lock.unlock_unchanged();
    if (merged) announce();
    if (adjacent) return;
  }
}

/// Locks the node after `left`, and merges it into `left` if they fit. `left` stays locked.
template <class Keys>
bool PacTree<Keys>::merge_next(DataNode& left, const DataNode* expected) {
  DataNode* const right = next_of(left);
  if (right != expected || !right->lock.lock()) return false;
  if (fit(left, *right) && merge(left, *right)) return true;
  right->lock.unlock_unchanged();
  return false;
}

// Both are locked; `right` is obsolete afterwards. False: the log is full, nothing changed.
// Power-cut states: as before; the left node holds the records, too (L7); done. Cost: the lines of
// the records and 2 more flushed, 2 fences.
template <class Keys>
bool PacTree<Keys>::merge(DataNode& left, DataNode& right) {
  std::uint64_t commit = left.commit.load(std::memory_order_relaxed);
  for (std::uint64_t from = right.commit.load(std::memory_order_relaxed); from != 0;
       from &= from - 1) {
    const RecordWords words = right.record(static_cast<unsigned>(std::countr_zero(from))).load();
    const std::uint64_t hash = hash_of(records_.key_of(words));
    const unsigned slot = pactree::choose_slot(~commit & full(), hash, entries_);
    left.fill_slot(slot, words, hash);
    pm::flush(&left.record(slot), sizeof(LeafRecord));
    commit |= pactree::bit(slot);
  }
  const std::uint64_t ticket = take_entry(offset_of(&right) | pactree::SmoLog::merge_bit);
  if (ticket == pactree::SmoLog::none) return false;
  pm::fence();  // L2, G2
  DataNode* const next = next_of(right);
  left.commit.store(commit, std::memory_order_release);  // L7: before the next store
  left.next.store(right.next.load(std::memory_order_relaxed), std::memory_order_release);
  left.flush_header();
  left.high.store(right.high.load(std::memory_order_relaxed), std::memory_order_release);
  if (next != nullptr) next->prev.store(offset_of(&left), std::memory_order_release);
  pm::fence();
  right.lock.unlock_obsolete();
  log_.finish(ticket);
  return true;
}

template void PacTree<IntegerKeys>::merge_around(Key, std::uint64_t);
template void PacTree<ByteKeys>::merge_around(Key, std::uint64_t);

}  // namespace perdure
