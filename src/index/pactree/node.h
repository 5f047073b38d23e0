// Data node of PacTree: an unsorted array of records behind a commit bitmap, in a list in key
// order.
//
//   byte 0        64       72     80          88           96     104    112    120      128
//        | tag[64] | commit | next | anchor key | anchor value | prev | lock | high | unused |
//   byte 128  | record[n], n = node_entries, 4 .. 64 |
//
// 1152 bytes with 64 entries. A record is 16 bytes and begins at a multiple of 16: none straddles a
// cache line.
//
// L1  record i exists <=> bit i of `commit` is set, and its key is below the next node's anchor.
// L2  bit i set => record[i] and the blob it leads to were durable no later than the bit.
// L3  tag[i] of an existing record is the fingerprint of its key. Tags are never flushed: recovery
//     computes them.
// L4  the key of a live slot is never rewritten. An update is one store of the value word.
// L5  the anchor is a record without a value. It never changes; no key of the node is below it, and
//     it is above the anchor of the node before. The first node's is the lowest key there is, which
//     a bulk load may give to the second, too: then the first stays without records.
// L6  the list begins at the root's `head`, which stays for ever.
// L7  `commit` and `next` lie in one line, so they reach the media in the order of their stores. A
//     split stores `next` first, a merge `commit`: either way the one state in between is that a
//     node holds records which are in the next one, too. L1 says that they do not count; recovery
//     clears their bits.
// L8  `prev` and `high` are never flushed: recovery derives them. `prev` leads to the node before;
//     it belongs to the lock of that node. `high` is the key word of the next node's anchor, and
//     all ones in the last node.
// L9  `lock` is held whenever anything else of the node but `prev` changes, and given back only
//     after the fence that made the change durable. It means nothing after a restart.
// L10 a merged node is obsolete; its `prev` leads to the node that took its records. Node locks are
//     waited for from left to right only.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "index/record/record_store.h"
#include "pm/pm.h"

namespace perdure::pactree {

inline constexpr unsigned max_node_entries = 64;
inline constexpr unsigned min_node_entries = 4;
inline constexpr unsigned records_per_line = pm::cache_line_bytes / sizeof(LeafRecord);
inline constexpr unsigned no_slot = max_node_entries;
inline constexpr std::uint64_t no_high = ~std::uint64_t{0};

struct alignas(pm::cache_line_bytes) DataNode {
  std::array<std::uint8_t, max_node_entries> tag;
  std::atomic<std::uint64_t> commit;
  std::atomic<std::uint64_t> next;  ///< pool offset
  LeafRecord anchor;
  std::atomic<std::uint64_t> prev;  ///< pool offset
  pm::VersionLock lock;
  std::atomic<std::uint64_t> high;
  std::uint64_t unused;

  [[nodiscard]] LeafRecord& record(unsigned slot) noexcept {
    return reinterpret_cast<LeafRecord*>(this + 1)[slot];
  }
  [[nodiscard]] const LeafRecord& record(unsigned slot) const noexcept {
    return reinterpret_cast<const LeafRecord*>(this + 1)[slot];
  }

  /// Makes an empty node of undefined memory. No flush.
  void format(unsigned entries, RecordWords lowest) noexcept {
    for (unsigned i = 0; i < max_node_entries; ++i) tag[i] = 0;
    commit.store(0, std::memory_order_relaxed);
    next.store(0, std::memory_order_relaxed);
    anchor.store(lowest);
    prev.store(0, std::memory_order_relaxed);
    lock.reset();
    high.store(no_high, std::memory_order_relaxed);
    unused = 0;
    for (unsigned slot = 0; slot < entries; ++slot) record(slot).store({});
  }

  /// Records, those that L1 says do not count included.
  [[nodiscard]] unsigned count() const noexcept {
    return static_cast<unsigned>(std::popcount(commit.load(std::memory_order_acquire)));
  }

