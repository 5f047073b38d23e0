// The base leaf of DPTree: records in any order, and two sets of metadata that take turns.
//
//   byte 0        64       128            128+N   128+2N  128+3N
//        | set[0] | set[1] | fingerprint[N] | order[0] | order[1] | record[n] |
//   set: byte 0      8      16      24          56
//        | stamp | next | count | bitmap[4] | complete |
//   n records, 4 .. 256; N is n rounded up to 64. `order` lists slots by their keys.
//
// B1  the current set is the one with the higher stamp among those whose stamp is not above the
//     version of the base tree (anchor.h). The other may hold anything.
// B2  a record exists <=> the current set's bitmap has its slot's bit. The first `count` slots of
//     its order hold all of these, in the order of their keys; slots without a bit are skipped.
//     Readers look at the bit after they have read the record, too: a removal in place may clear it
//     meanwhile, and the next merge fill the slot. None is set while the set is current.
// B3  fingerprint and key of a slot in the current bitmap never change; the value only to one that
//     the middle tree's log holds too, or where it is replaced in place and no other tree has the
//     key.
// B4  a merge writes the other set and slots without a bit, and makes them durable before the
//     version that selects them. A removal in place clears one bit of the current set.
// B5  64 slots, with one line of fingerprints, are a bucket, and a record's hash names its bucket.
//     If the set's bit for a bucket in `complete` is set, all of its records are in it; else some
//     may be anywhere, for it had no room. So a search reads one line of fingerprints, not four.
// B6  a record is written into the line that its hash says (`choice_of`), if that has a free slot.
//     So most are found where a search has guessed, but nothing relies on it.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "core/assert.h"
#include "index/common/record_store.h"
#include "pm/pm.h"
#include "pool/heap.h"
#include "pool/ptr.h"

namespace perdure::dptree {

/// A bit a slot.
using Slots = std::array<std::uint64_t, 4>;
inline void add(Slots& slots, unsigned slot) noexcept {
  slots[slot / 64] |= std::uint64_t{1} << slot % 64;
}
inline void take_out(Slots& slots, unsigned slot) noexcept {
  slots[slot / 64] &= ~(std::uint64_t{1} << slot % 64);
}
[[nodiscard]] inline bool has(const Slots& slots, unsigned slot) noexcept {
  return (slots[slot / 64] >> slot % 64 & 1) != 0;
}
[[nodiscard]] inline bool any(const Slots& slots) noexcept {
  return (slots[0] | slots[1] | slots[2] | slots[3]) != 0;
}
[[nodiscard]] inline unsigned count(const Slots& slots) noexcept {
  unsigned sum = 0;
  for (const std::uint64_t word : slots) sum += pm::count_bits(word);
  return sum;
}

struct alignas(64) LeafSet {
  std::atomic<std::uint64_t> stamp;
  std::atomic<std::uint64_t> next;
  std::atomic<std::uint64_t> count;
  std::array<std::atomic<std::uint64_t>, 4> bitmap;
  std::atomic<std::uint64_t> complete;

  /// All records of this bucket are in it (B5).
  [[nodiscard]] bool is_complete(unsigned bucket) const noexcept {
    return (complete.load(std::memory_order_acquire) >> bucket & 1) != 0;
  }
  [[nodiscard]] bool has(unsigned slot) const noexcept {
    return (bitmap[slot / 64].load(std::memory_order_acquire) >> slot % 64 & 1) != 0;
  }
  [[nodiscard]] Slots slots() const noexcept {
    Slots found;
    for (std::size_t i = 0; i < found.size(); ++i)
      found[i] = bitmap[i].load(std::memory_order_acquire);
    return found;
  }
};
static_assert(sizeof(LeafSet) == 64 && offsetof(LeafSet, bitmap) == 24 &&
              offsetof(LeafSet, complete) == 56);

/// Which of two sets is current (B1).
[[nodiscard]] inline unsigned current_of(const std::array<LeafSet, 2>& set,
                                         std::uint64_t version) noexcept {
  const std::uint64_t first = set[0].stamp.load(std::memory_order_acquire);
  const std::uint64_t second = set[1].stamp.load(std::memory_order_acquire);
  if (first > version) return 1;
  if (second > version) return 0;
  return first > second ? 0 : 1;
}

inline constexpr unsigned records_per_line = pm::cache_line_bytes / sizeof(LeafRecord);

struct BaseLeaf {
  static constexpr unsigned most_entries = 256;

  std::array<LeafSet, 2> set;
};
static_assert(sizeof(BaseLeaf) == 128);

/// The slots of a set's records, in the order of their keys.
struct LeafOrder {
  std::array<std::uint8_t, BaseLeaf::most_entries> slot;
  unsigned count = 0;
};

/// A base leaf of a tree whose leaves hold `entries` records: addresses inside it.
class LeafView {
 public:
  LeafView(BaseLeaf* leaf, unsigned entries) noexcept
      : leaf_(leaf),
        entries_(entries),
        fingerprint_(reinterpret_cast<std::atomic<std::uint8_t>*>(leaf + 1)) {}

