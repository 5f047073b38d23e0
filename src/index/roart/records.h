// The records that ROART's leaf arrays lead to: for integers {key, value} in 16 bytes, for byte
// strings the immutable blob of record_store.h. Named by their pool offsets.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/result.h"
#include "index/common/record_store.h"
#include "pm/pm.h"
#include "pool/epoch.h"
#include "pool/pool.h"

namespace perdure::roart {

template <class Keys>
class Records;

template <>
class Records<IntegerKeys> {
 public:
  Records(Pool& pool, Epochs& epochs) noexcept : pool_(pool), epochs_(epochs) {}

  /// Writes and flushes a record in a new block, without a fence. False: out of space.
  [[nodiscard]] bool draft(std::uint64_t key, std::uint64_t value,
                           Reservation& block) const noexcept {
    block = pool_.heap().reserve(sizeof(LeafRecord));
    if (!block) return false;
    auto* const record = new (pool_.at<void>(block.offset)) LeafRecord;
    record->store({key, value});
    pm::flush(record, sizeof *record);
    return true;
  }
  [[nodiscard]] std::uint64_t key_of(std::uint64_t offset) const noexcept {
    return at(offset).key.load(std::memory_order_acquire);
  }
  void read_value(std::uint64_t offset, std::uint64_t& out) const noexcept {
    out = at(offset).value.load(std::memory_order_acquire);
  }
  void append(std::uint64_t offset, IntegerScan& out) const {
    const RecordWords words = at(offset).load();
    out.append(words.key, words.value);
  }
  /// The word that an update stores into.
  [[nodiscard]] std::atomic<std::uint64_t>& value_word(std::uint64_t offset) const noexcept {
    return pool_.at<LeafRecord>(offset)->value;
  }
  /// Flushes what an update may have stored and not yet made durable.
  void flush(std::uint64_t offset) const noexcept { pm::flush(&at(offset), sizeof(LeafRecord)); }
  void prefetch(std::uint64_t offset) const noexcept { pm::prefetch(&at(offset)); }

  void retire(std::uint64_t offset) const {
    epochs_.retire(pool_.heap(), offset, sizeof(LeafRecord));
  }
  void free(std::uint64_t offset) const noexcept { pool_.heap().free(offset, sizeof(LeafRecord)); }

  /// Errors: corrupt: no record can lie there. Reads nothing of it.
  [[nodiscard]] Result<void> check_place(std::uint64_t offset) const {
    if (pool_.contains(offset, sizeof(LeafRecord)) && offset % alignof(LeafRecord) == 0) return {};
    return detail::corrupt_record("a slot leads outside the pool", offset, pool_);
  }
  /// Of what is at a place where a record can lie. Errors: corrupt: it is none.
  [[nodiscard]] Result<void> check(std::uint64_t) const { return {}; }
  [[nodiscard]] Result<void> mark(std::uint64_t offset) const {
    if (pool_.heap().mark(offset, sizeof(LeafRecord))) return {};
    return detail::corrupt_record("two slots lead to a record, or it is no block", offset, pool_);
  }

 private:
  [[nodiscard]] const LeafRecord& at(std::uint64_t offset) const noexcept {
    return *pool_.at<LeafRecord>(offset);
  }

  Pool& pool_;
  Epochs& epochs_;
};

template <>
class Records<ByteKeys> {
 public:
  Records(Pool& pool, Epochs& epochs) noexcept : pool_(pool), store_(pool, epochs) {}

  [[nodiscard]] bool draft(std::string_view key, std::string_view value,
                           Reservation& block) const noexcept {
    RecordStore<ByteKeys>::Draft made;
    if (!store_.draft(key, value, made)) return false;
    block = made.block;
    return true;
  }
  [[nodiscard]] std::string_view key_of(std::uint64_t offset) const noexcept {
    return store_.key_of({0, offset});
  }
  void read_value(std::uint64_t offset, std::string& out) const {
    store_.read_value({0, offset}, out);
  }
  void append(std::uint64_t offset, BytesScan& out) const { store_.append({0, offset}, out); }
  /// A blob is durable before a slot leads to it, and never changes.
  void flush(std::uint64_t) const noexcept {}
  void prefetch(std::uint64_t offset) const noexcept { store_.prefetch({0, offset}); }

  void retire(std::uint64_t offset) const { store_.retire({0, offset}); }
  void free(std::uint64_t offset) const noexcept { store_.free({0, offset}); }

  [[nodiscard]] Result<void> check_place(std::uint64_t offset) const {
    constexpr std::size_t smallest_block = 16;
    if (pool_.contains(offset, smallest_block)) return {};
    return detail::corrupt_record("a slot leads outside the pool", offset, pool_);
  }
  [[nodiscard]] Result<void> check(std::uint64_t offset) const {
    return store_.check(words_of(offset));
  }
  [[nodiscard]] Result<void> mark(std::uint64_t offset) const {
    return store_.mark(words_of(offset));
  }

 private:
  [[nodiscard]] RecordWords words_of(std::uint64_t offset) const noexcept {
    return {key_prefix(key_of(offset)), offset};
  }

  Pool& pool_;
  RecordStore<ByteKeys> store_;
};

}  // namespace perdure::roart
