// The changing half of PacTree: insert, update, remove, split.
#include <algorithm>
#include <array>

#include "core/assert.h"
#include "index/common/with_room.h"
#include "index/leaf/leaf_order.h"
#include "index/leaf/separator.h"
#include "index/pactree/pactree.h"

namespace perdure {

template <class Keys>
Outcome PacTree<Keys>::put(Key key, Value value, Put kind) {
  if (!RecordStore<Keys>::within_limits(key, value) || !pool_.ready()) return Outcome::invalid;
  return with_room(
      epochs_, [&] { return try_put(key, value, kind); }, [this] { replay_now(); });
}

template <class Keys>
Outcome PacTree<Keys>::try_put(Key key, Value value, Put kind) {
  const std::uint64_t hash = hash_of(key);
  const Epochs::Guard guard(epochs_);
  const Locked at = lock_node(key, hash);
  DataNode& node = *at.node;
  const bool present = at.slot != pactree::no_slot;
  if (is_refused(kind, present)) {
    node.lock.unlock_unchanged();
    return refusal(present);
  }
  if (!present) return add_record(node, key, value, hash);
  if (!replace(node, at.slot, key, value)) {
    node.lock.unlock_unchanged();
    return Outcome::out_of_space;
  }
  node.lock.unlock();
  records_.retire(at.found);
  return Outcome::ok;
}

// Power-cut states: the old value or the new one. False: out of space, nothing changed.
// Cost: integers 1 flushed line and 1 fence; byte strings 1 more fence and the blob's lines.
template <class Keys>
bool PacTree<Keys>::replace(DataNode& node, unsigned slot, Key key, Value value) {
  Draft draft;
  if (!records_.draft(key, value, draft)) return false;
  if constexpr (RecordStore<Keys>::has_blobs) pm::fence();  // L2
  records_.publish(draft);
  pm::store_persist(node.record(slot).value, draft.words.value);
  return true;
}

/// Adds an absent key, and releases the node.
template <class Keys>
Outcome PacTree<Keys>::add_record(DataNode& node, Key key, Value value, std::uint64_t hash) {
  Draft draft;
  if (!records_.draft(key, value, draft)) {
    node.lock.unlock_unchanged();
    return Outcome::out_of_space;
  }
  if (node.commit.load(std::memory_order_relaxed) != full()) {
    add(node, draft, hash);
    node.lock.unlock();
    return Outcome::ok;
  }
  DataNode* const target = split(node, key);
  if (target == nullptr) {
    records_.cancel(draft);
    node.lock.unlock_unchanged();
    return Outcome::out_of_space;
  }
  add(*target, draft, hash);
  target->lock.unlock();
  announce();
  return Outcome::ok;
}

// Power-cut states: without the record, or with it. Cost: 2 flushed lines and the blob's, 2 fences.
template <class Keys>
void PacTree<Keys>::add(DataNode& node, Draft& draft, std::uint64_t hash) {
  const std::uint64_t commit = node.commit.load(std::memory_order_relaxed);
  const unsigned slot = pactree::choose_slot(~commit & full(), hash, entries_);
  node.fill_slot(slot, draft.words, hash);
  pm::flush(&node.record(slot), sizeof(LeafRecord));
  pm::fence();  // L2
  records_.publish(draft);
  pm::store_persist(node.commit, commit | pactree::bit(slot));
}

template <class Keys>
struct PacTree<Keys>::Division {
  LeafCopy copy;
  unsigned middle;  ///< the first, in order, that goes right
  Key anchor;       ///< of the right node
};

// The last node keeps all it has where the new key comes after it, so that ascending insertions
// leave full nodes.
template <class Keys>
void PacTree<Keys>::divide(const DataNode& node, Key key, Division& out) const {
  LeafCopy& copy = out.copy;
  copy.count = entries_;
  for (unsigned slot = 0; slot < entries_; ++slot) copy.words[slot] = node.record(slot).load();
  sort_by_key(copy, records_);
  const auto key_at = [&](unsigned rank) { return records_.key_of(copy.words[copy.order[rank]]); };
  const bool appends = next_of(node) == nullptr && key_at(entries_ - 1) < key;
  out.middle = appends ? entries_ : entries_ / 2;
  out.anchor = separator_between(key_at(out.middle - 1), appends ? key : key_at(out.middle));
}

template <class Keys>
void PacTree<Keys>::fill_right(const Division& division, DataNode& right) const {
  std::uint64_t filled = 0;
  for (unsigned rank = division.middle; rank < entries_; ++rank) {
    const RecordWords words = division.copy.words[division.copy.order[rank]];
    const std::uint64_t hash = hash_of(records_.key_of(words));
    const unsigned slot = pactree::choose_slot(~filled & full(), hash, entries_);
    right.fill_slot(slot, words, hash);
    filled |= pactree::bit(slot);
  }
  right.commit.store(filled, std::memory_order_relaxed);
}

// Links a new node after a full one and gives it the upper half. Both are locked then; returns the
// one that `key` belongs to and releases the other. Null: out of space, nothing changed. Power-cut
// states: as before; linked, with the records that went still in the left node (L7); done. Cost:
// the new node's lines, its anchor's and 2 more flushed, 2 fences.
template <class Keys>
auto PacTree<Keys>::split(DataNode& node, Key key) -> DataNode* {
  Division division;
  divide(node, key, division);
  Draft anchor;
  if (!records_.draft(division.anchor, Value{}, anchor)) return nullptr;
  Reservation block = heap_.reserve(bytes_of_node());
  if (!block) {
    records_.cancel(anchor);
    return nullptr;
  }
  DataNode& right = *node_at(block.offset);
  right.format(entries_, anchor.words);
  orders_.forget(block.offset);
  fill_right(division, right);
  DataNode* const next = next_of(node);
  right.next.store(node.next.load(std::memory_order_relaxed), std::memory_order_relaxed);
  right.prev.store(offset_of(&node), std::memory_order_relaxed);
  right.high.store(node.high.load(std::memory_order_relaxed), std::memory_order_relaxed);
  const bool locked = right.lock.try_lock();
  PERDURE_ASSERT(locked);
  pm::flush(&right, bytes_of_node());
  const std::uint64_t ticket = take_entry(block.offset);
  if (ticket == pactree::SmoLog::none) {
    records_.cancel(anchor);
    heap_.cancel(block);
    return nullptr;
  }
  pm::fence();  // L2, G2
  records_.publish(anchor);
  heap_.publish({&block, 1});

  std::uint64_t kept = full();
  for (unsigned rank = division.middle; rank < entries_; ++rank)
    kept &= ~pactree::bit(division.copy.order[rank]);
  node.next.store(block.offset, std::memory_order_release);  // L7: before the next store
  node.commit.store(kept, std::memory_order_release);
  node.flush_header();
  node.high.store(anchor.words.key, std::memory_order_release);
  if (next != nullptr) next->prev.store(block.offset, std::memory_order_release);
  pm::fence();
  log_.finish(ticket);
  const bool goes_right = !(key < division.anchor);
  (goes_right ? node : right).lock.unlock();
  return goes_right ? &right : &node;
}

template <class Keys>
Outcome PacTree<Keys>::remove(Key key) {
  return with_room(epochs_, [&] { return try_remove(key); });
}

// Power-cut states: with the record or without. Cost: 1 flushed line, 1 fence.
template <class Keys>
Outcome PacTree<Keys>::try_remove(Key key) {
  const std::uint64_t hash = hash_of(key);
  const Epochs::Guard guard(epochs_);
  const Locked at = lock_node(key, hash);
  DataNode& node = *at.node;
  if (at.slot == pactree::no_slot) {
    node.lock.unlock_unchanged();
    return Outcome::not_found;
  }
  const std::uint64_t commit = node.commit.load(std::memory_order_relaxed);
  pm::store_persist(node.commit, commit & ~pactree::bit(at.slot));
  const bool sparse = is_sparse(node);
  node.lock.unlock();
  records_.retire(at.found);
  if (sparse && pool_.ready()) merge_around(key, hash);
  return Outcome::ok;
}

template Outcome PacTree<IntegerKeys>::put(Key, Value, Put);
template Outcome PacTree<ByteKeys>::put(Key, Value, Put);
template Outcome PacTree<IntegerKeys>::remove(Key);
template Outcome PacTree<ByteKeys>::remove(Key);

}  // namespace perdure
