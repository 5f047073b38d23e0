// The leaf array of ROART on media: up to 64 pointers to records, in no order.
//
//   byte 0              8        64
//        | lock word    | unused | slot[64] |
//
//   slot: bit 63        47          0
//         | fingerprint | pool offset |       0: no record
//
// A record is looked for in the line that its fingerprint names, then in those after it, and put
// into the first with room: most often one line is read.
//
// A1  a record is in the index <=> a slot of a linked array leads to it. Fingerprint and offset are
//     one word: one 8-byte store adds, replaces or takes out. How many there are is not stored.
// A2  what a slot leads to is durable before the slot.
// A3  slots change under the lock, which is released when the change is durable. Who reads a slot
//     or a value first and the lock afterwards, and finds it held, makes durable what he saw.
// A4  an array that is unlinked keeps its slots: who comes late finds what there was.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <span>

#include "index/roart/opening_lock.h"
#include "pm/pm.h"
#include "pm/simd.h"
#include "pool/heap.h"

namespace perdure::roart {

/// A slot by value.
class Slot {
 public:
  static constexpr unsigned fingerprint_shift = 48;

  Slot() = default;
  explicit Slot(std::uint64_t word) noexcept : word_(word) {}
  Slot(std::uint16_t fingerprint, std::uint64_t offset) noexcept
      : word_(std::uint64_t{fingerprint} << fingerprint_shift | offset) {}

  [[nodiscard]] std::uint64_t word() const noexcept { return word_; }
  [[nodiscard]] explicit operator bool() const noexcept { return word_ != 0; }
  [[nodiscard]] std::uint16_t fingerprint() const noexcept {
    return static_cast<std::uint16_t>(word_ >> fingerprint_shift);
  }
  [[nodiscard]] std::uint64_t offset() const noexcept {
    return word_ & ((std::uint64_t{1} << fingerprint_shift) - 1);
  }

 private:
  std::uint64_t word_ = 0;
};

/// The fingerprint of a key with this hash. On media: a change needs a new layout version.
[[nodiscard]] inline std::uint16_t slot_fingerprint(std::uint64_t hash) noexcept {
  return static_cast<std::uint16_t>(hash ^ hash >> 32);
}

struct LeafArray {
  static constexpr unsigned most_entries = 64;
  static constexpr unsigned no_slot = most_entries;
  static constexpr unsigned line_slots = pm::cache_line_bytes / sizeof(std::uint64_t);

  alignas(64) OpeningLock lock;
  alignas(64) std::array<std::atomic<std::uint64_t>, most_entries> word;

  [[nodiscard]] static LeafArray* make(void* memory, std::uint16_t opening) noexcept {
    auto* const array = new (memory) LeafArray(opening);
    for (auto& word : array->word) word.store(0, std::memory_order_relaxed);
    return array;
  }

  [[nodiscard]] Slot slot(unsigned i) const noexcept {
    return Slot(word[i].load(std::memory_order_acquire));
  }

  /// A place, and what was there.
  struct Found {
    unsigned place = no_slot;
    Slot slot;
  };

  /// The slot with the fingerprint for which `matches(slot)` is true, of the first `entries`.
  template <class Matches>
  [[nodiscard]] Found find(std::uint16_t fingerprint, unsigned entries,
                           Matches&& matches) const noexcept {
    return probe(fingerprint, entries, [&](Slot slot) {
      return slot && slot.fingerprint() == fingerprint && matches(slot);
    });
  }
  /// A slot without a record.
  [[nodiscard]] unsigned free_place(std::uint16_t fingerprint, unsigned entries) const noexcept {
    return probe(fingerprint, entries, [](Slot slot) { return !slot; }).place;
  }
  [[nodiscard]] bool is_empty() const noexcept {
    for (unsigned i = 0; i < most_entries; ++i)
      if (slot(i)) return false;
    return true;
  }
  /// True when no record comes after the first `entries`, where none may be.
  [[nodiscard]] bool ends_at(unsigned entries) const noexcept {
    return pm::are_zero(word.data() + entries, most_entries - entries);
  }
  using Words = std::array<std::uint64_t, most_entries>;
  /// The words of the slots with a record, of the first `entries`, put into `words`.
  [[nodiscard]] std::span<const std::uint64_t> used(unsigned entries, Words& words) const noexcept {
    unsigned count = 0;
    for (unsigned i = 0; i < entries; ++i)
      if (const Slot here = slot(i)) words[count++] = here.word();
    return {words.data(), count};
  }
  /// Takes out a slot that is there.
  void clear(Slot present) noexcept {
    unsigned i = 0;
    while (slot(i).word() != present.word()) ++i;
    word[i].store(0, std::memory_order_relaxed);
  }

  /// Before anything leads to the array: it has room.
  void add(Slot added, unsigned entries) noexcept {
    word[free_place(added.fingerprint(), entries)].store(added.word(), std::memory_order_relaxed);
  }

  /// Prefetches what a lookup reads most often.
  void prefetch_for(std::uint16_t fingerprint, unsigned entries) const noexcept {
    pm::prefetch(this);
    pm::prefetch(&word[first_place(fingerprint, entries)]);
  }
  void prefetch_slots(unsigned entries) const noexcept {
    pm::prefetch_range(word.data(), entries * sizeof word[0]);
  }

 private:
  explicit LeafArray(std::uint16_t opening) noexcept : lock(opening) {}

  [[nodiscard]] static unsigned first_place(std::uint16_t fingerprint, unsigned entries) noexcept {
    return fingerprint % ((entries + line_slots - 1) / line_slots) * line_slots;
  }

  template <class Wanted>
  [[nodiscard]] Found probe(std::uint16_t fingerprint, unsigned entries,
                            Wanted&& wanted) const noexcept {
    unsigned place = first_place(fingerprint, entries);
    for (unsigned left = entries; left > 0; --left) {
      if (const Slot here = slot(place); wanted(here)) return {place, here};
      if (++place == entries) place = 0;
    }
    return {};
  }
};
static_assert(sizeof(LeafArray) == 576 && Heap::block_alignment(sizeof(LeafArray)) == 64);

}  // namespace perdure::roart
