// The leaf of linetree: a small hash table of cache lines on media, whose key interval is the only
// rule of validity.
//
//   byte 0      8    16                     64                     64 * lines
//        | next | lo | slot 1 | 2 | slot 3 | slot 4 ... slot 7 | ...      |     slot: two words
//   line 0                                 | line 1            | ...            (kind.h)
//
// There is no bitmap, count, fingerprint, lock or log. `lo` never changes in a leaf's life; `hi` is
// the next leaf's lowest key, or above all keys in the last leaf. Of integers `lo` is the lowest
// key itself; of byte strings it leads to a blob of the leaf's own with that key, and is 0 in the
// first leaf.
//
// L1  a slot that is not empty is live <=> its key lies in [lo, hi). So storing `next` commits a
//     split or a merge, and storing the commit word of a slot an insertion or a removal.
// L2  lowest keys ascend along the chain, begin with the lowest of all, and of integers one leaf's
//     is 2^63: no leaf reaches over that boundary, and no merge removes it.
// L3  a slot that is not live is empty, or holds a key from `hi` on that a split or an unfinished
//     merge has left. Empty, of integers, is the empty key of its half (2^64 - 1 below the
//     boundary, 0 above it: never a key of such a leaf, however it is split or merged); of byte
//     strings the word 0.
// L4  a live record lies in its home line or in its overflow line, and once.
// L5  before a key that lay beyond `hi` can come into the interval (merge), its slot is emptied
//     durably. So what is stale is never read, changed or mended, and never comes back.
// L6  of byte strings a slot that is not empty leads to a whole blob, whose key the two words fit.
//     So what a split has left is emptied before the leaf's lock is released, and what a cut has
//     left by recovery: a blob that a stale slot led to might be freed, and be another record's.
//
// A leaf is changed only under its lock (leaf_locks.h). Readers take no lock: what they read counts
// once the lock's version was validated. Slot 0 is the header; as a slot number it means "none".
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/assert.h"
#include "core/rng.h"
#include "index/common/record_store.h"
#include "pm/pm.h"
#include "pm/simd_lines.h"

namespace perdure::linetree {

inline constexpr unsigned line_slots = 4;
inline constexpr unsigned most_lines = 32;
inline constexpr unsigned most_slots = most_lines * line_slots;
inline constexpr unsigned no_slot = 0;

/// The key at which the tree always has a leaf of its own (L2).
inline constexpr std::uint64_t boundary = std::uint64_t{1} << 63;
/// The lowest key on this key's side of the boundary.
[[nodiscard]] constexpr std::uint64_t half_of(std::uint64_t key) noexcept { return key & boundary; }
/// What an empty slot holds in leaves on this key's side of the boundary (L3).
[[nodiscard]] constexpr std::uint64_t empty_key(std::uint64_t key) noexcept {
  return key < boundary ? ~std::uint64_t{0} : 0;
}

[[nodiscard]] constexpr unsigned line_of(unsigned slot) noexcept { return slot / line_slots; }
[[nodiscard]] constexpr std::uint32_t line_bit(unsigned line) noexcept {
  return std::uint32_t{1} << line;
}
/// The slots of a line that hold records, as bits.
[[nodiscard]] constexpr std::uint32_t record_slots(unsigned line) noexcept {
  return line == 0 ? 0b1110U : 0b1111U;
}

/// Keys from `least` to `last`, both included; least <= last.
struct Interval {
  std::uint64_t least;
  std::uint64_t last;
  [[nodiscard]] bool holds(std::uint64_t key) const noexcept { return key - least <= last - least; }
  /// What decides where a record with this commit word lies.
  [[nodiscard]] static std::uint64_t place_word(std::uint64_t key) noexcept { return key; }
};

/// The slots of a leaf of byte strings that are not empty: while its lock is free, those whose keys
/// lie in its interval (L6). Asked as an interval is.
struct Filled {
  static constexpr unsigned tag_shift = 48;
  [[nodiscard]] static bool holds(std::uint64_t word) noexcept { return word != 0; }
  [[nodiscard]] static std::uint64_t place_word(std::uint64_t word) noexcept {
    return word >> tag_shift;
  }
};

/// The two lines in which a record may lie.
struct Place {
  unsigned home;
  unsigned step;  ///< 1 .. lines - 1; lines are a power of two

  [[nodiscard]] unsigned overflow() const noexcept { return home ^ step; }
  /// The record's other line.
  [[nodiscard]] unsigned beside(unsigned line) const noexcept { return line ^ step; }
};

/// How large the leaves of a tree are.
struct Shape {
  unsigned lines;  ///< a power of two, 4 .. most_lines

