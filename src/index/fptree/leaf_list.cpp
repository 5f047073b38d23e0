#include "index/fptree/leaf_list.h"

#include <algorithm>
#include <new>

#include "core/assert.h"
#include "index/leaf/leaf_order.h"

namespace perdure::fptree {

Leaf& format_leaf(Pool& pool, std::uint64_t offset, unsigned entries) noexcept {
  auto* const leaf = new (pool.base() + offset) Leaf{};
  for (unsigned slot = 0; slot < entries; ++slot) new (&leaf->record(slot)) LeafRecord{};
  return *leaf;
}

template <class Keys>
void LeafList<Keys>::format_head(Pool& pool, std::uint64_t offset, unsigned entries) noexcept {
  // Of an empty leaf only the header means anything (L1).
  pm::flush(&format_leaf(pool, offset, entries).commit, pm::cache_line_bytes);
}

template <class Keys>
void LeafList<Keys>::put(Leaf& leaf, Draft& draft, std::uint64_t hash, unsigned old) noexcept {
  const std::uint64_t commit = leaf.commit.load(std::memory_order_relaxed);
  PERDURE_ASSERT(pm::VersionLock::is_locked(leaf.lock.peek()));
  PERDURE_ASSERT((commit & full()) != full());
  const unsigned slot = choose_slot(~commit & full(), hash, entries_);
  leaf.fill_slot(slot, draft.words, hash);
  pm::flush(&leaf.record(slot), sizeof(LeafRecord));
  pm::flush(&leaf.tag[slot], 1);
  pm::fence();  // L2
  store_.publish(draft);
  const std::uint64_t gone = old == no_slot ? 0 : bit(old);
  pm::store_persist(leaf.commit, (commit | bit(slot)) & ~gone);  // L4
}

template <class Keys>
void LeafList<Keys>::replace(Leaf& leaf, Draft& draft, unsigned slot) noexcept {
  PERDURE_ASSERT(pm::VersionLock::is_locked(leaf.lock.peek()));
  PERDURE_ASSERT((leaf.commit.load(std::memory_order_relaxed) & bit(slot)) != 0);
  if constexpr (RecordStore<Keys>::has_blobs) pm::fence();  // L2
  store_.publish(draft);
  pm::store_persist(leaf.record(slot).value, draft.words.value);
}

template <class Keys>
void LeafList<Keys>::erase(Leaf& leaf, unsigned slot) noexcept {
  const std::uint64_t commit = leaf.commit.load(std::memory_order_relaxed);
  PERDURE_ASSERT(pm::VersionLock::is_locked(leaf.lock.peek()));
  PERDURE_ASSERT((commit & bit(slot)) != 0);
  pm::store_persist(leaf.commit, commit & ~bit(slot));
}

template <class Keys>
Leaf* LeafList<Keys>::split(Leaf& leaf, Key& separator) noexcept {
  PERDURE_ASSERT(leaf.commit.load(std::memory_order_relaxed) == full());
  PERDURE_ASSERT(pm::VersionLock::is_locked(leaf.lock.peek()));
  Reservation block = pool_.heap().reserve(leaf_bytes(entries_));
  if (!block) return nullptr;
  LeafCopy copy;
  copy.count = entries_;
  for (unsigned slot = 0; slot < entries_; ++slot) copy.words[slot] = leaf.record(slot).load();
  sort_by_key(copy, store_);

  const unsigned middle = entries_ / 2;
  Leaf& right = format_leaf(pool_, block.offset, entries_);
  std::uint64_t gone = 0;
  std::uint64_t filled = 0;
  for (unsigned r = middle; r < entries_; ++r) {
    const unsigned from = copy.order[r];
    const RecordWords words = copy.words[from];
    const std::uint64_t hash = hash_of(store_.key_of(words));
    const unsigned to = choose_slot(~filled & full(), hash, entries_);
    right.fill_slot(to, words, hash);
    filled |= bit(to);
    gone |= bit(from);
  }
  right.commit.store(filled, std::memory_order_relaxed);
  right.next.store(leaf.next.load(std::memory_order_relaxed), std::memory_order_relaxed);
  pm::persist(&right, leaf_bytes(entries_));
  pool_.heap().publish({&block, 1});

  leaf.next.store(block.offset, std::memory_order_release);  // L8: before the next store
  leaf.commit.store(full() & ~gone, std::memory_order_release);
  pm::persist(&leaf.commit, pm::cache_line_bytes);
  separator = separator_between(store_.key_of(copy.words[copy.order[middle - 1]]),
                                store_.key_of(copy.words[copy.order[middle]]));
  return &right;
}

template <class Keys>
void LeafList<Keys>::unlink(Leaf& previous, const Leaf& leaf) noexcept {
  PERDURE_ASSERT(pm::VersionLock::is_locked(leaf.lock.peek()));
  PERDURE_ASSERT(pm::VersionLock::is_locked(previous.lock.peek()));
  PERDURE_ASSERT(leaf.commit.load(std::memory_order_relaxed) == 0 && &leaf != head());
  pm::store_persist(previous.next, leaf.next.load(std::memory_order_relaxed));
}

template <class Keys>
std::uint64_t LeafList<Keys>::size() const noexcept {
  std::uint64_t records = 0;
  for (const Leaf* leaf = head(); leaf != nullptr; leaf = next_of(*leaf))
    records += pm::count_bits(leaf->commit.load(std::memory_order_acquire));
  return records;
}

template class LeafList<IntegerKeys>;
template class LeafList<ByteKeys>;

}  // namespace perdure::fptree
