// Leaf of FpTree: one unsorted array of records, guarded by a commit bitmap.
//
//   byte 0        64       72     80     88       128
//        | tag[64] | commit | next | lock | unused | record[n], n = leaf_entries, 4 .. 64 |
//
// 1152 bytes with 64 entries. A record is 16 bytes and begins at a multiple of 16: none straddles a
// cache line. `commit`, `next` and `lock` share one.
//
// L1  record i exists <=> bit i of `commit` is set, i < n.
// L2  bit i set => tag[i], record[i] and the blob it leads to were durable no later than the bit.
// L3  tag[i] of an existing record is the fingerprint of its key.
// L4  the key of a live slot is never rewritten. An update writes another slot, and one store of
//     `commit` takes the old record out and the new one in; or, with the option update_in_place, it
//     is one store of the value word, which is failure-atomic.
// L5  keys of a leaf are below all keys of the leaves that follow it in the list.
// L6  the list begins at the root's `head`, which stays for ever; any other leaf that runs empty is
//     unlinked. After a power cut recovery unlinks what is still empty.
// L7  `lock` is held whenever tag, commit, next or record change, and given back only after the
//     fence that made the change durable. It means nothing after a restart; recovery zeroes it.
// L8  `next` and `commit` lie in one line, so they reach the media in the order of their stores. A
//     split stores `next` first: the one state in between is that the new leaf is linked and the
//     old one still holds the records it gave away. Recovery sees it as a breach of L5 and ends it.
// L9  leaf locks are taken from right to left; nobody waits for a leaf while it holds an inner
//     lock.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "index/record/record_store.h"
#include "pm/pm.h"

namespace perdure::fptree {

inline constexpr unsigned max_leaf_entries = 64;
inline constexpr unsigned min_leaf_entries = 4;
inline constexpr unsigned records_per_line = pm::cache_line_bytes / sizeof(LeafRecord);
inline constexpr unsigned no_slot = max_leaf_entries;

struct alignas(pm::cache_line_bytes) Leaf {
  std::array<std::uint8_t, max_leaf_entries> tag;
  std::atomic<std::uint64_t> commit;
  std::atomic<std::uint64_t> next;  ///< pool offset
  pm::VersionLock lock;
  std::array<std::uint64_t, 5> unused;

  [[nodiscard]] LeafRecord& record(unsigned slot) noexcept {
    return reinterpret_cast<LeafRecord*>(this + 1)[slot];
  }
  [[nodiscard]] const LeafRecord& record(unsigned slot) const noexcept {
    return reinterpret_cast<const LeafRecord*>(this + 1)[slot];
  }
};

static_assert(sizeof(Leaf) == 2 * pm::cache_line_bytes);
static_assert(offsetof(Leaf, tag) == 0, "fingerprints fill the first line");
static_assert(offsetof(Leaf, commit) == 64 && offsetof(Leaf, commit) % 8 == 0,
              "the commit word must be failure-atomic");
static_assert(offsetof(Leaf, next) / pm::cache_line_bytes ==
                  offsetof(Leaf, commit) / pm::cache_line_bytes,
              "L8: one line, so store order is persist order");
static_assert(sizeof(Leaf) % sizeof(LeafRecord) == 0, "no record straddles a line");

[[nodiscard]] constexpr std::size_t leaf_bytes(unsigned entries) noexcept {
  return sizeof(Leaf) + std::size_t{entries} * sizeof(LeafRecord);
}
static_assert(leaf_bytes(64) == 1152);

[[nodiscard]] constexpr std::uint64_t bit(unsigned slot) noexcept {
  return std::uint64_t{1} << slot;
}
[[nodiscard]] constexpr std::uint64_t all_slots(unsigned entries) noexcept {
  return entries == 64 ? ~std::uint64_t{0} : bit(entries) - 1;
}

/// Where a key's record would rather be: the first slot of one line, chosen by hash. With the line
/// known before the leaf is read, its miss overlaps those of the tags and the header; a leaf two
/// thirds full has room in that line three times out of four.
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
inline void prefetch(const Leaf& leaf, std::uint64_t hash, unsigned entries) noexcept {
  pm::prefetch(&leaf.commit);
  pm::prefetch(&leaf);
  pm::prefetch(&leaf.record(preferred_slot(hash, entries)));
}
inline void prefetch_for_write(const Leaf& leaf, std::uint64_t hash, unsigned entries) noexcept {
  pm::prefetch_for_write(&leaf.commit);
  pm::prefetch_for_write(&leaf);
  pm::prefetch_for_write(&leaf.record(preferred_slot(hash, entries)));
}
/// Asks for header and records, which is what a scan reads.
inline void prefetch_records(const Leaf& leaf, unsigned entries) noexcept {
  pm::prefetch_range(&leaf.commit, leaf_bytes(entries) - offsetof(Leaf, commit));
}

/// Slot of the live record of `key`, whose words are left in `words`, or `no_slot`. `stable` as in
/// RecordStore::matches: the caller validates before it believes either answer, or holds the lock.
template <class Keys, class Stable>
[[nodiscard]] unsigned find_slot(const Leaf& leaf, const RecordStore<Keys>& store,
                                 typename Keys::Key key, std::uint64_t hash, RecordWords& words,
                                 Stable&& stable) noexcept {
  std::uint64_t candidates = pm::match_64(leaf.tag.data(), fingerprint_from(hash)) &
                             leaf.commit.load(std::memory_order_acquire);
  for (; candidates != 0; candidates &= candidates - 1) {
    const auto slot = static_cast<unsigned>(std::countr_zero(candidates));
    words = leaf.record(slot).load();
    if (store.matches(words, key, stable)) return slot;
  }
  return no_slot;
}

/// Writes a free slot; nothing sees it before its commit bit. No flush.
inline void fill_slot(Leaf& leaf, unsigned slot, RecordWords words, std::uint64_t hash) noexcept {
  leaf.record(slot).store(words);
  std::atomic_ref<std::uint8_t>(leaf.tag[slot])
      .store(fingerprint_from(hash), std::memory_order_release);
}

}  // namespace perdure::fptree
