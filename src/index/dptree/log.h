// The log of a buffer tree: a chain of segments, newest first, with one record per change. It is
// written in parts, each with a segment of its own open.
//
//   segment: byte 0     8        32
//                | next | unused | record[n] |
//   record:  byte 0     8       16      24
//                | key | value | check | other |
//
// A record's key and value are the words of record_store.h; of a removed byte string, the value is
// the blob that it had, because the blob holds the key.
//
// G1  a record counts <=> its check word is the hash of its words, of its log's seal (which index
//     and which generation) and of its kind, which is in the two lowest bits. So what an earlier
//     log left in the block is no record, and neither is one that was torn. The third bit says
//     which of its two value words counts.
// G2  a record lies in one cache line, and its check word is stored last and is durable before
//     anything shows the record. A removal in place turns a put into a removal by the one word, a
//     replacement in place stores the value word that does not count and then the check word.
// G3  the records of one key stand in the order in which they were made: by slot, and by segment
//     from the oldest on. They all go to one part, and a segment that a part opens is newer than
//     those it has opened before.
// G4  a segment leads to the one before it, and is durable before the anchor's word leads to it.
// G5  a log that is dropped keeps its oldest segments, a record for each 64 of the base tree: so
//     merges of a full pool, where leaves take all other room, are for more than a few changes.
//     Three quarters are set aside until the log before is gone: what finds no room in its leaf
//     then is handed on to them. Whichever is opened after a new segment is put before that in the
//     chain (G3). There are at most half as many parts, so that one without a segment is not what a
//     merge is for.
// G6  a record of an insert counts as a put where its key is absent without it, that of an update
//     where it is present, and else for nothing: so it may be durable before anybody knows. In a
//     log it is the first one of its key. The tree keeps an entry of a change that failed,
//     because it would count where a removal in place makes its key absent below; it is turned to
//     one then.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "index/common/record_store.h"
#include "pm/pm.h"
#include "pool/pool.h"

namespace perdure::dptree {

enum class Change : std::uint8_t { insert = 0, put = 1, removal = 2, update = 3 };

struct alignas(32) LogRecord {
  std::atomic<std::uint64_t> key;
  std::atomic<std::uint64_t> value;
  std::atomic<std::uint64_t> check;
  std::atomic<std::uint64_t> other;  ///< the value where it was replaced in place

  /// `in_other`: the value word is `other`.
  [[nodiscard]] static std::uint64_t check_of(RecordWords words, std::uint64_t seal, Change change,
                                              bool in_other = false) noexcept {
    const std::uint64_t bits = static_cast<std::uint64_t>(change) | (in_other ? other_bit : 0);
    const std::uint64_t hash =
        detail::fold(words.key ^ 0x8ebc6af09c88c6e3ULL, words.value ^ 0x589965cc75374cc3ULL) ^
        words.value;
    const std::uint64_t mixed =
        detail::fold(hash ^ seal * 0x9e3779b97f4a7c15ULL, 0xd6e8feb86659fd93ULL + bits);
    return (mixed & ~(change_bits | other_bit)) | bits;
  }
  /// The check word that makes a put of this log a removal of the same record.
  [[nodiscard]] std::uint64_t check_of_removal(std::uint64_t seal) const noexcept {
    return check_of(words(), seal, Change::removal, is_in_other());
  }

  [[nodiscard]] bool is_removal() const noexcept { return change() == Change::removal; }
  [[nodiscard]] Change change() const noexcept {
    return static_cast<Change>(check.load(std::memory_order_acquire) & change_bits);
  }
  [[nodiscard]] bool is_in_other() const noexcept {
    return (check.load(std::memory_order_acquire) & other_bit) != 0;
  }
  [[nodiscard]] RecordWords words() const noexcept {
    const std::atomic<std::uint64_t>& counting = is_in_other() ? other : value;
    return {key.load(std::memory_order_acquire), counting.load(std::memory_order_acquire)};
  }
  /// True when this is a record of that log (G1).
  [[nodiscard]] bool counts(std::uint64_t seal, Change& kind) const noexcept {
    kind = change();
    return check.load(std::memory_order_acquire) == check_of(words(), seal, kind, is_in_other());
  }

 private:
  static constexpr std::uint64_t change_bits = 3;
  static constexpr std::uint64_t other_bit = 4;
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

/// Where the next records of a log go. Thread-safe.
class LogTail {
 public:
  static constexpr unsigned most_parts = 32;
  /// G5: a log that is dropped keeps room for one record per this many of the base tree.
  static constexpr std::uint64_t records_per_kept_record = 64;

  /// A part, on a line of its own. Written under its lock.
  struct alignas(pm::cache_line_bytes) Part {
    std::atomic<std::uint64_t> entries{0};  ///< keys that its records are of
    std::atomic<std::uint64_t> changes{0};  ///< records
    std::atomic<std::uint64_t> blob_bytes{0};

   private:
    friend class LogTail;
    pm::VersionLock lock_;
    LogSegment* segment_ = nullptr;
    unsigned used_ = 0;  ///< of its segment
  };