  [[nodiscard]] static constexpr std::size_t rounded(unsigned entries) noexcept {
    return (entries + 63U) & ~63U;
  }
  [[nodiscard]] static constexpr std::size_t bytes(unsigned entries) noexcept {
    return sizeof(BaseLeaf) + 3 * rounded(entries) + entries * sizeof(LeafRecord);
  }

  /// Of both orders and all records.
  [[nodiscard]] static constexpr std::size_t bytes_after_fingerprints(unsigned entries) noexcept {
    return bytes(entries) - sizeof(BaseLeaf) - rounded(entries);
  }

  [[nodiscard]] LeafSet& set(unsigned which) const noexcept { return leaf_->set[which]; }
  [[nodiscard]] unsigned current(std::uint64_t version) const noexcept {
    return current_of(leaf_->set, version);
  }
  /// The slots of a set that have a bit.
  [[nodiscard]] Slots slots(unsigned which) const noexcept {
    Slots found{};
    for (unsigned word = 0; word < words(); ++word)
      found[word] = set(which).bitmap[word].load(std::memory_order_acquire);
    return found;
  }
  [[nodiscard]] unsigned records(unsigned which) const noexcept {
    return dptree::count(slots(which));
  }
  [[nodiscard]] std::atomic<std::uint8_t>& fingerprint(unsigned slot) const noexcept {
    return fingerprint_[slot];
  }
  [[nodiscard]] std::atomic<std::uint8_t>* order(unsigned which) const noexcept {
    return fingerprint_ + rounded(entries_) * (1 + which);
  }
  /// The slot at a place of an order; some slot where that may be overwritten meanwhile.
  [[nodiscard]] unsigned slot_at(unsigned which, std::uint64_t place) const noexcept {
    return std::min<unsigned>(order(which)[place].load(std::memory_order_acquire), entries_ - 1);
  }
  [[nodiscard]] LeafRecord& record(unsigned slot) const noexcept {
    return reinterpret_cast<LeafRecord*>(fingerprint_ + 3 * rounded(entries_))[slot];
  }
  [[nodiscard]] std::uint64_t match(unsigned word, std::uint8_t wanted) const noexcept {
    return pm::match_64(
        reinterpret_cast<const std::uint8_t*>(fingerprint_ + std::size_t{64} * word), wanted);
  }
  /// The bucket of records with this hash (B5).
  [[nodiscard]] [[gnu::always_inline]] unsigned bucket_of(std::uint64_t hash) const noexcept {
    return choice_of(hash) / 64;
  }
  /// The first slot of the line, in its bucket, where a record with this hash is if that had room
  /// (B6). Both choices are on media: to change them needs a new layout version.
  [[nodiscard]] [[gnu::always_inline]] unsigned choice_of(std::uint64_t hash) const noexcept {
    constexpr unsigned low = 40;  // the lower ones make fingerprints and filters
    constexpr unsigned bits = 16;
    constexpr std::uint64_t slots = 64;
    const std::uint64_t share = hash >> low & ((1U << bits) - 1);
    return static_cast<unsigned>(share * words() * slots >> bits) & ~(records_per_line - 1);
  }
  /// Whether a record with this hash may be in a slot of a set with these complete buckets (B5).
  [[nodiscard]] [[gnu::always_inline]] bool is_slot_for(unsigned slot, std::uint64_t hash,
                                                        std::uint64_t complete) const noexcept {
    const unsigned bucket = bucket_of(hash);
    return slot / 64 == bucket || (complete >> bucket & 1) == 0;
  }
  /// The slot and the words of the first record with the fingerprint of a hash of which
  /// is_it(words) says yes.
  template <class IsIt>
  [[nodiscard]] [[gnu::always_inline]] std::optional<std::pair<unsigned, RecordWords>> find(
      unsigned which, std::uint64_t hash, IsIt&& is_it) const {
    const unsigned bucket = bucket_of(hash);
    const bool is_complete = set(which).is_complete(bucket);
    const unsigned first = is_complete ? bucket : 0;
    const unsigned end = is_complete ? bucket + 1 : words();
    for (unsigned word = first; word < end; ++word)
      for (std::uint64_t left = matching(which, word, hash); left != 0; left &= left - 1) {
        const unsigned slot = lowest(word, left);
        const RecordWords words = record(slot).load();
        if (set(which).has(slot) && is_it(words)) return std::pair(slot, words);  // B2
      }
    return std::nullopt;
  }
  [[nodiscard]] unsigned words() const noexcept {
    return static_cast<unsigned>(rounded(entries_) / 64);
  }
  /// Prefetches what tells where a record of a set is: with one hash, or any.
  void prefetch(unsigned which, std::uint64_t hash) const noexcept {
    pm::prefetch(&set(which));
    pm::prefetch(&fingerprint_[std::size_t{64} * bucket_of(hash)]);
  }
  /// Prefetches the record with this hash, where it probably is (B6).
  void prefetch_record(std::uint64_t hash) const noexcept {
    pm::prefetch(&record(std::min(choice_of(hash), entries_ - 1)));
  }
  void prefetch(unsigned which) const noexcept {
    pm::prefetch(&set(which));
    pm::prefetch_range(fingerprint_, rounded(entries_));
  }