  [[nodiscard]] unsigned slots() const noexcept { return lines * line_slots; }
  /// Records that a leaf has room for.
  [[nodiscard]] unsigned records() const noexcept { return slots() - 1; }
  [[nodiscard]] std::size_t bytes() const noexcept { return lines * pm::cache_line_bytes; }

  /// `word` is an integer key, or the tag of a byte string. Every bit of it reaches the line: a
  /// multiplication alone would deal dense keys to the lines in turn, so that all leaves filled up
  /// at once. Line 0 gets 3/4 of what another gets.
  [[nodiscard]] Place place(std::uint64_t word) const noexcept {
    const std::uint64_t mixed = mix64(word);
    const auto home = static_cast<unsigned>(place_of(mixed, slots() - 1) + 1) / line_slots;
    const auto step = static_cast<unsigned>(place_of(std::rotl(mixed, 32), lines - 1)) + 1;
    return {home, step};
  }
};

// Below, `word_at(i)` is the commit word of slot i, and `live` says which of them are live.

/// The first slot of a line that is not live, or none.
template <class Live, class WordAt>
[[nodiscard]] unsigned free_slot(unsigned line, Live live, WordAt&& word_at) noexcept {
  std::uint32_t found = 0;
  for (unsigned i = 0; i < line_slots; ++i)
    found |= static_cast<std::uint32_t>(!live.holds(word_at(line * line_slots + i))) << i;
  found &= record_slots(line);
  return found == 0 ? no_slot : line * line_slots + static_cast<unsigned>(std::countr_zero(found));
}

/// A record that can go to its other line: the slot it is in, and a free one; or none.
struct Move {
  unsigned from = no_slot;
  unsigned to = no_slot;
};

/// Where a record can go.
struct Room {
  unsigned slot = no_slot;  ///< none: nowhere
  /// The moves that make room, in this order; the last frees `slot`. Only the first goes to a slot
  /// that is free now.
  std::array<Move, 2> moves{};
  unsigned move_count = 0;

  [[nodiscard]] std::span<const Move> before() const noexcept { return {moves.data(), move_count}; }
};

/// A free slot in one of two lines, without moving anything.
template <class Live, class WordAt>
[[nodiscard]] unsigned find_free(Place place, Live live, WordAt&& word_at) noexcept {
  const unsigned slot = free_slot(place.home, live, word_at);
  return slot != no_slot ? slot : free_slot(place.overflow(), live, word_at);
}

/// Whether two slots lie in one block of the media, which then is written once.
[[nodiscard]] constexpr bool are_near(unsigned slot, unsigned other) noexcept {
  constexpr unsigned block_slots = pm::media_block_bytes / sizeof(LeafRecord);
  return slot / block_slots == other / block_slots;
}

/// A record of a full line that can go to its other line: one that goes near, or the first.
template <class Live, class WordAt>
[[nodiscard]] Move find_move(const Shape& shape, unsigned line, Live live,
                             WordAt&& word_at) noexcept {
  Move first;
  for (unsigned i = line == 0 ? 1 : 0; i < line_slots; ++i) {
    const unsigned slot = line * line_slots + i;
    const unsigned beside = shape.place(Live::place_word(word_at(slot))).beside(line);
    const unsigned to = free_slot(beside, live, word_at);
    if (to == no_slot) continue;
    if (are_near(slot, to)) return {slot, to};
    if (first.from == no_slot) first = {slot, to};
  }
  return first;
}

/// A free slot; or, where both lines are full, that of a record that can go to its other line; or
/// that of one whose other line is full, too, with a record that can go.
template <class Live, class WordAt>
[[nodiscard]] Room find_room(const Shape& shape, Place place, Live live,
                             WordAt&& word_at) noexcept {
  if (const unsigned slot = find_free(place, live, word_at); slot != no_slot) return {slot, {}, 0};
  Move best;
  for (const unsigned line : {place.home, place.overflow()}) {
    const Move move = find_move(shape, line, live, word_at);
    if (best.from == no_slot || (move.from != no_slot && are_near(move.from, move.to))) best = move;
  }
  if (best.from != no_slot) return {best.from, {best}, 1};
  for (const unsigned line : {place.home, place.overflow()})
    for (unsigned i = line == 0 ? 1 : 0; i < line_slots; ++i) {
      const unsigned slot = line * line_slots + i;
      const unsigned beside = shape.place(Live::place_word(word_at(slot))).beside(line);
      if (const Move move = find_move(shape, beside, live, word_at); move.from != no_slot)
        return {slot, {move, {slot, move.from}}, 2};
    }
  return {};
}

struct alignas(pm::media_block_bytes) Leaf {
  std::atomic<std::uint64_t> next;  ///< pool offset
  std::atomic<std::uint64_t> lo;
  std::array<LeafRecord, 15> first_slots;  ///< those of the smallest leaf; others follow