  /// Over a base tree of `base_records` records.
  LogTail(Pool& pool, unsigned segment_records, std::uint64_t base_records) noexcept
      : pool_(pool),
        segment_records_(segment_records),
        parts_(static_cast<unsigned>(std::bit_floor(std::clamp<std::uint64_t>(
            base_records / records_per_kept_record / segment_records / 2, 1, most_parts)))) {}

  [[nodiscard]] unsigned parts() const noexcept { return parts_; }
  /// The part for a key, by a number that is its key's.
  [[nodiscard]] Part& part(std::uint64_t number) noexcept { return part_[number & (parts_ - 1)]; }
  [[nodiscard]] const Part& part(std::uint64_t number) const noexcept {
    return part_[number & (parts_ - 1)];
  }

  /// A slot for one record of a part, counted with `count()`, which no two threads are in at once
  /// for that part; null: the pool has no room for a segment. Prefetches the next line: a store to
  /// one that is in no cache delays the flush. `all`: from what is set aside, too.
  template <class Count>
  [[nodiscard]] LogRecord* take(Part& part, Count&& count, bool all = false) noexcept {
    constexpr unsigned records_per_line = pm::cache_line_bytes / sizeof(LogRecord);
    const pm::LockGuard alone(part.lock_);
    LogRecord* slot = nullptr;
    if ((part.segment_ != nullptr && part.used_ < segment_records_) || open_segment(part, all)) {
      slot = &part.segment_->record(part.used_++);
      slot->check.store(0, std::memory_order_relaxed);  // of an earlier log, it may say `other`
      const unsigned next = std::min(part.used_ - 1 + records_per_line, segment_records_ - 1);
      pm::prefetch_for_write(&part.segment_->record(next));
      count();
    }
    return slot;
  }
  /// Calls count() as `take` does.
  template <class Count>
  void recount(Part& part, Count&& count) noexcept {
    const pm::LockGuard alone(part.lock_);
    count();
  }
  /// The log's newest segment is what `head` leads to, and the segments `empty`, newest first, hold
  /// no record yet; `set_aside` of them are set aside (G5). No writer runs.
  void begin(std::atomic<std::uint64_t>& head, std::vector<std::uint64_t> empty,
             std::size_t set_aside) noexcept {
    head_ = &head;
    empty_ = std::move(empty);
    set_aside_ = set_aside;
    oldest_new_ = nullptr;
  }
  /// Nothing is set aside any more.
  void release() noexcept {
    const pm::LockGuard alone(chain_);
    set_aside_ = 0;
  }

 private:
  [[nodiscard]] bool open_segment(Part& part, bool all) noexcept {
    LogSegment* segment = nullptr;
    {
      const pm::LockGuard alone(chain_);
      const bool may_take = empty_.size() > (all ? 0 : set_aside_);
      segment = may_take && oldest_new_ == nullptr ? oldest_empty() : new_segment();
      if (segment == nullptr && may_take) segment = newest_empty();
    }
    if (segment == nullptr) return false;
    part.segment_ = segment;
    part.used_ = 0;
    return true;
  }
  [[nodiscard]] LogSegment* oldest_empty() noexcept {
    const std::uint64_t at = empty_.back();
    empty_.pop_back();
    return pool_.at<LogSegment>(at);
  }
  /// Null: no room. Power-cut states: with it, or without it.
  [[nodiscard]] LogSegment* new_segment() noexcept {
    Reservation block = pool_.heap().reserve(LogSegment::bytes(segment_records_));
    if (!block) return nullptr;
    LogSegment& segment = *pool_.at<LogSegment>(block.offset);
    segment.next.store(head_->load(std::memory_order_relaxed), std::memory_order_relaxed);
    pm::persist(&segment, sizeof segment);  // G4
    pool_.heap().publish({&block, 1}, head_, block.offset);
    if (oldest_new_ == nullptr) oldest_new_ = &segment;
    return &segment;
  }
  /// It comes before all others in the chain, which new ones are in already (G3). Power-cut states:
  /// where it was; in no chain, and freed by recovery; in front. Cost: 3 flushed lines, 3 fences.
  [[nodiscard]] LogSegment* newest_empty() noexcept {
    const std::uint64_t at = empty_.front();
    empty_.erase(empty_.begin());
    LogSegment& segment = *pool_.at<LogSegment>(at);
    pm::store_persist(oldest_new_->next, segment.next.load(std::memory_order_relaxed));
    pm::store_persist(segment.next, head_->load(std::memory_order_relaxed));  // G4
    pm::store_persist(*head_, at);
    return &segment;
  }

  Pool& pool_;
  const unsigned segment_records_;
  const unsigned parts_;
  pm::VersionLock chain_;
  std::atomic<std::uint64_t>* head_ = nullptr;
  std::vector<std::uint64_t> empty_;
  std::size_t set_aside_ = 0;
  LogSegment* oldest_new_ = nullptr;  ///< it leads to the newest one of `empty_`
  const std::unique_ptr<Part[]> part_{new Part[parts_]};
};

}  // namespace perdure::dptree
