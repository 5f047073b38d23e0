// The changing half of LineTree: insert, update, remove, displacement.
#include "index/common/with_room.h"
#include "index/linetree/linetree.h"

namespace perdure {

using linetree::LeafInfo;
using linetree::Move;
using linetree::no_slot;
using linetree::Room;

// The leaf is searched first: taking the lock waits for the flushes of the operation before, and
// so hides the leaf's misses. The result is still valid because the lock is acquired at the version
// that was searched.
template <class Keys>
[[gnu::always_inline]] inline auto LineTree<Keys>::lock_leaf(const Probe& probe) const -> Locked {
  for (pm::Backoff backoff;; backoff.wait()) {
    const Entered at = enter<Purpose::write>(probe.key, probe.place.home);
    pm::ReadAttempt stable(*at.lock, at.word);
    const unsigned slot = search(*at.leaf, probe, stable);
    if (was_stable(stable) && at.lock->try_upgrade(at.word)) return {at.leaf, at.lock, slot};
  }
}

template <class Keys>
void LineTree<Keys>::retire(std::uint64_t word) {
  if constexpr (Store::has_blobs) records_.retire(Kind::record({0, word}));
}

template <class Keys>
Outcome LineTree<Keys>::put(Key key, Value value, Put kind) {
  if (!Store::within_limits(key, value) || !pool_.ready()) return Outcome::invalid;
  return with_room(epochs_, [&] { return try_put(key, value, kind); });
}

// A full leaf is split by itself; the insertion then begins again.
template <class Keys>
Outcome LineTree<Keys>::try_put(Key key, Value value, Put kind) {
  const Probe probe(shape_, key);
  const Epochs::Guard guard(epochs_);
  for (;;) {
    const Locked at = lock_leaf(probe);
    const bool present = at.slot != no_slot;
    if (is_refused(kind, present)) {
      at.lock->unlock_unchanged();
      return refusal(present);
    }
    LeafRecord& slot = at.leaf->slot(at.slot);
    const std::uint64_t replaced = Store::has_blobs && present ? at.leaf->value_word(at.slot) : 0;
    const Change change = present ? replace(slot, probe, value) : add(*at.leaf, probe, value);
    const bool has_split = change == Change::leaf_full && split(*at.leaf, key);
    at.lock->unlock(change == Change::made || has_split);
    if (change == Change::made) {
      if (present) retire(replaced);
      return Outcome::ok;
    }
    if (!has_split) return Outcome::out_of_space;
  }
}

// Power-cut states: the old value or the new one. Cost: 1 flushed line, 1 fence; with a blob its
// lines and 1 fence more.
template <class Keys>
[[gnu::always_inline]] inline auto LineTree<Keys>::replace(LeafRecord& slot,
                                                           [[maybe_unused]] const Probe& probe,
                                                           Value value) -> Change {
  if constexpr (Store::has_blobs) {
    typename Store::Draft draft;
    if (!records_.draft(probe.key, value, draft)) return Change::out_of_space;
    pm::fence();
    heap_.publish({&draft.block, 1}, &slot.value, Kind::slot(draft.words, probe).value);
  } else {
    pm::store_persist(slot.value, value);
  }
  return Change::made;
}

// Adds an absent key. The commit word is stored last, in the same line, so the other word persists
// no later (Px86); until then the slot is not live.
// Power-cut states: without the record, or with it. Cost: 1 flushed line, 1 fence; with a blob its
// lines and 1 fence more; with each displacement, two at most, 1 line and 1 fence more.
template <class Keys>
[[gnu::always_inline]] inline auto LineTree<Keys>::add(Leaf& leaf, const Probe& probe, Value value)
    -> Change {
  LeafInfo& info = info_of(&leaf);
  const Room room = linetree::find_room(
      shape_, probe.place, Kind::live(probe.word(), info.highest()), Kind::words_of(leaf));
  if (room.slot == no_slot) return Change::leaf_full;
  typename Store::Draft draft;
  if (!records_.draft(probe.key, value, draft)) return Change::out_of_space;
  for (const Move& move : room.before()) displace(leaf, move);
  LeafRecord& slot = leaf.slot(room.slot);
  const RecordWords words = Kind::slot(draft.words, probe);
  if constexpr (Store::has_blobs) {
    // The heap may make the commit word durable by a log of its own, which does not order the rest
    // of the line before it.
    Kind::store_rest(slot, words);
    pm::flush(&slot, sizeof slot);
    pm::fence();
    heap_.publish({&draft.block, 1}, &Kind::commit_of(slot), Kind::commit_word(words));
  } else {
    linetree::store_words<Keys>(slot, words);
    pm::persist(&slot, sizeof slot);
  }
  if (linetree::line_of(room.slot) != probe.place.home) info.note_overflow(probe.place.home);
  info.add(1);
  return Change::made;
}

// Moves a record to its other line and empties its slot, which is not flushed: the caller stores a
// record there, and flushes that line. If the slot were not empty in between, the old commit word
// could persist with the other word of the new record.
// Power-cut states: the record once, or twice with the same words, which recovery mends (L4). Of
// two displacements the second makes the end of the first durable, so at most one record is there
// twice. Cost: 1 flushed line, 1 fence.
template <class Keys>
void LineTree<Keys>::displace(Leaf& leaf, Move move) {
  const RecordWords words = leaf.slot(move.from).load();
  const std::uint64_t commit = Kind::commit_word(words);
  LeafRecord& to = leaf.slot(move.to);
  linetree::store_words<Keys>(to, words);
  pm::persist(&to, sizeof to);
  const unsigned home = shape_.place(Kind::Live::place_word(commit)).home;
  if (linetree::line_of(move.to) != home) info_of(&leaf).note_overflow(home);
  Kind::commit_of(leaf.slot(move.from))
      .store(Kind::commit_word(Kind::empty(commit)), std::memory_order_release);
}

template <class Keys>
Outcome LineTree<Keys>::remove(Key key) {
  return with_room(epochs_, [&] { return try_remove(key); });
}

// Power-cut states: with the record, or without. Cost: 1 flushed line, 1 fence; a merge costs more.
template <class Keys>
Outcome LineTree<Keys>::try_remove(Key key) {
  const Probe probe(shape_, key);
  const Epochs::Guard guard(epochs_);
  const Locked at = lock_leaf(probe);
  if (at.slot == no_slot) {
    at.lock->unlock_unchanged();
    return Outcome::not_found;
  }
  LeafRecord& slot = at.leaf->slot(at.slot);
  const std::uint64_t removed = Store::has_blobs ? at.leaf->value_word(at.slot) : 0;
  pm::store_persist(Kind::commit_of(slot), Kind::commit_word(Kind::empty(probe.word())));
  info_of(at.leaf).add(-1);
  const bool sparse = is_sparse(*at.leaf);
  at.lock->unlock();
  retire(removed);
  if (sparse) merge_around(key);
  return Outcome::ok;
}

template Outcome LineTree<IntegerKeys>::put(Key, Value, Put);
template Outcome LineTree<SlotKeys>::put(Key, Value, Put);
template Outcome LineTree<ByteKeys>::put(Key, Value, Put);
template Outcome LineTree<IntegerKeys>::remove(Key);
template Outcome LineTree<SlotKeys>::remove(Key);
template Outcome LineTree<ByteKeys>::remove(Key);

}  // namespace perdure
