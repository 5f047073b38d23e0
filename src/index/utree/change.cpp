// The changing half of UTree: insert, update, remove. The list on media first, then the leaf.
#include <array>

#include "core/assert.h"
#include "index/common/with_room.h"
#include "index/utree/utree.h"

namespace perdure {

template <class Keys>
auto UTree<Keys>::lock_leaf(Key key) const -> Leaf& {
  for (pm::Backoff backoff;; backoff.wait()) {
    const Entered at = enter<Purpose::write>(key);
    if (at.leaf->lock.try_upgrade(at.word)) return *at.leaf;
  }
}

// False: a neighbour is being changed; the caller lets go and begins again (T5). The leaf before is
// the right one when it leads to `leaf` in the chain: then it is linked, and directly before.
template <class Keys>
bool UTree<Keys>::hold_predecessor(const Leaf& leaf, Key key, unsigned rank, Predecessor& out) {
  out = {head_, nullptr};
  if (rank > 0) {
    out.node = node_at(leaf.node(rank - 1));
  } else if (&leaf != first_) {
    auto* const previous = static_cast<Leaf*>(inner_.find_previous(key));
    if (previous == nullptr || !previous->lock.try_lock()) return false;
    if (previous->next.load(std::memory_order_relaxed) != &leaf) {
      previous->lock.unlock_unchanged();
      return false;
    }
    const unsigned count = previous->count();
    PERDURE_ASSERT(count > 0 || previous == first_);  // T3
    out = {count == 0 ? head_ : node_at(previous->node(count - 1)), previous};
  }
  pm::prefetch_for_write(out.node);
  return true;
}

template <class Keys>
Outcome UTree<Keys>::put(Key key, Value value, Put kind) {
  if (!RecordStore<Keys>::within_limits(key, value) || !pool_.ready()) return Outcome::invalid;
  return with_room(epochs_, [&] { return try_put(key, value, kind); });
}

template <class Keys>
Outcome UTree<Keys>::try_put(Key key, Value value, Put kind) {
  const Epochs::Guard guard(epochs_);
  for (pm::Backoff backoff;; backoff.wait()) {
    Leaf& leaf = lock_leaf(key);
    const LeafPosition position = search(leaf, key, [] { return true; });
    if (is_refused(kind, position.present)) {
      leaf.lock.unlock_unchanged();
      return refusal(position.present);
    }
    Predecessor before;
    if (!position.present && !hold_predecessor(leaf, key, position.rank, before)) {
      leaf.lock.unlock_unchanged();
      continue;
    }
    const bool done = position.present ? replace(*node_at(leaf.node(position.rank)), key, value)
                                       : add(leaf, position.rank, *before.node, key, value);
    release(before);
    if (done)
      leaf.lock.unlock();
    else
      leaf.lock.unlock_unchanged();
    return done ? Outcome::ok : Outcome::out_of_space;
  }
}

// Power-cut states: the old value or the new one. False: out of space, nothing changed.
// Cost: integers 1 flushed line and 1 fence; byte strings 1 more fence and the blob's lines.
template <class Keys>
bool UTree<Keys>::replace(ListNode& node, Key key, Value value) {
  std::atomic<std::uint64_t>& word = node.record.value;
  if constexpr (!RecordStore<Keys>::has_blobs) {
    pm::store_persist(word, value);
  } else {
    Draft draft;
    if (!records_.draft(key, value, draft)) return false;
    const RecordWords old = node.record.load();
    pm::fence();
    heap_.publish({&draft.block, 1}, &word, draft.words.value);
    records_.retire(old);
  }
  return true;
}

// Power-cut states: without the record, or with it. False: out of space, nothing changed.
// Cost: 2 flushed lines and 2 fences; byte strings the blob's lines besides.
template <class Keys>
bool UTree<Keys>::add(Leaf& leaf, unsigned rank, ListNode& before, Key key, Value value) {
  constexpr std::size_t parts = RecordStore<Keys>::has_blobs ? 2 : 1;
  std::array<Reservation, parts> block;
  block[0] = heap_.reserve(sizeof(ListNode));
  if (!block[0]) return false;
  Draft draft;
  if (!records_.draft(key, value, draft)) {
    heap_.cancel(block[0]);
    return false;
  }
  if constexpr (RecordStore<Keys>::has_blobs) block[1] = draft.block;
  const std::uint64_t offset = block[0].offset;
  node_at(offset)->fill(draft.words, before.next.load(std::memory_order_relaxed));
  pm::fence();  // L2
  heap_.publish(block, &before.next, offset);
  add_entry(leaf, rank, {draft.words.key, offset});
  return true;
}

// Splits a full leaf. The last leaf of all keeps its entries where the new one comes after them,
// so that ascending insertions fill leaves. The right half is complete before anything leads to it,
// and until this leaf is unlocked nobody can take it away, because that needs this lock (T4).
template <class Keys>
void UTree<Keys>::add_entry(Leaf& leaf, unsigned rank, utree::Entry entry) {
  const unsigned count = leaf.count();
  if (count < leaf_entries_) {
    leaf.insert_at(rank, entry);
    return;
  }
  Leaf* const next = leaf.next.load(std::memory_order_relaxed);
  const unsigned middle = next == nullptr && rank == count ? count : count / 2;
  Leaf& right = *new_leaf();
  leaf.split(middle, right);
  if (rank > middle || middle == count)
    right.insert_at(rank - middle, entry);
  else
    leaf.insert_at(rank, entry);
  right.next.store(next, std::memory_order_relaxed);
  leaf.next.store(&right, std::memory_order_release);
  inner_.insert(records_.key_of(words_of(right, 0)), &right);
}

template <class Keys>
Outcome UTree<Keys>::remove(Key key) {
  return with_room(epochs_, [&] { return try_remove(key); });
}

// Power-cut states: with the record or without. Cost: 1 flushed line, 1 fence.
template <class Keys>
Outcome UTree<Keys>::try_remove(Key key) {
  const Epochs::Guard guard(epochs_);
  for (pm::Backoff backoff;; backoff.wait()) {
    Leaf& leaf = lock_leaf(key);
    const LeafPosition position = search(leaf, key, [] { return true; });
    if (!position.present) {
      leaf.lock.unlock_unchanged();
      return Outcome::not_found;
    }
    Predecessor before;
    if (hold_predecessor(leaf, key, position.rank, before)) {
      drop(leaf, position.rank, before, key);
      return Outcome::ok;
    }
    leaf.lock.unlock_unchanged();
  }
}

// Takes the record at `rank` out, and the leaf if it was its last, and releases the locks. A leaf
// that empties is not the first (T3), and its last record is its lowest, so the leaf before is
// held.
template <class Keys>
void UTree<Keys>::drop(Leaf& leaf, unsigned rank, const Predecessor& before, Key key) {
  const std::uint64_t offset = leaf.node(rank);
  const ListNode& node = *node_at(offset);
  const RecordWords words = node.record.load();
  pm::store_persist(before.node->next, node.next.load(std::memory_order_relaxed));
  leaf.remove_at(rank);
  if (leaf.count() == 0 && before.leaf != nullptr) {
    inner_.remove(key, &leaf);
    before.leaf->next.store(leaf.next.load(std::memory_order_relaxed), std::memory_order_release);
    before.leaf->lock.unlock();
    leaf.lock.unlock_obsolete();
    epochs_.retire(reinterpret_cast<std::uint64_t>(&leaf), sizeof leaf, NodeArena::destroy,
                   &leaves_);
  } else {
    release(before);
    leaf.lock.unlock();
  }
  epochs_.retire(heap_, offset, sizeof node);
  records_.retire(words);
}

template Outcome UTree<IntegerKeys>::put(Key, Value, Put);
template Outcome UTree<ByteKeys>::put(Key, Value, Put);
template Outcome UTree<IntegerKeys>::remove(Key);
template Outcome UTree<ByteKeys>::remove(Key);

}  // namespace perdure
