// Segments: where records lie. A segment is a block of the heap that records are appended to, by
// one thread; when it is full it is sealed. It has no header: a record says which segment it is in.
//
// G1  every segment is in the directory, under its number, before a record in it is committed.
// G2  `live` is how many bytes of records in it are present. It changes with the table's word,
//     under the lock of the record's key, so nobody touches the count of a segment without live
//     records that is not open.
// G3  all records up to `used` of a segment are whole, so they can be walked.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/result.h"
#include "engine/store/record_table.h"
#include "pm/pm.h"
#include "pool/epoch.h"
#include "pool/pool.h"

namespace perdure::engine {

class Segments {
 public:
  static constexpr std::uint32_t none = ~std::uint32_t{0};

  /// A segment that somebody appends to.
  struct Open {
    std::uint32_t number = none;
    std::uint64_t offset = 0;
    std::uint64_t used = 0;
  };

  Segments(Pool& pool, std::span<Word> directory, std::uint64_t segment_bytes);

  [[nodiscard]] std::uint64_t segment_bytes() const noexcept { return segment_bytes_; }
  [[nodiscard]] bool fits(const Open& open, std::uint64_t bytes) const noexcept {
    return open.number != none && bytes <= segment_bytes_ - open.used;
  }
  /// Seals what `open` was and takes another segment. `block`: a reservation to use, or a null one.
  /// False: the heap has no room, and `open` is as it was.
  [[nodiscard]] bool renew(Open& open, Reservation& block);
  [[nodiscard]] bool renew(Open& open) {
    Reservation block;
    return renew(open, block);
  }
  void seal(Open& open) noexcept;

  void add_live(std::uint32_t number, std::uint64_t bytes) noexcept {
    info_[number].live.fetch_add(static_cast<std::uint32_t>(bytes), std::memory_order_relaxed);
    live_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  }
  void drop_live(std::uint32_t number, std::uint64_t bytes) noexcept {
    info_[number].live.fetch_sub(static_cast<std::uint32_t>(bytes), std::memory_order_relaxed);
    live_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint64_t live_bytes() const noexcept {
    return live_bytes_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint64_t total_bytes() const noexcept {
    return count_.load(std::memory_order_relaxed) * segment_bytes_;
  }

  /// How many are appended to.
  [[nodiscard]] std::uint64_t open() const noexcept {
    return open_.load(std::memory_order_relaxed);
  }

  struct Victim {
    std::uint32_t number = none;
    std::uint64_t offset = 0;
    std::uint64_t used = 0;
  };
  /// Of some sealed segments the one with the fewest live bytes, at most `most_live`. One caller at
  /// a time.
  [[nodiscard]] std::optional<Victim> choose_victim(std::uint64_t most_live) noexcept;
  [[nodiscard]] std::uint64_t live_bytes_in(std::uint32_t number) const noexcept {
    return info_[number].live.load(std::memory_order_relaxed);
  }
  /// The victim has no live record: its block is retired, its number is free. The caller is pinned.
  void retire(const Victim& victim, Epochs& epochs);
  /// It cannot be cleaned.
  void keep(const Victim& victim) noexcept;
  /// Frees sealed segments without live records at once. No other operation runs.
  void free_empty();

  // Recovery.

  /// Where the segment with this number begins; null: there is none.
  [[nodiscard]] std::uint64_t offset_of(std::uint32_t number) const noexcept {
    return number < directory_.size() ? directory_[number].load(std::memory_order_relaxed)
                                      : null_offset;
  }
  /// True when [offset, offset + bytes) lies in the segment with this number.
  [[nodiscard]] bool holds(std::uint32_t number, std::uint64_t offset,
                           std::uint64_t bytes) const noexcept;
  /// A record that is present, or has to be kept: by several threads.
  void note_record(std::uint32_t number, std::uint64_t end, std::uint64_t live) noexcept;
  /// Marks the segments that records were noted in, and forgets the others. Errors: corrupt.
  [[nodiscard]] Result<void> recover();

  [[nodiscard]] std::uint64_t dram_bytes() const noexcept {
    return directory_.size() * sizeof(Info) + free_.capacity() * sizeof free_[0];
  }

 private:
  enum class State : std::uint8_t { free, open, sealed, kept };
  struct Info {
    std::atomic<std::uint32_t> live{0};
    std::atomic<std::uint32_t> used{0};
    std::atomic<State> state{State::free};
  };

  Pool& pool_;
  const std::span<Word> directory_;
  const std::uint64_t segment_bytes_;
  std::unique_ptr<Info[]> info_;
  pm::VersionLock lock_;  ///< guards free_
  std::vector<std::uint32_t> free_;
  std::atomic<std::uint64_t> count_{0};
  std::atomic<std::uint64_t> open_{0};
  std::atomic<std::uint64_t> live_bytes_{0};
  std::atomic<std::uint32_t> most_{0};  ///< numbers from here on were never used
  std::uint32_t hand_ = 0;              ///< where `choose_victim` goes on
};

}  // namespace perdure::engine