  /// Writes a free slot; nothing sees it before its commit bit. No flush.
  void fill_slot(unsigned slot, RecordWords words, std::uint64_t hash) noexcept {
    record(slot).store(words);
    std::atomic_ref<std::uint8_t>(tag[slot]).store(fingerprint_from(hash),
                                                   std::memory_order_release);
  }

  void flush_header() const noexcept { pm::flush(&commit, pm::cache_line_bytes); }
};

static_assert(sizeof(DataNode) == 2 * pm::cache_line_bytes);
static_assert(offsetof(DataNode, tag) == 0, "fingerprints fill the first line");
static_assert(offsetof(DataNode, commit) == 64 && offsetof(DataNode, next) == 72,
              "L7: one line, so store order is persist order");
static_assert(offsetof(DataNode, anchor) % 8 == 0 && offsetof(DataNode, high) == 112);
static_assert(sizeof(DataNode) % sizeof(LeafRecord) == 0, "no record straddles a line");

[[nodiscard]] constexpr std::size_t node_bytes(unsigned entries) noexcept {
  return sizeof(DataNode) + std::size_t{entries} * sizeof(LeafRecord);
}
static_assert(node_bytes(64) == 1152);

[[nodiscard]] constexpr std::uint64_t bit(unsigned slot) noexcept {
  return std::uint64_t{1} << slot;
}
[[nodiscard]] constexpr std::uint64_t all_slots(unsigned entries) noexcept {
  return entries == 64 ? ~std::uint64_t{0} : bit(entries) - 1;
}

/// Where a key's record would rather be: the first slot of one line, chosen by hash, so that its
/// miss overlaps those of tags and header.
[[nodiscard]] inline unsigned preferred_slot(std::uint64_t hash, unsigned entries) noexcept {
  const unsigned lines = (entries + records_per_line - 1) / records_per_line;
  return static_cast<unsigned>((hash >> 40) * lines >> 24) * records_per_line;
}

/// A free slot (`free` is not 0) for a key with this hash: in its line, else the next one after it.
[[nodiscard]] inline unsigned choose_slot(std::uint64_t free, std::uint64_t hash,
                                          unsigned entries) noexcept {
  const std::uint64_t from = free & ~std::uint64_t{0} << preferred_slot(hash, entries);
  return static_cast<unsigned>(std::countr_zero(from != 0 ? from : free));
}

/// Asks for the three lines that a search for a key with this hash most likely reads.
inline void prefetch(const DataNode& node, std::uint64_t hash, unsigned entries) noexcept {
  pm::prefetch(&node.commit);
  pm::prefetch(&node);
  pm::prefetch(&node.record(preferred_slot(hash, entries)));
}
inline void prefetch_for_write(const DataNode& node, std::uint64_t hash,
                               unsigned entries) noexcept {
  pm::prefetch_for_write(&node.commit);
  pm::prefetch_for_write(&node);
  pm::prefetch_for_write(&node.record(preferred_slot(hash, entries)));
}
/// Asks for header and records, which is what a scan reads.
inline void prefetch_records(const DataNode& node, unsigned entries) noexcept {
  pm::prefetch_range(&node.commit, node_bytes(entries) - offsetof(DataNode, commit));
}

/// Slot of the live record of `key`, whose words are left in `words`, or `no_slot`. `stable` as in
/// RecordStore::matches: the caller validates before it believes either answer, or holds the lock.
template <class Keys, class Stable>
[[nodiscard]] unsigned find_slot(const DataNode& node, const RecordStore<Keys>& store,
                                 typename Keys::Key key, std::uint64_t hash, RecordWords& words,
                                 Stable&& stable) noexcept {
  std::uint64_t candidates = pm::match_64(node.tag.data(), fingerprint_from(hash)) &
                             node.commit.load(std::memory_order_acquire);
  for (; candidates != 0; candidates &= candidates - 1) {
    const auto slot = static_cast<unsigned>(std::countr_zero(candidates));
    words = node.record(slot).load();
    if (store.matches(words, key, stable)) return slot;
  }
  return no_slot;
}

}  // namespace perdure::pactree