  /// Reads the record of a slot; false: there is none (B2).
  [[nodiscard]] bool read(unsigned which, unsigned slot, RecordWords& out) const noexcept {
    if (!set(which).has(slot)) return false;
    out = record(slot).load();
    return set(which).has(slot);
  }
  /// Slots without a bit.
  [[nodiscard]] unsigned room(unsigned which) const noexcept { return entries_ - records(which); }

  /// Writes record and fingerprint of a slot without a bit. Not flushed.
  void fill(unsigned slot, RecordWords words, std::uint8_t fingerprint) const noexcept {
    record(slot).store(words);
    fingerprint_[slot].store(fingerprint, std::memory_order_release);
  }
  /// Flushes the records of `written` and the fingerprints of `filled`, each line once.
  void flush(const Slots& written, const Slots& filled) const noexcept {
    for (unsigned word = 0; word < words(); ++word) {
      if (filled[word] != 0) pm::flush(&fingerprint_[std::size_t{64} * word], 1);
      for (std::uint64_t left = written[word]; left != 0;) {
        const unsigned slot =
            static_cast<unsigned>(std::countr_zero(left)) & ~(records_per_line - 1);
        pm::flush(&record(64 * word + slot), 1);
        left &= ~(((std::uint64_t{1} << records_per_line) - 1) << slot);
      }
    }
  }

  [[nodiscard]] LeafOrder listed(unsigned which) const noexcept {
    LeafOrder found;
    each(which, [&](unsigned slot) {
      found.slot[found.count++] = static_cast<std::uint8_t>(slot);
      return true;
    });
    return found;
  }
  /// Calls visit(slot) for the records of a set in key order, until it returns false.
  template <class Visit>
  [[gnu::always_inline]] void each(unsigned which, Visit&& visit) const {
    const std::uint64_t count = set(which).count.load(std::memory_order_acquire);
    const Slots there = slots(which);
    for (std::uint64_t i = 0; i < count && i < entries_; ++i) {
      const unsigned slot = order(which)[i].load(std::memory_order_acquire);
      if (slot < entries_ && dptree::has(there, slot) && !visit(slot)) return;
    }
  }

 private:
  [[nodiscard]] static unsigned lowest(unsigned word, std::uint64_t bits) noexcept {
    return 64 * word + static_cast<unsigned>(std::countr_zero(bits));
  }
  [[nodiscard]] [[gnu::always_inline]] std::uint64_t matching(unsigned which, unsigned word,
                                                              std::uint64_t hash) const noexcept {
    return match(word, fingerprint_from(hash)) &
           set(which).bitmap[word].load(std::memory_order_acquire);
  }
  BaseLeaf* leaf_;
  unsigned entries_;
  std::atomic<std::uint8_t>* fingerprint_;
};
static_assert(sizeof(std::atomic<std::uint8_t>) == 1);

/// The slots that a set has no bit for. A record gets one in the line of its choice while there are
/// any (B6), else the lowest in its bucket (B5), else the lowest.
class FreeSlots {
 public:
  FreeSlots(unsigned entries, const Slots& used, std::uint64_t complete) noexcept
      : complete_(complete) {
    for (unsigned word = 0; 64 * word < entries; ++word) {
      const unsigned slots = std::min(64U, entries - 64 * word);
      free_[word] = ~used[word] & ~std::uint64_t{0} >> (64 - slots);
    }
  }
  /// There is one.
  [[nodiscard]] unsigned take(unsigned choice) noexcept {
    unsigned word = choice / 64;
    std::uint64_t free = in_line(word, choice);
    if (free == 0) free = free_[word];
    if (free == 0) {
      complete_ &= ~(std::uint64_t{1} << word);
      for (word = 0; word + 1 < free_.size() && free_[word] == 0;) ++word;
      free = free_[word];
    }
    PERDURE_ASSERT(free != 0);
    const auto slot = static_cast<unsigned>(std::countr_zero(free));
    free_[word] &= ~(std::uint64_t{1} << slot);
    return 64 * word + slot;
  }
  /// For the set that has what was given out, too.
  [[nodiscard]] std::uint64_t complete() const noexcept { return complete_; }

 private:
  /// Those of the line with a slot.
  [[nodiscard]] std::uint64_t in_line(unsigned word, unsigned slot) const noexcept {
    constexpr std::uint64_t line = (1U << records_per_line) - 1;
    return free_[word] & line << (slot % 64 & ~(records_per_line - 1));
  }
  Slots free_{};
  std::uint64_t complete_;
};
static_assert(Heap::block_alignment(LeafView::bytes(4)) >= pm::cache_line_bytes &&
              Heap::block_alignment(LeafView::bytes(256)) >= pm::cache_line_bytes);

}  // namespace perdure::dptree
