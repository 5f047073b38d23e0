// LeafList: everything FpTree keeps on media, and every step that changes it. It knows nothing of
// inner nodes: whoever calls has found the leaf and locked it.
//
// Nothing here needs a log. Each step changes visible state by one 8-byte store (or by two into one
// line, L8), and blocks that a power cut leaves unlinked are swept by the heap.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/result.h"
#include "index/common/record_store.h"
#include "index/fptree/leaf.h"
#include "index/index.h"
#include "index/leaf/separator.h"
#include "pool/pool.h"

namespace perdure::fptree {

/// An empty leaf, unlocked, in a reserved block at `offset`. No flush.
[[nodiscard]] Leaf& format_leaf(Pool& pool, std::uint64_t offset, unsigned entries) noexcept;

template <class Keys>
class LeafList {
 public:
  using Key = typename Keys::Key;
  using Record = typename Keys::Record;
  using Draft = typename RecordStore<Keys>::Draft;

  /// A leaf and the lowest key that leads to it (a key in a blob of the pool, for byte keys).
  struct Entry {
    Key lowest;
    Leaf* leaf;
  };

  LeafList(Pool& pool, RecordStore<Keys>& store, unsigned entries, std::uint64_t head) noexcept
      : pool_(pool), store_(store), entries_(entries), head_(head) {}

  [[nodiscard]] unsigned entries() const noexcept { return entries_; }
  [[nodiscard]] std::uint64_t full() const noexcept { return all_slots(entries_); }
  [[nodiscard]] Leaf* head() const noexcept { return pool_.at<Leaf>(head_); }
  [[nodiscard]] Leaf* next_of(const Leaf& leaf) const noexcept {
    const std::uint64_t next = leaf.next.load(std::memory_order_acquire);
    return next == null_offset ? nullptr : pool_.at<Leaf>(next);
  }

  /// Makes the first leaf of a new list in a reserved block, and flushes it.
  static void format_head(Pool& pool, std::uint64_t offset, unsigned entries) noexcept;

  /// Makes the draft's record durable in a free slot, then visible, in the same instant as the
  /// record in slot `old` (if it is not `no_slot`) ceases to be. Power-cut states: as before, or
  /// done. Cost: 3 flushed lines and the blob's, 2 fences.
  void put(Leaf& leaf, Draft& draft, std::uint64_t hash, unsigned old) noexcept;

  /// Puts the draft's value into the live record in `slot`, by one 8-byte store.
  /// Power-cut states: as before, or done. Cost: 1 flushed line, 1 fence; one more fence for a
  /// blob.
  void replace(Leaf& leaf, Draft& draft, unsigned slot) noexcept;

  /// Takes the record in `slot` out. Cost: 1 flushed line, 1 fence.
  void erase(Leaf& leaf, unsigned slot) noexcept;

  /// Moves the upper half of a full leaf to a new one, which is linked after it; sets `separator`
  /// to a key above all that stay and not above any that went. Null: out of space, and nothing
  /// changed. Power-cut states: as before; linked and not yet emptied (L8); done. Cost: half the
  /// leaf's lines and 3 more flushed, 2 fences.
  [[nodiscard]] Leaf* split(Leaf& leaf, Key& separator) noexcept;

  /// Unlinks an empty leaf after `previous`. Both are locked. Cost: 1 flushed line, 1 fence.
  void unlink(Leaf& previous, const Leaf& leaf) noexcept;

  /// Builds leaves for ascending records after the empty head, visible all at once. Returns them,
  /// the head first. Errors: usage, out_of_space; then nothing has changed.
  [[nodiscard]] Result<std::vector<Entry>> load(std::span<const Record> records, unsigned threads);

  /// Walks the list after a restart: ends a split that was under way, unlinks empty leaves, clears
  /// locks, checks and marks every block. Returns the leaves in order. Errors: corrupt.
  [[nodiscard]] Result<std::vector<Entry>> recover(unsigned threads);

  /// Records in all leaves. No other operation may run.
  [[nodiscard]] std::uint64_t size() const noexcept;

  /// The error of a broken invariant.
  [[nodiscard]] Error broken(const char* invariant, const Leaf& leaf) const {
    return detail::corrupt_record(invariant, pool_.offset_of(&leaf), pool_);
  }

 private:
  Pool& pool_;
  RecordStore<Keys>& store_;
  const unsigned entries_;
  const std::uint64_t head_;
};

extern template class LeafList<IntegerKeys>;
extern template class LeafList<ByteKeys>;

}  // namespace perdure::fptree
