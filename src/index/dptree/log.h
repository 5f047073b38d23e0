// The log of a buffer tree: a chain of segments, newest first, with one record per change.
//
//   segment: byte 0     8        32
//                | next | unused | record[n] |
//   record:  byte 0     8       16      24
//                | key | value | check | unused |
//
// A record's key and value are the words of record_store.h; of a removed byte string, the value is
// the blob that it had, because the blob holds the key.
//
// G1  a record counts <=> its check word is the hash of its words, of its log's seal (which index
//     and which generation) and of its kind, which is in the two lowest bits. So what an earlier
//     log left in the block is no record, and neither is one that was torn.
// G2  a record lies in one cache line, and its check word is stored last and is durable before
//     anything shows the record. A removal in place turns a put into a removal by the one word.
// G3  the records of one key stand in the order in which they were made: by slot, and by segment
//     from the oldest on.
// G4  a segment leads to the one before it, and is durable before the anchor's word leads to it.
// G5  a log that is dropped keeps its oldest segments, a record for each 64 of the base tree: so
//     merges of a full pool, where leaves take all other room, are for more than a few changes.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "index/record/record_store.h"
#include "pm/pm.h"
#include "pool/pool.h"

namespace perdure::dptree {

enum class Change : std::uint8_t { put = 1, removal = 2 };

struct alignas(32) LogRecord {
  std::atomic<std::uint64_t> key;
  std::atomic<std::uint64_t> value;
  std::atomic<std::uint64_t> check;

  [[nodiscard]] static std::uint64_t check_of(RecordWords words, std::uint64_t seal,
                                              Change change) noexcept {
    const std::uint64_t hash =
        detail::fold(words.key ^ 0x8ebc6af09c88c6e3ULL, words.value ^ 0x589965cc75374cc3ULL) ^
        words.value;
    const std::uint64_t mixed =
        detail::fold(hash ^ seal * 0x9e3779b97f4a7c15ULL,
                     0xd6e8feb86659fd93ULL + static_cast<std::uint64_t>(change));
    return (mixed & ~std::uint64_t{3}) | static_cast<std::uint64_t>(change);
  }

  [[nodiscard]] bool is_removal() const noexcept {
    return (check.load(std::memory_order_acquire) & 3) ==
           static_cast<std::uint64_t>(Change::removal);
  }
  [[nodiscard]] RecordWords words() const noexcept {
    return {key.load(std::memory_order_acquire), value.load(std::memory_order_acquire)};
  }
  /// True when this is a record of that log (G1).
  [[nodiscard]] bool counts(std::uint64_t seal, Change& change) const noexcept {
    const std::uint64_t word = check.load(std::memory_order_acquire);
    change = (word & 3) == 1 ? Change::put : Change::removal;
    return word == check_of(words(), seal, change);
  }
};
static_assert(sizeof(LogRecord) == 32 && offsetof(LogRecord, check) == 16);

struct alignas(32) LogSegment {
  std::atomic<std::uint64_t> next;

  [[nodiscard]] static constexpr std::size_t bytes(unsigned records) noexcept {
    return sizeof(LogSegment) + records * sizeof(LogRecord);
  }
  [[nodiscard]] LogRecord& record(unsigned i) noexcept {
    return reinterpret_cast<LogRecord*>(this + 1)[i];
  }
};
static_assert(sizeof(LogSegment) == 32);
static_assert(Heap::block_alignment(LogSegment::bytes(3)) >= sizeof(LogRecord));
static_assert(Heap::block_alignment(LogSegment::bytes(127)) >= sizeof(LogRecord));

/// The end of the log that is being written. Thread-safe.
class LogTail {
 public:
  LogTail(Pool& pool, unsigned segment_records) noexcept
      : pool_(pool), segment_records_(segment_records) {}

  /// A slot for one record, counted with `count()`, which no two threads are in at once; null: the
  /// pool has no room for a segment. Asks for the
  /// next line: a store to one that is in no cache holds the flush up.
  template <class Count>
  [[nodiscard]] LogRecord* take(Count&& count) noexcept {
    constexpr unsigned records_per_line = pm::cache_line_bytes / sizeof(LogRecord);
    (void)lock_.lock();
    LogRecord* slot = nullptr;
    if (used_ < segment_records_ || extend()) {
      slot = &segment_->record(used_++);
      const unsigned next = std::min(used_ - 1 + records_per_line, segment_records_ - 1);
      pm::prefetch_for_write(&segment_->record(next));
      count();
    }
    lock_.unlock_unchanged();
    return slot;
  }
  /// From now on the log whose newest segment `head` leads to, and whose segments `empty`, newest
  /// first, hold no record yet. No writer runs.
  void move_to(std::atomic<std::uint64_t>& head, std::vector<std::uint64_t> empty) noexcept {
    head_ = &head;
    empty_ = std::move(empty);
    segment_ = nullptr;
    used_ = segment_records_;
  }

 private:
  [[nodiscard]] bool extend() noexcept {
    used_ = 0;
    if (!empty_.empty()) {
      segment_ = pool_.at<LogSegment>(empty_.back());
      empty_.pop_back();
      return true;
    }
    used_ = segment_records_;
    Reservation block = pool_.heap().reserve(LogSegment::bytes(segment_records_));
    if (!block) return false;
    segment_ = pool_.at<LogSegment>(block.offset);
    segment_->next.store(head_->load(std::memory_order_relaxed), std::memory_order_relaxed);
    pm::persist(segment_, sizeof *segment_);  // G4
    pool_.heap().publish({&block, 1}, head_, block.offset);
    used_ = 0;
    return true;
  }

  Pool& pool_;
  const unsigned segment_records_;
  pm::VersionLock lock_;
  std::atomic<std::uint64_t>* head_ = nullptr;
  std::vector<std::uint64_t> empty_;
  LogSegment* segment_ = nullptr;
  unsigned used_ = 0;
};

}  // namespace perdure::dptree
