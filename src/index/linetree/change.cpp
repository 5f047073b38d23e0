// The changing half of LineTree: insert, update, remove, displacement, split.
#include <algorithm>
#include <array>

#include "index/common/with_room.h"
#include "index/linetree/linetree.h"

namespace perdure {

using linetree::Interval;
using linetree::LeafImage;
using linetree::LeafInfo;
using linetree::no_slot;
using linetree::Room;

// The leaf is searched first: taking the lock waits for the flushes of the operation before, and
// so hides the leaf's misses. The result is still valid because the lock is acquired at the version
// that was searched.
[[gnu::always_inline]] inline auto LineTree::lock_leaf(std::uint64_t key, Place place) const
    -> Locked {
  for (pm::Backoff backoff;; backoff.wait()) {
    const Entered at = enter<Purpose::write>(key, place.home);
    const unsigned slot = search(*at.leaf, key, place);
    if (at.lock->try_upgrade(at.word)) return {at.leaf, at.lock, slot};
  }
}

Outcome LineTree::put(std::uint64_t key, std::uint64_t value, Put kind) {
  if (!pool_.ready()) return Outcome::invalid;
  return with_room(epochs_, [&] { return try_put(key, value, kind); });
}

// Power-cut states of an update: the old value or the new one. Cost: 1 flushed line, 1 fence.
// A full leaf is split by itself; the insertion then begins again.
Outcome LineTree::try_put(std::uint64_t key, std::uint64_t value, Put kind) {
  const Place place = shape_.place(key);
  const Epochs::Guard guard(epochs_);
  for (;;) {
    const Locked at = lock_leaf(key, place);
    const bool present = at.slot != no_slot;
    if (is_refused(kind, present)) {
      at.lock->unlock_unchanged();
      return refusal(present);
    }
    if (present) pm::store_persist(at.leaf->slot(at.slot).value, value);
    const bool done = present || add(*at.leaf, key, value, place);
    const bool has_split = !done && split(*at.leaf);
    at.lock->unlock(done || has_split);
    if (done) return Outcome::ok;
    if (!has_split) return Outcome::out_of_space;
  }
}

// Adds an absent key. The value is stored before the key, in the same line, so it persists no later
// (Px86); until the key is there, the slot's old key lies outside of the leaf's interval.
// Power-cut states: without the record, or with it. Cost: 1 flushed line, 1 fence; twice that with
// a displacement. False: no room, nothing changed.
bool LineTree::add(Leaf& leaf, std::uint64_t key, std::uint64_t value, Place place) {
  LeafInfo& info = info_of(&leaf);
  const Interval interval{linetree::half_of(key), info.highest()};
  const Room room = linetree::find_room(shape_, place, interval, leaf.keys());
  if (room.slot == no_slot) return false;
  if (room.displaced_to != no_slot) displace(leaf, room);
  LeafRecord& slot = leaf.slot(room.slot);
  slot.value.store(value, std::memory_order_release);
  slot.key.store(key, std::memory_order_release);
  pm::persist(&slot, sizeof slot);
  if (linetree::line_of(room.slot) != place.home) info.note_overflow(place.home);
  info.add(1);
  return true;
}

// Moves the record in `room.slot` to its other line and empties the slot, which is not flushed: the
// caller stores a record there, and flushes that line. Without the empty key in between, the old
// key could persist with the new value.
// Power-cut states: the record once, or twice with one value, which recovery mends (L4). Cost: 1
// flushed line, 1 fence.
void LineTree::displace(Leaf& leaf, Room room) {
  const RecordWords record = leaf.slot(room.slot).load();
  LeafRecord& to = leaf.slot(room.displaced_to);
  to.value.store(record.value, std::memory_order_release);
  to.key.store(record.key, std::memory_order_release);
  pm::persist(&to, sizeof to);
  const unsigned home = shape_.place(record.key).home;
  if (linetree::line_of(room.displaced_to) != home) info_of(&leaf).note_overflow(home);
  leaf.slot(room.slot).key.store(linetree::empty_key(record.key), std::memory_order_release);
}

// The upper half of the records is copied to a new leaf, durably; then one store of `next` shortens
// the interval of this one, and with it drops all of them here, where they stay as stale slots
// (L3). Power-cut states: the whole leaf, or both halves. False: out of space, nothing changed.
// Cost: the lines of the new leaf, streamed, 1 flushed line, 2 fences.
bool LineTree::split(Leaf& leaf) {
  Reservation block = heap_.reserve(shape_.bytes());
  if (!block) return false;
  LeafInfo& info = info_of(&leaf);
  const std::uint64_t last = info.highest();
  const Interval interval{leaf.lowest(), last};
  std::array<std::uint64_t, linetree::most_slots> keys{};
  unsigned count = 0;
  for (unsigned i = 1; i < shape_.slots(); ++i) {
    const std::uint64_t key = leaf.slot(i).key.load(std::memory_order_acquire);
    keys[count] = key;
    count += interval.holds(key);
  }
  PERDURE_ASSERT(count >= 2);
  const auto middle = keys.begin() + count / 2;
  std::nth_element(keys.begin(), middle, keys.begin() + count);
  const std::uint64_t below_it = *std::max_element(keys.begin(), middle);
  const std::uint64_t separator = roundest_between(below_it, *middle);
  const Interval below{interval.least, separator - 1};
  const Interval above{separator, last};

  // Each record keeps its slot, so that every one finds room; then those beside their home line go
  // there where they can.
  LeafImage image(shape_, separator);
  image.set_next(leaf.successor());
  for (unsigned i = 1; i < shape_.slots(); ++i)
    if (const RecordWords record = leaf.slot(i).load(); above.holds(record.key))
      image.words[i] = record;
  for (unsigned i = 1; i < shape_.slots(); ++i) {
    const std::uint64_t key = image.words[i].key;
    if (!above.holds(key)) continue;
    const unsigned home = shape_.place(key).home;
    if (home == linetree::line_of(i)) continue;
    const unsigned free = linetree::free_slot(home, above, image.keys());
    if (free != no_slot)
      image.words[free] = std::exchange(image.words[i], {linetree::empty_key(key), 0});
  }

  Leaf* const right = leaf_at(block.offset);
  LeafInfo& right_info = table_.add(block.offset);
  right_info.set(last, summarize(shape_, above, image.keys()));
  image.stream_to(shape_, *right);
  pm::fence();
  heap_.publish({&block, 1}, &leaf.next, block.offset);
  info.set(separator - 1, summarize(shape_, below, leaf.keys()));
  inner_.insert(separator, right);
  return true;
}

Outcome LineTree::remove(std::uint64_t key) {
  return with_room(epochs_, [&] { return try_remove(key); });
}

// Power-cut states: with the record, or without. Cost: 1 flushed line, 1 fence; a merge costs more.
Outcome LineTree::try_remove(std::uint64_t key) {
  const Place place = shape_.place(key);
  const Epochs::Guard guard(epochs_);
  const Locked at = lock_leaf(key, place);
  if (at.slot == no_slot) {
    at.lock->unlock_unchanged();
    return Outcome::not_found;
  }
  pm::store_persist(at.leaf->slot(at.slot).key, linetree::empty_key(key));
  info_of(at.leaf).add(-1);
  const bool sparse = is_sparse(*at.leaf);
  at.lock->unlock();
  if (sparse) merge_around(key);
  return Outcome::ok;
}

}  // namespace perdure
