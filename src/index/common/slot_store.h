// RecordStore<SlotKeys>: records whose key lies in the index and whose value lies in a 128-byte
// slot of its own.
//
//   record: {key, pool offset of the slot}
//   slot: byte 0      8                128
//              | bytes | value ... pad |
//
// R1 to R3 of record_store.h hold for slots as they do for blobs: one never changes while it is
// visible, so a value of more than eight bytes is replaced as a whole, by one store.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "index/common/record_store.h"

namespace perdure {

/// A value on media.
struct ValueSlot {
  std::uint64_t bytes;
  std::array<char, max_slot_value_bytes> text;

  [[nodiscard]] std::string_view value() const noexcept { return {text.data(), bytes}; }
};
static_assert(sizeof(ValueSlot) == slot_bytes);

template <>
class RecordStore<SlotKeys> {
 public:
  static constexpr bool has_blobs = true;
  struct Draft {
    RecordWords words;
    Reservation block;
  };

  RecordStore(Pool& pool, Epochs& epochs) noexcept : pool_(pool), epochs_(epochs) {}

  [[nodiscard]] static bool within_limits(std::uint64_t, std::string_view value) noexcept {
    return value.size() <= max_slot_value_bytes;
  }

  /// Writes and flushes a slot, without a fence. False: out of space. Cost: 1 or 2 flushed lines.
  [[nodiscard]] bool draft(std::uint64_t key, std::string_view value, Draft& out) const noexcept {
    out.block = pool_.heap().reserve(sizeof(ValueSlot));
    if (!out.block) return false;
    auto* const slot = pool_.at<ValueSlot>(out.block.offset);
    slot->bytes = value.size();
    if (!value.empty()) std::memcpy(slot->text.data(), value.data(), value.size());
    pm::flush(slot, offsetof(ValueSlot, text) + value.size());
    out.words = {key, out.block.offset};
    return true;
  }
  void cancel(Draft& draft) const noexcept { pool_.heap().cancel(draft.block); }
  /// Frees the slot of a record that is no longer visible, after a grace period (R3).
  void retire(RecordWords words) const {
    epochs_.retire(pool_.heap(), words.value, sizeof(ValueSlot));
  }
  /// Frees the slot of a record that was never visible.
  void free(RecordWords words) const noexcept { pool_.heap().free(words.value, sizeof(ValueSlot)); }

  [[nodiscard]] std::uint64_t key_of(RecordWords words) const noexcept { return words.key; }
  [[nodiscard]] bool less(RecordWords a, RecordWords b) const noexcept { return a.key < b.key; }
  // The words are current (validated or locked), or were while this thread has been pinned.
  [[nodiscard]] std::string_view value_of(RecordWords words) const noexcept {
    return pool_.at<ValueSlot>(words.value)->value();
  }
  void read_value(RecordWords words, std::string& out) const { out.assign(value_of(words)); }
  void append(RecordWords words, SlotScan& out) const { out.append(words.key, value_of(words)); }
  void prefetch(RecordWords words) const noexcept { pm::prefetch(pool_.base() + words.value); }

  /// Checks that the words lead to a sane slot. Errors: corrupt.
  [[nodiscard]] Result<void> check(RecordWords words) const {
    if (!pool_.contains(words.value, sizeof(ValueSlot)) || words.value % slot_bytes != 0)
      return detail::corrupt_record("a record leads to no slot", words.value, pool_);
    if (pool_.at<ValueSlot>(words.value)->bytes > max_slot_value_bytes)
      return detail::corrupt_record("a record's length is impossible", words.value, pool_);
    return {};
  }
  /// Recovery: checks the slot and marks it in the heap. Errors: corrupt. Thread-safe.
  [[nodiscard]] Result<void> mark(RecordWords words) const {
    Result<void> sane = check(words);
    if (!sane) return sane;
    if (!pool_.heap().mark(words.value, sizeof(ValueSlot)))
      return detail::corrupt_record("two records share a slot, or it is no block", words.value,
                                    pool_);
    return {};
  }

 private:
  Pool& pool_;
  Epochs& epochs_;
};

}  // namespace perdure
