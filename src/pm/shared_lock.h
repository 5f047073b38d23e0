// SharedLock: a reader-writer spin lock whose readers do not share a line.
//
//   writer_   set while a writer holds the lock or waits for the last readers to leave
//   cells_    readers inside, counted per group of threads (slot modulo 8), a line each
//
// S1  a reader is inside only if it counted itself before it saw `writer_` clear; a writer sets
//     `writer_` before it looks at the counts. Both are sequentially consistent, so one of the two
//     always sees the other.
// S2  writers do not starve: once `writer_` is set no reader enters.
// S3  readers do not starve in practice: a writer gives those that wait a bounded head start.
//
// Cost without contention: two locked instructions for a reader; one, and 8 loads, for a writer.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "pm/hints.h"
#include "pm/persist.h"
#include "pm/thread.h"

namespace perdure::pm {

class SharedLock {
  using Count = std::atomic<std::uint32_t>;

 public:
  /// What a reader counts itself in.
  using Readers = Count;

  /// Holds the lock for reading. Not reentrant: a writer between the two would lock both out.
  class ReadGuard {
   public:
    explicit ReadGuard(SharedLock& lock) noexcept : readers_(lock.enter()) {}
    ~ReadGuard() { leave(readers_); }
    ReadGuard(const ReadGuard&) = delete;
    ReadGuard& operator=(const ReadGuard&) = delete;

   private:
    Readers& readers_;
  };

  /// Holds the lock for writing.
  class WriteGuard {
   public:
    explicit WriteGuard(SharedLock& lock) noexcept : lock_(lock) { lock_.exclude(); }
    ~WriteGuard() { lock_.readmit(); }
    WriteGuard(const WriteGuard&) = delete;
    WriteGuard& operator=(const WriteGuard&) = delete;

   private:
    SharedLock& lock_;
  };

  // What the guards call, for guards that hold one of several kinds of lock. After `enter`, `leave`
  // with what it returned; after `exclude`, `readmit`.
  [[nodiscard]] Readers& enter() noexcept {
    Readers& readers = cells_[thread_slot() % cell_count].readers;
    for (bool waited = false;; waited = true) {
      readers.fetch_add(1, std::memory_order_seq_cst);
      const bool inside = !writer_.load(std::memory_order_seq_cst);  // S1
      if (inside) {
        if (waited) waiting_readers_.fetch_sub(1, std::memory_order_relaxed);
        return readers;
      }
      readers.fetch_sub(1, std::memory_order_release);
      if (!waited) waiting_readers_.fetch_add(1, std::memory_order_relaxed);
      for (Backoff backoff; writer_.load(std::memory_order_relaxed);) backoff.wait();
    }
  }

  static void leave(Readers& readers) noexcept { readers.fetch_sub(1, std::memory_order_release); }
  void exclude() noexcept {
    Backoff head_start;  // S3
    for (unsigned turn = 0; turn < head_start_turns; ++turn) {
      if (waiting_readers_.load(std::memory_order_relaxed) == 0) break;
      head_start.wait();
    }
    for (Backoff backoff;;) {
      const bool free = !writer_.load(std::memory_order_relaxed);
      if (free && !writer_.exchange(true, std::memory_order_seq_cst)) break;
      backoff.wait();
    }
    for (const Cell& cell : cells_)  // S1
      for (Backoff backoff; cell.readers.load(std::memory_order_seq_cst) != 0;) backoff.wait();
  }

  void readmit() noexcept { writer_.store(false, std::memory_order_release); }

 private:
  static constexpr std::size_t cell_count = 8;
  static constexpr unsigned head_start_turns = 8;

  struct alignas(cache_line_bytes) Cell {
    Count readers{0};
  };

  alignas(cache_line_bytes) std::atomic<bool> writer_{false};
  Count waiting_readers_{0};
  std::array<Cell, cell_count> cells_;
};

}  // namespace perdure::pm
