// The changing half of LbTree: insert, update, remove, split, unlink.
#include <algorithm>
#include <array>

#include "index/common/with_room.h"
#include "index/lbtree/lbtree.h"

namespace perdure {

// Without a transaction the leaf is searched first: taking the lock waits for the flushes of the
// operation before, and so hides the leaf's misses. The result is still valid because the lock is
// acquired at the version that was searched.
template <class Keys>
[[gnu::always_inline]] inline auto LbTree<Keys>::lock_leaf(Key key, std::uint8_t fingerprint) const
    -> Locked {
  Locked at;
  const auto elided = [&] {
    at.leaf = static_cast<Leaf*>(inner_.find_in_transaction(key));
    at.lock = &lock_of(at.leaf);
    at.lock->lock_in_transaction();
  };
  if (elision_.run(elision_attempts, elided)) {
    at.leaf->prefetch_for_write();
    at.slot = search(
        *at.leaf, key, fingerprint, [] { return true; }, at.found);
    return at;
  }
  for (pm::Backoff backoff;; backoff.wait()) {
    const Entered entered = enter<Purpose::write>(key);
    at.leaf = entered.leaf;
    at.lock = entered.lock;
    pm::ReadAttempt stable(*at.lock, entered.word);
    at.slot = search(*at.leaf, key, fingerprint, stable, at.found);
    if (stable() && at.lock->try_upgrade(entered.word)) return at;
  }
}

// Everything that `word` leads to was flushed. Durable when this returns (T4, T5).
template <class Keys>
void LbTree<Keys>::commit(std::span<Reservation> blocks, std::atomic<std::uint64_t>& word,
                          std::uint64_t value) {
  if (blocks.empty()) {
    pm::store_persist(word, value);
    return;
  }
  pm::fence();
  heap_.publish(blocks, &word, value);
}

template <class Keys>
Outcome LbTree<Keys>::put(Key key, Value value, Put kind) {
  if (!RecordStore<Keys>::within_limits(key, value) || !pool_.ready()) return Outcome::invalid;
  return with_room(epochs_, [&] { return try_put(key, value, kind); });
}

template <class Keys>
Outcome LbTree<Keys>::try_put(Key key, Value value, Put kind) {
  const std::uint8_t fingerprint = fingerprint_of(key);
  const Epochs::Guard guard(epochs_);
  const Locked at = lock_leaf(key, fingerprint);
  const bool present = at.slot != no_slot;
  if (is_refused(kind, present)) {
    at.lock->unlock_unchanged();
    return refusal(present);
  }
  const bool done = present ? replace(*at.leaf, static_cast<unsigned>(at.slot), key, value)
                            : add(*at.leaf, key, value, fingerprint);
  if (!done) {
    at.lock->unlock_unchanged();
    return Outcome::out_of_space;
  }
  at.lock->unlock();
  if (present) records_.retire(at.found);
  return Outcome::ok;
}

// Power-cut states: the old value or the new one. False: out of space, nothing changed.
// Cost: integers 1 flushed line and 1 fence; byte strings 1 more fence and the blob's lines.
template <class Keys>
bool LbTree<Keys>::replace(Leaf& leaf, unsigned slot, Key key, Value value) {
  Draft draft;
  if (!records_.draft(key, value, draft)) return false;
  commit(blocks_of(draft), leaf.record[slot].value, draft.words.value);
  return true;
}

// False: out of space, nothing changed.
template <class Keys>
bool LbTree<Keys>::add(Leaf& leaf, Key key, Value value, std::uint8_t fingerprint) {
  Draft draft;
  if (!records_.draft(key, value, draft)) return false;
  if (leaf.read_header().free() != 0) {
    add_with_room(leaf, draft, fingerprint);
    return true;
  }
  if (add_and_split(leaf, draft, fingerprint)) return true;
  records_.cancel(draft);
  return false;
}

// Power-cut states: without the record, or with it; entries that move are in the leaf once in
// either. Cost, integers: record beside the header 1 flushed line and 1 fence, elsewhere 2 and 2.
template <class Keys>
void LbTree<Keys>::add_with_room(Leaf& leaf, Draft& draft, std::uint8_t fingerprint) {
  const Header now = leaf.read_header();
  const lbtree::Placement placement = Leaf::place(now.free());
  const Header next = leaf.fill(now, placement, draft.words, fingerprint);
  leaf.store_fingerprints(now, next);
  if constexpr (RecordStore<Keys>::has_blobs) {
    // The heap may make word 0 durable by a log of its own, which does not order the line after
    // it.
    pm::flush(leaf.header.data(), pm::cache_line_bytes);
  } else if (placement.slot >= Leaf::line_0_slots) {
    pm::fence();
  }
  commit(blocks_of(draft), leaf.header[0], next.word_0);
}

// Logless split. The new leaf takes the upper half, and the new record where it belongs there; the
// unused sibling leads to it; then one store of word 0 makes that sibling the successor and drops
// what moved. Power-cut states: the full leaf, or both halves (with the record, if it went right;
// the left one gets it in a step of its own). False: out of space, nothing changed. Cost, integers:
// 6 flushed lines and 2 fences, and what the left half's insertion costs.
template <class Keys>
bool LbTree<Keys>::add_and_split(Leaf& leaf, Draft& draft, std::uint8_t fingerprint) {
  Reservation block = heap_.reserve(sizeof(Leaf));
  if (!block) return false;
  Leaf& right = *leaf_at(block.offset);
  right.prefetch_for_write();

  const Header now = leaf.read_header();
  std::array<RecordWords, Leaf::entries> words;
  std::array<std::uint8_t, Leaf::entries> order;
  for (unsigned i = 0; i < Leaf::entries; ++i) {
    words[i] = leaf.record[i].load();
    order[i] = static_cast<std::uint8_t>(i);
  }
  constexpr unsigned middle = Leaf::entries / 2;
  std::ranges::sort(order,
                    [&](unsigned a, unsigned b) { return records_.less(words[a], words[b]); });
  const RecordWords lowest = words[order[middle]];
  const bool goes_right = !records_.less(draft.words, lowest);

  // Filled from the back, so that the next insertions find room beside the header.
  right.format(leaf.next(now));
  Header above;
  Header next = now;
  unsigned slot = Leaf::entries;
  for (unsigned i = middle; i < Leaf::entries; ++i) {
    right.record[--slot].store(words[order[i]]);
    above.add(slot, now.fingerprint(order[i]));
    next.drop(1U << order[i]);
  }
  if (goes_right) {
    right.record[--slot].store(draft.words);
    above.add(slot, fingerprint);
  }
  right.header[0].store(above.word_0, std::memory_order_release);
  right.header[1].store(above.word_1, std::memory_order_release);
  pm::flush(&right, sizeof right);

  next.flip();
  std::atomic<std::uint64_t>& unused = leaf.sibling[next.alternate()];
  unused.store(block.offset, std::memory_order_release);
  pm::flush(&unused, sizeof unused);
  publish_split(block, goes_right ? blocks_of(draft) : std::span<Reservation>{}, leaf.header[0],
                next.word_0);
  inner_.insert(records_.key_of(lowest), &right);
  if (!goes_right) add_with_room(leaf, draft, fingerprint);
  return true;
}

// The new leaf, and the blob of the record that went there.
template <class Keys>
void LbTree<Keys>::publish_split(const Reservation& leaf, std::span<Reservation> blob,
                                 std::atomic<std::uint64_t>& word, std::uint64_t value) {
  std::array<Reservation, 2> blocks;
  std::size_t count = 0;
  if (publishes_) blocks[count++] = leaf;
  if (!blob.empty()) blocks[count++] = blob.front();
  if (count == 0) pm::fence();
  commit(std::span(blocks).first(count), word, value);
}

template <class Keys>
Outcome LbTree<Keys>::remove(Key key) {
  return with_room(epochs_, [&] { return try_remove(key); });
}

// Power-cut states: with the record or without. Cost: 1 flushed line, 1 fence.
template <class Keys>
Outcome LbTree<Keys>::try_remove(Key key) {
  const std::uint8_t fingerprint = fingerprint_of(key);
  const Epochs::Guard guard(epochs_);
  const Locked at = lock_leaf(key, fingerprint);
  if (at.slot == no_slot) {
    at.lock->unlock_unchanged();
    return Outcome::not_found;
  }
  Header next = at.leaf->read_header();
  next.drop(1U << at.slot);
  pm::store_persist(at.leaf->header[0], next.word_0);
  at.lock->unlock();
  records_.retire(at.found);
  if (next.live() == 0 && at.leaf != first_) unlink_empty(key);
  return Outcome::ok;
}

// Ends when the leaf that covers `key` is not empty, or cannot go, or is gone. Everything is
// released between two attempts (S2), so two unlinkers never wait for each other.
template <class Keys>
void LbTree<Keys>::unlink_empty(Key key) {
  for (pm::Backoff backoff;; backoff.wait()) {
    const Entered at = enter<Purpose::write>(key);
    const bool empty = at.leaf->read_header().live() == 0;
    if (!at.lock->validate(at.word)) continue;
    if (!empty || at.leaf == first_) return;
    if (!at.lock->try_upgrade(at.word)) continue;
    const bool unlinked = try_unlink(key, *at.leaf);
    if (unlinked)
      at.lock->unlock();
    else
      at.lock->unlock_unchanged();
    if (!unlinked) continue;
    if (publishes_) epochs_.retire(heap_, offset_of(at.leaf), sizeof(Leaf));
    return;
  }
}

// `leaf` covers `key`, is empty, and its stripe is held. Power-cut states: linked and empty
// (recovery drops it), or unlinked. Cost: 1 flushed line, 1 fence.
template <class Keys>
bool LbTree<Keys>::try_unlink(Key key, Leaf& leaf) {
  auto* const previous = static_cast<Leaf*>(inner_.find_previous(key));
  if (previous == nullptr) return false;  // a neighbour is being linked or unlinked
  pm::VersionLock& lock = lock_of(previous);
  const bool same_stripe = &lock == &lock_of(&leaf);
  if (!same_stripe && !lock.try_lock()) return false;

  // An unlinked predecessor leads nowhere: see the end. One that was split leads to its new half.
  std::atomic<std::uint64_t>& link = previous->sibling[previous->read_header().alternate()];
  const bool linked = link.load(std::memory_order_acquire) == offset_of(&leaf);
  if (linked) {
    const Header header = leaf.read_header();
    pm::store_persist(link, leaf.next(header));
    inner_.remove(key, &leaf);
    leaf.sibling[header.alternate()].store(null_offset, std::memory_order_release);
  }
  if (!same_stripe) {
    if (linked)
      lock.unlock();
    else
      lock.unlock_unchanged();
  }
  return linked;
}

template Outcome LbTree<IntegerKeys>::put(Key, Value, Put);
template Outcome LbTree<ByteKeys>::put(Key, Value, Put);
template Outcome LbTree<IntegerKeys>::remove(Key);
template Outcome LbTree<ByteKeys>::remove(Key);

}  // namespace perdure
