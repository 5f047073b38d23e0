// The log of a buffer tree, with counts of its keys and a Bloom filter before the tree.
//
// A key's hash names its part of the log, and the filter's words of a part's keys lie together, so
// the part's lock guards counts and filter, too.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "index/common/record_store.h"
#include "index/dptree/log.h"
#include "pm/pm.h"
#include "pool/pool.h"

namespace perdure::dptree {

/// Set bits never lie about presence: a key that was added is always found.
class BloomFilter {
 public:
  /// For `keys` keys at 10 to 20 bits each: 2 in 100 absent keys pass, or fewer.
  explicit BloomFilter(std::uint64_t keys);
  /// One caller at a time for hashes whose numbers end alike: no locked instruction.
  void add(std::uint64_t hash) noexcept {
    std::atomic<std::uint64_t>& word = words_[place(hash)];
    word.store(word.load(std::memory_order_relaxed) | bits_of(hash), std::memory_order_release);
  }
  [[nodiscard]] bool may_have(std::uint64_t hash) const noexcept {
    const std::uint64_t bits = bits_of(hash);
    return (words_[place(hash)].load(std::memory_order_acquire) & bits) == bits;
  }
  void prefetch(std::uint64_t hash) const noexcept { pm::prefetch(&words_[place(hash)]); }
  [[nodiscard]] std::uint64_t bytes() const noexcept { return (mask_ + 1) * 8; }
  /// Its lower bits say where the bits of a hash are, of which there are `least_words` at least.
  [[nodiscard]] static std::uint64_t number_of(std::uint64_t hash) noexcept { return hash >> 24; }
  static constexpr std::uint64_t least_words = 32;

 private:
  [[nodiscard]] std::uint64_t place(std::uint64_t hash) const noexcept {
    return number_of(hash) & mask_;
  }
  [[nodiscard]] static std::uint64_t bits_of(std::uint64_t hash) noexcept {
    return std::uint64_t{1} << (hash & 63) | std::uint64_t{1} << (hash >> 6 & 63) |
           std::uint64_t{1} << (hash >> 12 & 63) | std::uint64_t{1} << (hash >> 18 & 63);
  }
  std::uint64_t mask_;
  std::unique_ptr<std::atomic<std::uint64_t>[]> words_;
};

template <class Keys>
class BufferLog {
 public:
  /// Of a tree that is meant for `capacity` entries.
  BufferLog(Pool& pool, std::uint64_t capacity, unsigned segment_records,
            std::uint64_t base_records)
      : pool_bytes_(pool.bytes()),
        capacity_(capacity),
        tail_(pool, segment_records, base_records),
        filter_(capacity) {}

  [[nodiscard]] std::uint64_t capacity() const noexcept { return capacity_; }
  [[nodiscard]] std::uint64_t dram_bytes() const noexcept { return filter_.bytes(); }
  [[nodiscard]] unsigned parts() const noexcept { return tail_.parts(); }

  /// Keys that the tree has entries of, and about as many: from one part.
  [[nodiscard]] std::uint64_t entries() const noexcept { return sum(&Part::entries); }
  [[nodiscard]] std::uint64_t about_entries() const noexcept {
    return tail_.part(0).entries.load(std::memory_order_relaxed) * tail_.parts();
  }
  /// Log records: more than entries where a key was changed again.
  [[nodiscard]] std::uint64_t changes() const noexcept { return sum(&Part::changes); }
  /// Of the part for this hash.
  [[nodiscard]] std::uint64_t changes_beside(std::uint64_t hash) const noexcept {
    return part_of(hash).changes.load(std::memory_order_relaxed);
  }
  /// True when a part, or the one for this hash, has `times` as many entries as it is meant for, or
  /// twice as many changes, or as many bytes of blobs.
  [[nodiscard]] bool is_full(std::uint64_t times) const noexcept {
    bool full = false;
    for (unsigned i = 0; i < tail_.parts(); ++i) full = full || is_full(tail_.part(i), times);
    return full;
  }
  [[nodiscard]] bool is_full_beside(std::uint64_t hash, std::uint64_t times) const noexcept {
    return is_full(part_of(hash), times);
  }

