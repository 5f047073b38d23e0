// Batches of changes of LineTree: their misses overlap, and of integers they share fences.
#include <algorithm>
#include <array>
#include <bitset>

#include "index/common/lookup_groups.h"
#include "index/linetree/linetree.h"

namespace perdure {

using linetree::no_slot;
using linetree::Room;

/// The stripes that a group of changes holds until all of them are durable. While it holds one it
/// waits for none (S2): what cannot be done at once is done later, by itself.
template <class Keys>
class LineTree<Keys>::Group {
 public:
  Group() = default;
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  ~Group() { finish(); }

  [[nodiscard]] bool holds(const pm::VersionLock* lock) const noexcept {
    return std::find(locks_.begin(), locks_.begin() + count_, lock) != locks_.begin() + count_;
  }
  void add(pm::VersionLock* lock) noexcept { locks_[count_++] = lock; }
  /// Makes the changes durable, then visible.
  void finish() noexcept {
    if (count_ == 0) return;
    pm::fence();
    for (unsigned i = 0; i < count_; ++i) locks_[i]->unlock();
    count_ = 0;
  }

 private:
  std::array<pm::VersionLock*, batch_group> locks_;
  unsigned count_ = 0;
};

/// One change of a batch: `value` is nothing for a removal.
template <class Keys>
struct LineTree<Keys>::BatchedChange {
  Key key;
  std::optional<Value> value;
  Put kind = Put::upsert;  ///< of a write
};

// Stores one change, flushed but not fenced; the caller holds the leaf's lock. Nothing: it needs
// more than one line, and nothing was changed.
template <class Keys>
std::optional<Outcome> LineTree<Keys>::store_one(Leaf& leaf, const Probe& probe, unsigned slot,
                                                 const BatchedChange& change)
  requires(!RecordStore<Keys>::has_blobs)
{
  const bool present = slot != no_slot;
  linetree::LeafInfo& info = info_of(&leaf);
  if (!change.value) {
    if (!present) return Outcome::not_found;
    LeafRecord& at = leaf.slot(slot);
    Kind::commit_of(at).store(Kind::commit_word(Kind::empty(probe.word())),
                              std::memory_order_release);
    pm::flush(&at, sizeof at);
    info.add(-1);
    return Outcome::ok;
  }
  if (is_refused(change.kind, present)) return refusal(present);
  if (present) {
    LeafRecord& at = leaf.slot(slot);
    at.value.store(*change.value, std::memory_order_release);
    pm::flush(&at, sizeof at);
    return Outcome::ok;
  }
  const unsigned free = linetree::find_free(probe.place, Kind::live(probe.word(), info.highest()),
                                            Kind::words_of(leaf));
  if (free == no_slot) return std::nullopt;
  LeafRecord& at = leaf.slot(free);
  linetree::store_words<Keys>(at, {change.key, *change.value});
  pm::flush(&at, sizeof at);
  if (linetree::line_of(free) != probe.place.home) info.note_overflow(probe.place.home);
  info.add(1);
  return Outcome::ok;
}

// Locks the leaf at `position`, unless the group has its stripe, and makes the change. Nothing: not
// now. The leaf covered the key while the node above was as it was found, and whoever holds its
// stripe sees to it that it still does (T4).
template <class Keys>
std::optional<Outcome> LineTree<Keys>::try_in_group(Group& group,
                                                    const typename Inner::Position& position,
                                                    const Probe& probe, const BatchedChange& change)
  requires(!RecordStore<Keys>::has_blobs)
{
  auto* const leaf = static_cast<Leaf*>(position.leaf);
  if (leaf == nullptr) return std::nullopt;
  pm::VersionLock& lock = lock_of(leaf);
  const std::uint64_t word = lock.peek();
  const bool held = pm::VersionLock::is_locked(word);
  if ((held && !group.holds(&lock)) || !Inner::holds(position)) return std::nullopt;
  const unsigned slot = search(*leaf, probe, [] { return true; });
  if (!held && !lock.try_upgrade(word)) return std::nullopt;
  const std::optional<Outcome> outcome = store_one(*leaf, probe, slot, change);
  if (held) return outcome;
  if (outcome == Outcome::ok)
    group.add(&lock);
  else
    lock.unlock_unchanged();
  return outcome;
}

// A change waits for the end of the group when an earlier one has the same key: the two may go to
// different lines, which persist in any order.
template <class Keys>
void LineTree<Keys>::change_group(std::span<const BatchedChange> changes,
                                  std::span<Outcome> outcomes) {
  std::array<Key, batch_group> key;
  std::array<Probe, batch_group> probe;
  std::array<typename Inner::Position, batch_group> position;
  std::bitset<batch_group> done;
  std::bitset<batch_group> sparse;
  const std::size_t n = changes.size();
  for (std::size_t i = 0; i < n; ++i) key[i] = changes[i].key;
  {
    const Epochs::Guard guard(epochs_);
    inner_.locate(std::span<const Key>(key).first(n), std::span(position).first(n));
    for (std::size_t i = 0; i < n; ++i) {
      probe[i] = Probe(shape_, key[i]);
      const auto* const leaf = static_cast<const Leaf*>(position[i].leaf);
      if (leaf == nullptr) continue;
      pm::prefetch_for_write(leaf->line(probe[i].place.home));
      pm::prefetch(&info_of(leaf));
    }
    if constexpr (has_text_keys<Keys>)
      for (std::size_t i = 0; i < n; ++i)
        if (position[i].leaf != nullptr)
          prefetch_candidates(*static_cast<const Leaf*>(position[i].leaf), probe[i]);
    if constexpr (!Store::has_blobs) {
      Group group;
      for (std::size_t i = 0; i < n; ++i) {
        if (std::find(key.begin(), key.begin() + i, key[i]) != key.begin() + i) continue;
        const auto outcome = try_in_group(group, position[i], probe[i], changes[i]);
        if (!outcome) continue;
        done.set(i);
        outcomes[i] = *outcome;
        const bool removed = !changes[i].value && *outcome == Outcome::ok;
        sparse[i] = removed && is_sparse(*static_cast<const Leaf*>(position[i].leaf));
      }
    }
  }
  for (std::size_t i = 0; i < n; ++i) {
    if (!done.test(i))
      outcomes[i] =
          changes[i].value ? put(key[i], *changes[i].value, changes[i].kind) : remove(key[i]);
    if (!sparse.test(i)) continue;
    const Epochs::Guard guard(epochs_);
    merge_around(key[i]);
  }
}

template <class Keys>
void LineTree<Keys>::put_batch(std::span<const Key> keys, std::span<const Value> values, Put kind,
                               std::span<Outcome> outcomes) {
  PERDURE_ASSERT(values.size() == keys.size() && outcomes.size() == keys.size());
  std::array<BatchedChange, batch_group> changes;
  for (std::size_t first = 0; first < keys.size(); first += batch_group) {
    const std::size_t n = std::min(batch_group, keys.size() - first);
    bool valid = pool_.ready();
    for (std::size_t i = 0; i < n; ++i) {
      changes[i] = {keys[first + i], values[first + i], kind};
      valid = valid && Store::within_limits(keys[first + i], values[first + i]);
    }
    if (valid) {
      change_group(std::span(changes).first(n), outcomes.subspan(first, n));
      continue;
    }
    for (std::size_t i = first; i < first + n; ++i) outcomes[i] = put(keys[i], values[i], kind);
  }
}

template <class Keys>
void LineTree<Keys>::insert_batch(std::span<const Key> keys, std::span<const Value> values,
                                  std::span<Outcome> outcomes) {
  put_batch(keys, values, Put::insert, outcomes);
}
template <class Keys>
void LineTree<Keys>::upsert_batch(std::span<const Key> keys, std::span<const Value> values,
                                  std::span<Outcome> outcomes) {
  put_batch(keys, values, Put::upsert, outcomes);
}
template <class Keys>
void LineTree<Keys>::update_batch(std::span<const Key> keys, std::span<const Value> values,
                                  std::span<Outcome> outcomes) {
  put_batch(keys, values, Put::update, outcomes);
}

template <class Keys>
void LineTree<Keys>::remove_batch(std::span<const Key> keys, std::span<Outcome> outcomes) {
  PERDURE_ASSERT(outcomes.size() == keys.size());
  std::array<BatchedChange, batch_group> changes;
  for (std::size_t first = 0; first < keys.size(); first += batch_group) {
    const std::size_t n = std::min(batch_group, keys.size() - first);
    for (std::size_t i = 0; i < n; ++i) changes[i] = {keys[first + i], std::nullopt};
    change_group(std::span(changes).first(n), outcomes.subspan(first, n));
  }
}

template void LineTree<IntegerKeys>::insert_batch(std::span<const Key>, std::span<const Value>,
                                                  std::span<Outcome>);
template void LineTree<IntegerKeys>::upsert_batch(std::span<const Key>, std::span<const Value>,
                                                  std::span<Outcome>);
template void LineTree<IntegerKeys>::update_batch(std::span<const Key>, std::span<const Value>,
                                                  std::span<Outcome>);
template void LineTree<IntegerKeys>::remove_batch(std::span<const Key>, std::span<Outcome>);
template void LineTree<SlotKeys>::insert_batch(std::span<const Key>, std::span<const Value>,
                                               std::span<Outcome>);
template void LineTree<SlotKeys>::upsert_batch(std::span<const Key>, std::span<const Value>,
                                               std::span<Outcome>);
template void LineTree<SlotKeys>::update_batch(std::span<const Key>, std::span<const Value>,
                                               std::span<Outcome>);
template void LineTree<SlotKeys>::remove_batch(std::span<const Key>, std::span<Outcome>);
template void LineTree<ByteKeys>::insert_batch(std::span<const Key>, std::span<const Value>,
                                               std::span<Outcome>);
template void LineTree<ByteKeys>::upsert_batch(std::span<const Key>, std::span<const Value>,
                                               std::span<Outcome>);
template void LineTree<ByteKeys>::update_batch(std::span<const Key>, std::span<const Value>,
                                               std::span<Outcome>);
template void LineTree<ByteKeys>::remove_batch(std::span<const Key>, std::span<Outcome>);

}  // namespace perdure
