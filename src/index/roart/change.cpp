// The changing half of Roart: insert, update, remove of records. Structure: restructure.cpp.
#include "index/common/with_room.h"
#include "index/roart/roart.h"

namespace perdure {

template <class Keys>
auto Roart<Keys>::find_place(const Path& path) const -> Place {
  return state_.early() ? descend<true>(path) : descend<false>(path);
}

template <class Keys>
template <bool touching>
auto Roart<Keys>::descend(const Path& path) const -> Place {
  Place at{nullptr, root_, root_->find(roart::symbol_at(path, 0))};
  for (;;) {
    if (roart::OpeningLock::is_locked(at.node->lock.peek()))  // T5
      pm::persist(at.node, at.node->bytes());
    if constexpr (touching)
      if (!touch(*at.node, at.entry, path)) return {};
    if (at.entry.is_array()) return at;
    Node& below = *node_at(at.entry);
    at.fork = below.fork_from(path, at.node->level);
    at.forks = at.fork < below.level;
    if (at.forks) return at;
    at = {at.node, &below, below.find(roart::symbol_at(path, below.level))};
  }
}

// What is lost is room, too: before the walk has found it, the pool is not full.
template <class Keys>
Outcome Roart<Keys>::put(Key key, Value value, Put kind) {
  if (!RecordStore<Keys>::within_limits(key, value) || !pool_.ready()) return Outcome::invalid;
  for (;;) {
    const bool began_early = state_.early();
    if (began_early && !begin_early_change()) return Outcome::invalid;
    const Outcome outcome = with_room(epochs_, [&] { return change(key, value, kind); });
    if (outcome != Outcome::out_of_space || !began_early) return outcome;
    finish_walk();
  }
}

template <class Keys>
Outcome Roart<Keys>::change(Key key, Value value, Put kind) {
  const Path path(key);
  const Probe probe(key);
  const Epochs::Guard guard(epochs_);
  for (pm::Backoff backoff;; backoff.wait()) {
    const Place at = find_place(path);
    if (at.node == nullptr) return Outcome::invalid;
    if (at.forks) {
      if (kind == Put::update) return Outcome::not_found;
      if (!fork(at, path)) return Outcome::out_of_space;
      continue;
    }
    LeafArray& array = *array_at(at.entry);
    array.prefetch_slots(entries_);
    if (!array.lock.lock()) continue;
    const LeafArray::Found found = search(array, probe);
    const bool present = static_cast<bool>(found.slot);
    if (is_refused(kind, present)) {
      array.lock.unlock_unchanged();
      return refusal(present);
    }
    const unsigned free = present ? found.place : array.free_place(probe.fingerprint, entries_);
    if (free == LeafArray::no_slot) {
      array.lock.unlock_unchanged();
      if (!split(at, path)) return Outcome::out_of_space;
      continue;
    }
    const bool done =
        present ? replace(array, found, probe, value) : add(array, free, probe, value);
    const bool empty = !done && array.is_empty();
    array.lock.unlock();
    if (empty) reclaim(at, path);
    return done ? Outcome::ok : Outcome::out_of_space;
  }
}

// Power-cut states: the old value or the new one. False: out of space, nothing changed.
// Cost: integers 1 flushed line and 1 fence; byte strings 1 more fence and the blob's lines.
template <class Keys>
bool Roart<Keys>::replace(LeafArray& array, const LeafArray::Found& found, const Probe& probe,
                          Value value) {
  if constexpr (Keys::kind == KeyKind::integer) {
    pm::store_persist(records_.value_word(found.slot.offset()), value);
  } else {
    Reservation block;
    if (!records_.draft(probe.key, value, block)) return false;
    pm::fence();  // A2
    heap_.publish({&block, 1}, &array.word[found.place],
                  Slot(probe.fingerprint, block.offset).word());
    records_.retire(found.slot.offset());
  }
  return true;
}

// Power-cut states: without the record, or with it. False: out of space, nothing changed.
// Cost: 2 flushed lines and 2 fences; byte strings the blob's lines.
template <class Keys>
bool Roart<Keys>::add(LeafArray& array, unsigned free, const Probe& probe, Value value) {
  Reservation block;
  if (!records_.draft(probe.key, value, block)) return false;
  pm::fence();  // A2
  heap_.publish({&block, 1}, &array.word[free], Slot(probe.fingerprint, block.offset).word());
  return true;
}

template <class Keys>
Outcome Roart<Keys>::remove(Key key) {
  if (state_.early() && !begin_early_change()) return Outcome::invalid;
  return with_room(epochs_, [&] { return try_remove(key); });
}

// Power-cut states: with the record or without. Cost: 1 flushed line, 1 fence.
template <class Keys>
Outcome Roart<Keys>::try_remove(Key key) {
  const Path path(key);
  const Probe probe(key);
  const Epochs::Guard guard(epochs_);
  for (pm::Backoff backoff;; backoff.wait()) {
    const Place at = find_place(path);
    if (at.node == nullptr) return Outcome::invalid;
    if (at.forks) return Outcome::not_found;
    LeafArray& array = *array_at(at.entry);
    array.prefetch_slots(entries_);
    if (!array.lock.lock()) continue;
    const LeafArray::Found found = search(array, probe);
    if (!found.slot) {
      array.lock.unlock_unchanged();
      return Outcome::not_found;
    }
    pm::store_persist(array.word[found.place], 0);
    const bool empty = array.is_empty();
    array.lock.unlock();
    records_.retire(found.slot.offset());
    if (empty) reclaim(at, path);
    return Outcome::ok;
  }
}

template Outcome Roart<IntegerKeys>::put(Key, Value, Put);
template Outcome Roart<ByteKeys>::put(Key, Value, Put);
template Outcome Roart<IntegerKeys>::remove(Key);
template Outcome Roart<ByteKeys>::remove(Key);

}  // namespace perdure
