// Kind<Keys>: what the two words of a slot say, for each kind of records. All else is one
// algorithm.
//
//                key word                  value word                        commits
//   IntegerKeys  the key                   the value                         the key word
//   SlotKeys     the key                   offset of the value's slot        the key word
//   ByteKeys     first 8 bytes of the key  tag << 48 | offset of the blob    the value word
//
// The commit word is stored last and in the same line, so it persists no earlier (Px86); it alone
// says whether the slot is live, and decides in which two lines the record may lie. So nothing but
// a comparison of keys ever follows a slot's offset.
//
// A byte string's tag is 1 to 65535, by its hash: an empty slot, the word 0, has none. Of slots
// with the same tag and the same first 8 bytes nearly all hold the same key.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/rng.h"
#include "index/common/key_prefix.h"
#include "index/common/record_store.h"
#include "index/common/slot_store.h"
#include "index/index.h"
#include "index/inner_tree/inner_tree.h"
#include "index/leaf/separator.h"
#include "index/linetree/leaf.h"

namespace perdure::linetree {

/// Integers and slots.
template <class Keys>
struct Kind {
  using Inner = InnerTree<IntegerKeys, FrameLayout>;
  using Live = Interval;

  /// A key made ready for searching.
  struct Probe {
    std::uint64_t key;
    Place place;
    Probe() noexcept = default;  ///< of nothing yet
    Probe(const Shape& shape, std::uint64_t wanted) noexcept
        : key(wanted), place(shape.place(wanted)) {}
    [[nodiscard]] std::uint64_t word() const noexcept { return key; }
  };

  /// Which slots of the leaf that `key` lies in are live. Keys below the leaf's lowest are in none.
  [[nodiscard]] static Live live(std::uint64_t key, std::uint64_t last) noexcept {
    return {half_of(key), last};
  }
  /// The words of an empty slot beside one with this commit word, or in a leaf with this `lo`.
  [[nodiscard]] static RecordWords empty(std::uint64_t key) noexcept { return {empty_key(key), 0}; }
  [[nodiscard]] static std::uint64_t commit_word(RecordWords words) noexcept { return words.key; }
  [[nodiscard]] static std::atomic<std::uint64_t>& commit_of(LeafRecord& slot) noexcept {
    return slot.key;
  }
  static void store_rest(LeafRecord& slot, RecordWords words) noexcept {
    slot.value.store(words.value, std::memory_order_release);
  }
  /// Of a leaf or an image: what the functions of leaf.h take.
  template <class Slots>
  [[nodiscard]] static auto words_of(const Slots& slots) noexcept {
    return [&slots](unsigned i) { return slots.key_word(i); };
  }
  /// The slots of a line that hold the key, as bits.
  [[nodiscard, gnu::always_inline]] static std::uint32_t candidates(const Leaf& leaf, unsigned line,
                                                                    const Probe& probe) noexcept {
    return matching_keys(leaf, line, probe.key);
  }

  /// A key in (below, up_to]: the roundest, which the frame of an inner node most likely holds.
  [[nodiscard]] static std::uint64_t separator(std::uint64_t below, std::uint64_t up_to) noexcept {
    return roundest_between(below, up_to);
  }

  // Between the words of a slot and those that RecordStore takes.
  [[nodiscard]] static RecordWords record(RecordWords slot) noexcept { return slot; }
  [[nodiscard]] static RecordWords slot(RecordWords record, const Probe&) noexcept {
    return record;
  }

  /// A leaf that begins here is never merged into the one before it (L2).
  [[nodiscard]] static bool stays(std::uint64_t lo) noexcept { return lo == 0 || lo == boundary; }
};

template <>
struct Kind<ByteKeys> {
  using Inner = InnerTree<ByteKeys>;
  using Live = Filled;

  struct Probe {
    std::string_view key;
    std::uint64_t slice;
    std::uint64_t tag;
    Place place;
    Probe() noexcept = default;  ///< of nothing yet
    Probe(const Shape& shape, std::string_view wanted) noexcept
        : key(wanted), slice(key_prefix(wanted)), tag(tag_of(wanted)), place(shape.place(tag)) {}
    [[nodiscard]] std::uint64_t word() const noexcept { return slice; }
  };

