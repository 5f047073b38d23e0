// What leaves with fingerprints share: those of FPTree and the data nodes of PACTree.
//
//   byte 0        64                       128
//        | tag[64] | commit | what else ... | record[n], n = 4 .. 64 |
//
// Record i exists <=> bit i of `commit` is set; tag[i] is the fingerprint of its key. A record is
// 16 bytes and begins at a multiple of 16: none straddles a cache line.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "index/common/record_store.h"
#include "pm/pm.h"

namespace perdure::tagged {

inline constexpr unsigned max_entries = 64;
inline constexpr unsigned min_entries = 4;
inline constexpr unsigned records_per_line = pm::cache_line_bytes / sizeof(LeafRecord);
inline constexpr unsigned no_slot = max_entries;

/// The records after a leaf's header. A leaf has the members `tag` and `commit` besides.
template <class Leaf>
struct Records {
  [[nodiscard]] LeafRecord& record(unsigned slot) noexcept {
    return reinterpret_cast<LeafRecord*>(static_cast<Leaf*>(this) + 1)[slot];
  }
  [[nodiscard]] const LeafRecord& record(unsigned slot) const noexcept {
    return reinterpret_cast<const LeafRecord*>(static_cast<const Leaf*>(this) + 1)[slot];
  }

  /// Writes a free slot; nothing sees it before its commit bit. No flush.
  void fill_slot(unsigned slot, RecordWords words, std::uint64_t hash) noexcept {
    record(slot).store(words);
    std::atomic_ref<std::uint8_t>(static_cast<Leaf*>(this)->tag[slot])
        .store(fingerprint_from(hash), std::memory_order_release);
  }
};

template <class Leaf>
[[nodiscard]] constexpr std::size_t bytes_of(unsigned entries) noexcept {
  static_assert(sizeof(Leaf) == 2 * pm::cache_line_bytes);
  static_assert(offsetof(Leaf, tag) == 0, "fingerprints fill the first line");
  static_assert(offsetof(Leaf, commit) == 64, "the commit word must be failure-atomic");
  return sizeof(Leaf) + std::size_t{entries} * sizeof(LeafRecord);
}

[[nodiscard]] constexpr std::uint64_t bit(unsigned slot) noexcept {
  return std::uint64_t{1} << slot;
}
[[nodiscard]] constexpr std::uint64_t all_slots(unsigned entries) noexcept {
  return entries == 64 ? ~std::uint64_t{0} : bit(entries) - 1;
}

/// Where a key's record is put if there is room: the first slot of one line, chosen by hash. With
/// the line known before the leaf is read, its miss overlaps those of the tags and the header; a
/// leaf two thirds full has room in that line three times out of four.
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

/// Prefetches the three lines that a search for a key with this hash most likely reads.
template <class Leaf>
void prefetch(const Leaf& leaf, std::uint64_t hash, unsigned entries) noexcept {
  pm::prefetch(&leaf.commit);
  pm::prefetch(&leaf);
  pm::prefetch(&leaf.record(preferred_slot(hash, entries)));
}
template <class Leaf>
void prefetch_for_write(const Leaf& leaf, std::uint64_t hash, unsigned entries) noexcept {
  pm::prefetch_for_write(&leaf.commit);
  pm::prefetch_for_write(&leaf);
  pm::prefetch_for_write(&leaf.record(preferred_slot(hash, entries)));
}
/// Prefetches header and records, which is what a scan reads: the header first.
template <class Leaf>
void prefetch_records(const Leaf& leaf, unsigned entries) noexcept {
  pm::prefetch(&leaf.commit);
  for (unsigned slot = 0; slot < entries; slot += records_per_line)
    pm::prefetch_l2(&leaf.record(slot));
}

/// Slot of the live record of `key`, whose words are left in `words`, or `no_slot`. `stable` as in
/// RecordStore::matches: the caller validates before it believes either answer, or holds the lock.
template <class Keys, class Leaf, class Stable>
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

}  // namespace perdure::tagged
