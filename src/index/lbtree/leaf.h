// The leaf of LB+-Tree: one 256-byte block on media, changed in steps that a power cut cannot
// split. Source: Liu, Chen, Wang, "LB+-Trees: Optimizing Persistent Index Performance on 3DXPoint
// Memory", PVLDB 13(7), 2020, sections 3 and 4.
//
//   byte 0               16              64         128        192         240         256
//        | header word 0,1 | record 0..2 | rec 3..6 | rec 7..10 | rec 11..13 | sibling 0,1 |
//   cache line 0                         | line 1   | line 2    | line 3                   |
//
//   word 0   bits 0..13 live, bit 14 zero, bit 15 alternate, then fingerprints of records 0..5
//   word 1   fingerprints of records 6..13
//
// L1  record i is in the leaf <=> bit i of word 0 is set. Every change of the set is one store of
//     word 0.
// L2  a set bit was stored after its record and its fingerprint: in the same line, where stores
//     persist in order, or after a fence. A live slot's record never moves and its fingerprint
//     never changes; only its value word may be replaced.
// L3  fingerprint i of a live slot is the fingerprint of its key.
// L4  the successor is sibling[alternate bit]; the other sibling means nothing.
//
// A leaf is changed only under its lock (leaf_locks.h: in DRAM, not in the header). Readers take no
// lock: what they read counts once the lock's version was validated.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "core/assert.h"
#include "index/common/record_store.h"
#include "pm/pm.h"

namespace perdure::lbtree {

/// Word 0 and word 1 of a leaf, by value: a header being read or being prepared.
struct Header {
  static constexpr unsigned entries = 14;
  static constexpr std::uint64_t live_mask = (1U << entries) - 1;
  static constexpr std::uint64_t zero_mask = 1U << 14;
  static constexpr std::uint64_t alternate_bit = 1U << 15;
  static constexpr unsigned first_fingerprint_byte = 2;
  static constexpr unsigned word_1_slot = 6;  ///< the first slot with its fingerprint in word 1

  std::uint64_t word_0 = 0;
  std::uint64_t word_1 = 0;

  [[nodiscard]] std::uint32_t live() const noexcept {
    return static_cast<std::uint32_t>(word_0 & live_mask);
  }
  [[nodiscard]] std::uint32_t free() const noexcept { return live() ^ std::uint32_t{live_mask}; }
  [[nodiscard]] unsigned alternate() const noexcept { return (word_0 & alternate_bit) != 0; }
  [[nodiscard]] std::uint8_t fingerprint(unsigned slot) const noexcept {
    return static_cast<std::uint8_t>(word_of(slot) >> shift_of(slot));
  }
  void add(unsigned slot, std::uint8_t fingerprint) noexcept {
    PERDURE_ASSERT((live() >> slot & 1) == 0);  // L2
    std::uint64_t& word = slot < word_1_slot ? word_0 : word_1;
    word &= ~(std::uint64_t{0xff} << shift_of(slot));
    word |= std::uint64_t{fingerprint} << shift_of(slot);
    word_0 |= std::uint64_t{1} << slot;
  }
  void drop(std::uint32_t slots) noexcept { word_0 &= ~std::uint64_t{slots}; }
  void flip() noexcept { word_0 ^= alternate_bit; }

 private:
  [[nodiscard]] std::uint64_t word_of(unsigned slot) const noexcept {
    return slot < word_1_slot ? word_0 : word_1;
  }
  [[nodiscard]] static unsigned shift_of(unsigned slot) noexcept {
    return 8 * ((slot + first_fingerprint_byte) % 8);
  }
};

/// Where an insertion puts its record, and which records of line 0 go along.
struct Placement {
  unsigned slot = 0;
  unsigned moves = 0;
  std::array<std::uint8_t, 3> from{};
  std::array<std::uint8_t, 3> to{};
};

struct alignas(pm::media_block_bytes) Leaf {
  static constexpr unsigned entries = Header::entries;
  static constexpr unsigned line_0_slots = 3;  ///< the first slots share the header's line
  static constexpr std::uint32_t line_0 = (1U << line_0_slots) - 1;

  std::array<std::atomic<std::uint64_t>, 2> header;
  std::array<LeafRecord, entries> record;
  std::array<std::atomic<std::uint64_t>, 2> sibling;

  [[nodiscard]] Header read_header() const noexcept {
    return {header[0].load(std::memory_order_acquire), header[1].load(std::memory_order_acquire)};
  }
  [[nodiscard]] std::uint64_t next(const Header& now) const noexcept {
    return sibling[now.alternate()].load(std::memory_order_acquire);
  }

  /// Live slots whose fingerprint matches, as bits. Word 0 is loaded before the caller loads any
  /// record, so a byte-string record found this way is one that was live after the caller pinned.
  [[nodiscard]] std::uint32_t candidates(std::uint8_t fingerprint) const noexcept {
    const std::uint64_t word_0 = header[0].load(std::memory_order_acquire);
    const std::uint32_t equal =
        pm::match_16(reinterpret_cast<const std::uint8_t*>(header.data()), fingerprint);
    std::atomic_signal_fence(std::memory_order_acq_rel);  // the match is read before any validation
    return equal >> Header::first_fingerprint_byte & static_cast<std::uint32_t>(word_0) &
           static_cast<std::uint32_t>(Header::live_mask);
  }

  void prefetch() const noexcept { pm::prefetch_range(this, sizeof(Leaf)); }
  /// For a lookup: leaves are too many to be met again soon, and must not push the inner nodes out
  /// of the caches.
  void prefetch_once() const noexcept {
    for (std::size_t at = 0; at < sizeof(Leaf); at += pm::cache_line_bytes)
      pm::prefetch_once(reinterpret_cast<const std::byte*>(this) + at);
  }
  void prefetch_for_write() const noexcept {
    for (std::size_t at = 0; at < sizeof(Leaf); at += pm::cache_line_bytes)
      pm::prefetch_for_write(reinterpret_cast<const std::byte*>(this) + at);
  }

  /// Makes fresh memory an empty leaf with the given successor. Not flushed.
  void format(std::uint64_t successor) noexcept;

  /// Entry moving: a slot of line 0 where one is free; otherwise the line with most room takes the
  /// new record and as many of line 0 as fit, because it is written anyway and the next insertions
  /// then find room beside the header. The leaf is not full.
  [[nodiscard]] static Placement place(std::uint32_t free) noexcept;

  /// Writes the records of a placement into free slots and returns the header that makes them live.
  /// Nothing is visible yet. Every written line but line 0 is flushed; not fenced.
  [[nodiscard]] Header fill(const Header& now, const Placement& placement, RecordWords words,
                            std::uint8_t fingerprint) noexcept;

  /// Stores word 1, where it changes. It must come before word 0 (L2).
  void store_fingerprints(const Header& now, const Header& next) noexcept {
    if (next.word_1 != now.word_1) header[1].store(next.word_1, std::memory_order_release);
  }
};

static_assert(sizeof(Leaf) == pm::media_block_bytes && alignof(Leaf) == pm::media_block_bytes);
static_assert(sizeof(LeafRecord) == 16);
static_assert(offsetof(Leaf, header) == 0, "word 0 must be failure-atomic and share line 0");
static_assert(offsetof(Leaf, record) == 16 && offsetof(Leaf, sibling) == 240);

}  // namespace perdure::lbtree