  /// On media: a change needs a new layout version.
  [[nodiscard]] static std::uint64_t tag_of(std::string_view key) noexcept {
    constexpr std::uint64_t tags = 0xffff;
    return place_of(hash_of(key), tags) + 1;
  }

  [[nodiscard]] static Live live(std::uint64_t, std::uint64_t) noexcept { return {}; }
  [[nodiscard]] static RecordWords empty(std::uint64_t) noexcept { return {}; }
  [[nodiscard]] static std::uint64_t commit_word(RecordWords words) noexcept { return words.value; }
  [[nodiscard]] static std::atomic<std::uint64_t>& commit_of(LeafRecord& slot) noexcept {
    return slot.value;
  }
  static void store_rest(LeafRecord& slot, RecordWords words) noexcept {
    slot.key.store(words.key, std::memory_order_release);
  }
  template <class Slots>
  [[nodiscard]] static auto words_of(const Slots& slots) noexcept {
    return [&slots](unsigned i) { return slots.value_word(i); };
  }
  /// The slots of a line that may hold the key, as bits: their blobs decide.
  [[nodiscard, gnu::always_inline]] static std::uint32_t candidates(const Leaf& leaf, unsigned line,
                                                                    const Probe& probe) noexcept {
    std::uint32_t found = 0;
    for (std::uint32_t left = matching_keys(leaf, line, probe.slice); left != 0; left &= left - 1) {
      const auto i = static_cast<unsigned>(std::countr_zero(left));
      const bool alike = leaf.value_word(line * line_slots + i) >> Filled::tag_shift == probe.tag;
      found |= static_cast<std::uint32_t>(alike) << i;
    }
    return found;
  }

  /// A key in (below, up_to]: the shortest.
  [[nodiscard]] static std::string_view separator(std::string_view below,
                                                  std::string_view up_to) noexcept {
    return separator_between(below, up_to);
  }

  [[nodiscard]] static RecordWords record(RecordWords slot) noexcept {
    constexpr std::uint64_t offset_mask = (std::uint64_t{1} << Filled::tag_shift) - 1;
    return {slot.key, slot.value & offset_mask};
  }
  [[nodiscard]] static RecordWords slot(RecordWords record, const Probe& probe) noexcept {
    return {record.key, probe.tag << Filled::tag_shift | record.value};
  }

  [[nodiscard]] static bool stays(std::uint64_t lo) noexcept { return lo == 0; }
};

/// Makes a free slot hold the words, the commit word last. Not flushed.
template <class Keys>
void store_words(LeafRecord& slot, RecordWords words) noexcept {
  Kind<Keys>::store_rest(slot, words);
  Kind<Keys>::commit_of(slot).store(Kind<Keys>::commit_word(words), std::memory_order_release);
}

/// The lowest key of a leaf with this `lo`: for byte strings a text in the pool.
template <class Keys>
[[nodiscard]] typename Keys::Key lowest_key([[maybe_unused]] const RecordStore<Keys>& records,
                                            std::uint64_t lo) noexcept {
  if constexpr (has_text_keys<Keys>) {
    if (lo == 0) return {};
    return records.key_of({0, lo});
  } else {
    return lo;
  }
}

template <class Keys>
[[nodiscard]] typename Keys::Key lowest_key(const RecordStore<Keys>& records,
                                            const Leaf& leaf) noexcept {
  return lowest_key(records, leaf.lowest());
}

/// Makes `lowest` the `lo` of a leaf that is being prepared: for byte strings it writes and flushes
/// a blob, which the caller publishes with the leaf. False: out of space.
template <class Keys>
[[nodiscard]] bool draft_lowest(const RecordStore<Keys>& records, typename Keys::Key lowest,
                                std::uint64_t& lo, Reservation& blob) noexcept {
  if constexpr (has_text_keys<Keys>) {
    typename RecordStore<Keys>::Draft draft;
    if (!records.draft(lowest, {}, draft)) return false;
    lo = draft.words.value;
    blob = draft.block;
  } else {
    lo = lowest;
  }
  return true;
}

}  // namespace perdure::linetree
