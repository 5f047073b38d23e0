// AsymmetricLock: a reader-writer spin lock for many readers and a writer once in a while.
//
//   writer_   set while a writer holds the lock or waits for the last readers to leave
//   cells_    a line for each thread: 1 while it is inside as a reader
//
// A locked instruction waits until all flushes before it have drained, and would so keep an
// operation from overlapping with the one before it; a reader needs none. A writer pays for that
// with an interrupt to every core.
//
// L1  a reader is inside only if it marked its cell before it saw `writer_` clear; a writer sets
//     `writer_` before it looks at the cells. A light fence in the one and a heavy fence in the
//     other lie between the two steps, so one of them always sees the other.
// L2  writers do not starve: once `writer_` is set no reader enters.
// L3  readers do not starve in practice: a writer gives those that wait a bounded head start.
//
// Cost without contention: two plain stores for a reader; for a writer a locked instruction, a
// heavy fence and a load for each thread there may be.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "pm/asymmetric_fence.h"
#include "pm/hints.h"
#include "pm/persist.h"
#include "pm/thread.h"

namespace perdure::pm {

class AsymmetricLock {
  using Mark = std::atomic<std::uint32_t>;

 public:
  /// Holds the lock for reading. Not reentrant: the inner guard would let go for both.
  class ReadGuard {
   public:
    explicit ReadGuard(AsymmetricLock& lock) noexcept : mark_(lock.enter()) {}
    ~ReadGuard() { mark_.store(0, std::memory_order_release); }
    ReadGuard(const ReadGuard&) = delete;
    ReadGuard& operator=(const ReadGuard&) = delete;

   private:
    Mark& mark_;
  };

  /// Holds the lock for writing.
  class WriteGuard {
   public:
    explicit WriteGuard(AsymmetricLock& lock) noexcept : lock_(lock) { lock_.exclude(); }
    ~WriteGuard() { lock_.writer_.store(false, std::memory_order_release); }
    WriteGuard(const WriteGuard&) = delete;
    WriteGuard& operator=(const WriteGuard&) = delete;

   private:
    AsymmetricLock& lock_;
  };

 private:
  static constexpr unsigned head_start_turns = 8;

  struct alignas(cache_line_bytes) Cell {
    Mark inside{0};
  };

  [[nodiscard]] Mark& enter() noexcept {
    Mark& mark = cells_[thread_slot()].inside;
    for (bool waited = false;; waited = true) {
      mark.store(1, std::memory_order_release);
      light_fence();  // L1
      if (!writer_.load(std::memory_order_seq_cst)) {
        if (waited) waiting_readers_.fetch_sub(1, std::memory_order_relaxed);
        return mark;
      }
      mark.store(0, std::memory_order_release);
      if (!waited) waiting_readers_.fetch_add(1, std::memory_order_relaxed);
      for (Backoff backoff; writer_.load(std::memory_order_relaxed);) backoff.wait();
    }
  }

  void exclude() noexcept {
    Backoff head_start;  // L3
    for (unsigned turn = 0; turn < head_start_turns; ++turn) {
      if (waiting_readers_.load(std::memory_order_relaxed) == 0) break;
      head_start.wait();
    }
    for (Backoff backoff;;) {
      const bool free = !writer_.load(std::memory_order_relaxed);
      if (free && !writer_.exchange(true, std::memory_order_seq_cst)) break;
      backoff.wait();
    }
    heavy_fence();  // L1
    for (const Cell& cell : cells_)
      for (Backoff backoff; cell.inside.load(std::memory_order_seq_cst) != 0;) backoff.wait();
  }

  alignas(cache_line_bytes) std::atomic<bool> writer_{false};
  Mark waiting_readers_{0};
  std::array<Cell, max_threads> cells_;
};

}  // namespace perdure::pm