  /// 1 .. Shape::records().
  [[nodiscard]] LeafRecord& slot(unsigned i) noexcept {
    return reinterpret_cast<LeafRecord*>(this)[i];
  }
  [[nodiscard]] const LeafRecord& slot(unsigned i) const noexcept {
    return reinterpret_cast<const LeafRecord*>(this)[i];
  }
  /// The word of the lowest key: of integers the key.
  [[nodiscard]] std::uint64_t lowest() const noexcept { return lo.load(std::memory_order_acquire); }
  [[nodiscard]] std::uint64_t successor() const noexcept {
    return next.load(std::memory_order_acquire);
  }
  [[nodiscard]] std::uint64_t key_word(unsigned i) const noexcept {
    return slot(i).key.load(std::memory_order_acquire);
  }
  [[nodiscard]] std::uint64_t value_word(unsigned i) const noexcept {
    return slot(i).value.load(std::memory_order_acquire);
  }

  [[nodiscard]] const std::byte* line(unsigned number) const noexcept {
    return reinterpret_cast<const std::byte*>(this) + number * pm::cache_line_bytes;
  }
  void prefetch(const Shape& shape) const noexcept { pm::prefetch_range(this, shape.bytes()); }
};

/// The slots of a line whose first word is `key`, as bits.
[[nodiscard, gnu::always_inline]] inline std::uint32_t matching_keys(const Leaf& leaf,
                                                                     unsigned line,
                                                                     std::uint64_t key) noexcept {
  std::uint32_t found = pm::match_line(leaf.line(line), key) & 0b01010101;
  found = (found | found >> 1) & 0b00110011;
  return (found | found >> 2) & record_slots(line);
}

/// Flushes the lines whose bits are set.
inline void flush_lines(const Shape& shape, const Leaf& leaf, std::uint32_t lines) noexcept {
  for (unsigned line = 0; line < shape.lines; ++line)
    if ((lines & line_bit(line)) != 0) pm::flush(leaf.line(line), 1);
}

static_assert(sizeof(LeafRecord) == 16);
static_assert(sizeof(Leaf) == pm::media_block_bytes && alignof(Leaf) == pm::media_block_bytes);
static_assert(offsetof(Leaf, next) == 0, "the link must be failure-atomic");
static_assert(offsetof(Leaf, lo) == 8 && offsetof(Leaf, first_slots) == 16);

/// A leaf in DRAM, being prepared. Its words lie as on media: word 0 is {next, lo}.
struct alignas(pm::cache_line_bytes) LeafImage {
  std::array<RecordWords, most_slots> words;

  /// Without a successor; every slot holds `empty`.
  LeafImage(const Shape& shape, std::uint64_t lo, RecordWords empty) noexcept {
    words[0] = {null_offset, lo};
    for (unsigned i = 1; i < shape.slots(); ++i) words[i] = empty;
  }
  /// What `leaf` holds, stale slots and all.
  LeafImage(const Shape& shape, const Leaf& leaf) noexcept {
    words[0] = {leaf.successor(), leaf.lowest()};
    for (unsigned i = 1; i < shape.slots(); ++i) words[i] = leaf.slot(i).load();
  }

  void set_next(std::uint64_t offset) noexcept { words[0].key = offset; }
  [[nodiscard]] std::uint64_t lowest() const noexcept { return words[0].value; }
  [[nodiscard]] std::uint64_t key_word(unsigned i) const noexcept { return words[i].key; }
  [[nodiscard]] std::uint64_t value_word(unsigned i) const noexcept { return words[i].value; }
  /// Writes the leaf past the caches; durable after the next fence.
  void stream_to(const Shape& shape, Leaf& leaf) const noexcept {
    pm::stream(&leaf, words.data(), shape.bytes());
  }
};

static_assert(sizeof(RecordWords) == sizeof(LeafRecord));

/// What DRAM remembers of the live records of a leaf (leaf_table.h).
struct Summary {
  std::uint32_t hints = 0;  ///< bit of each line whose records may lie in their overflow line
  std::uint32_t count = 0;
};

template <class Live, class WordAt>
[[nodiscard]] Summary summarize(const Shape& shape, Live live, WordAt&& word_at) noexcept {
  Summary summary;
  for (unsigned i = 1; i < shape.slots(); ++i) {
    const std::uint64_t word = word_at(i);
    if (!live.holds(word)) continue;
    ++summary.count;
    const unsigned home = shape.place(Live::place_word(word)).home;
    if (home != line_of(i)) summary.hints |= line_bit(home);
  }
  return summary;
}

}  // namespace perdure::linetree