  [[nodiscard]] bool may_have(std::uint64_t hash) const noexcept { return filter_.may_have(hash); }
  void prefetch_filter(std::uint64_t hash) const noexcept { filter_.prefetch(hash); }
  /// For a writer: the part that a log record is taken from.
  void prefetch_part(std::uint64_t hash) noexcept { pm::prefetch_for_write(&part_of(hash)); }

  /// The log's newest segment is what `head` leads to; `empty` are without records, newest first,
  /// and `set_aside` of them wait for what a merge leaves over (G5).
  void begin(std::atomic<std::uint64_t>& head, std::vector<std::uint64_t> empty,
             std::size_t set_aside = 0) noexcept {
    tail_.begin(head, std::move(empty), set_aside);
  }
  void release_what_is_set_aside() noexcept { tail_.release(); }
  /// A slot for a change of a key with this hash, whose entry is about to be set, and the bytes of
  /// its blob; null: the log has no room.
  [[nodiscard]] LogRecord* take_slot(std::uint64_t hash, bool is_new,
                                     std::uint64_t blob_bytes) noexcept {
    Part& part = part_of(hash);
    return tail_.take(part, [&] { count_change(part, hash, is_new, blob_bytes); });
  }
  /// The same for a record that is carried over: also from what is set aside.
  [[nodiscard]] LogRecord* take_any_slot(std::uint64_t hash) noexcept {
    Part& part = part_of(hash);
    return tail_.take(
        part, [&] { count_change(part, hash, true, 0); }, true);
  }
  /// Counts a change whose record is in the log already, and lets searches pass the filter.
  void note_change(std::uint64_t hash, bool is_new) noexcept {
    count_change(part_of(hash), hash, is_new, 0);
  }
  /// Adds to the entries of the part for this hash, modulo 2^64.
  void recount(std::uint64_t hash, std::uint64_t entries) noexcept {
    Part& part = part_of(hash);
    tail_.recount(part, [&] { add(part.entries, entries); });
  }

 private:
  using Part = LogTail::Part;
  static_assert(BloomFilter::least_words >= LogTail::most_parts);  // a word's writers share a lock

  [[nodiscard]] Part& part_of(std::uint64_t hash) noexcept {
    return tail_.part(BloomFilter::number_of(hash));
  }
  [[nodiscard]] const Part& part_of(std::uint64_t hash) const noexcept {
    return tail_.part(BloomFilter::number_of(hash));
  }
  [[nodiscard]] std::uint64_t sum(std::atomic<std::uint64_t> Part::*of) const noexcept {
    std::uint64_t all = 0;
    for (unsigned i = 0; i < tail_.parts(); ++i)
      all += (tail_.part(i).*of).load(std::memory_order_relaxed);
    return all;
  }
  /// Of blobs, a log may take one in so many of the pool's bytes: a merge needs room for leaves,
  /// and what is in no leaf yet frees nothing where it is removed. The parts differ by chance only.
  [[nodiscard]] bool is_full(const Part& part, std::uint64_t times) const noexcept {
    constexpr std::uint64_t pool_bytes_per_blob_byte = 64;
    const auto all = [&](const std::atomic<std::uint64_t>& of) {
      return of.load(std::memory_order_relaxed) * tail_.parts();
    };
    if (all(part.entries) >= times * capacity_ || all(part.changes) >= 2 * times * capacity_)
      return true;
    return RecordStore<Keys>::has_blobs &&
           all(part.blob_bytes) * pool_bytes_per_blob_byte >= times * pool_bytes_;
  }
  static void add(std::atomic<std::uint64_t>& sum, std::uint64_t number) noexcept {
    sum.store(sum.load(std::memory_order_relaxed) + number, std::memory_order_relaxed);
  }
  /// One caller at a time for a part: no locked instructions.
  void count_change(Part& part, std::uint64_t hash, bool is_new,
                    std::uint64_t blob_bytes) noexcept {
    add(part.changes, 1);
    add(part.entries, is_new ? 1 : 0);
    if constexpr (RecordStore<Keys>::has_blobs) add(part.blob_bytes, blob_bytes);
    filter_.add(hash);
  }

  const std::uint64_t pool_bytes_;
  const std::uint64_t capacity_;
  LogTail tail_;
  BloomFilter filter_;
};

}  // namespace perdure::dptree
