// VersionLock: an 8-byte lock word whose version lets readers go without writing.
//
//   bit 0        locked
//   bit 1        obsolete: the node is unlinked; whoever finds it starts again
//   bits 2..63   version, one more at every release after a change
//
// V1  a reader that saw the same unlocked word before and after its reads saw no half-made change.
// V2  an obsolete word never becomes valid again; its memory is freed only after a grace period.
//
// Readers load the guarded data through std::atomic (acquire), so the check needs no fence.
// The word may live in DRAM or in a leaf on media; on media it means nothing after a restart.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <utility>

#include "core/assert.h"
#include "pm/hints.h"
#include "pm/transaction.h"

namespace perdure::pm {

class VersionLock {
 public:
  static constexpr std::uint64_t locked_bit = 1;
  static constexpr std::uint64_t obsolete_bit = 2;
  static constexpr std::uint64_t version_step = 4;

  /// The word as it is; never waits.
  [[nodiscard]] std::uint64_t peek() const noexcept {
    return word_.load(std::memory_order_acquire);
  }
  [[nodiscard]] static bool is_locked(std::uint64_t word) noexcept {
    return (word & locked_bit) != 0;
  }
  [[nodiscard]] static bool is_obsolete(std::uint64_t word) noexcept {
    return (word & obsolete_bit) != 0;
  }

  /// Neither locked nor obsolete.
  [[nodiscard]] static bool is_free(std::uint64_t word) noexcept {
    return (word & (locked_bit | obsolete_bit)) == 0;
  }

  /// Waits until unlocked; returns the word to validate against (it may be obsolete).
  [[nodiscard]] std::uint64_t read_begin() const noexcept {
    std::uint64_t word = peek();
    for (Backoff backoff; is_locked(word); word = peek()) backoff.wait();
    return word;
  }

  /// True when nothing has changed since `word` was returned by `read_begin` (V1).
  [[nodiscard]] bool validate(std::uint64_t word) const noexcept {
    return word_.load(std::memory_order_acquire) == word;
  }

  /// Turns a read into a lock, if nothing has changed since `word`. Never waits.
  [[nodiscard]] bool try_upgrade(std::uint64_t word) noexcept {
    if (!is_free(word)) return false;
    return word_.compare_exchange_strong(word, word | locked_bit, std::memory_order_acquire,
                                         std::memory_order_relaxed);
  }

  /// Takes the lock if it is free and not obsolete. Never waits.
  [[nodiscard]] bool try_lock() noexcept { return try_upgrade(peek()); }

  /// Waits for the lock; false when the node turned obsolete.
  [[nodiscard]] bool lock() noexcept {
    for (Backoff backoff;;) {
      const std::uint64_t word = peek();
      if (is_obsolete(word)) return false;
      if (!is_locked(word) && try_upgrade(word)) return true;
      backoff.wait();
    }
  }

  /// Takes the lock where no other thread may at this time: without a locked instruction, which
  /// would wait for all flushes before it. For readers it is as any other.
  void lock_alone() noexcept {
    const std::uint64_t word = word_.load(std::memory_order_relaxed);
    PERDURE_ASSERT((word & (locked_bit | obsolete_bit)) == 0);
    word_.store(word | locked_bit, std::memory_order_release);
  }

  /// Inside `elide` only: takes the lock with plain stores, or aborts the transaction.
  void lock_in_transaction() noexcept {
    const std::uint64_t word = word_.load(std::memory_order_relaxed);
    if (!is_free(word)) abort_transaction();
    word_.store(word | locked_bit, std::memory_order_relaxed);
  }

  /// Releases after a change: the version moves on, so every overlapping read fails (V1).
  void unlock() noexcept {
    const std::uint64_t word = word_.load(std::memory_order_relaxed);
    PERDURE_ASSERT(is_locked(word));
    word_.store(word - locked_bit + version_step, std::memory_order_release);
  }

  /// Releases without a change: overlapping reads stay valid.
  void unlock_unchanged() noexcept {
    const std::uint64_t word = word_.load(std::memory_order_relaxed);
    PERDURE_ASSERT(is_locked(word));
    word_.store(word - locked_bit, std::memory_order_release);
  }

  /// One or the other, without a branch: for conditions that are unpredictable.
  void unlock(bool changed) noexcept {
    const std::uint64_t word = word_.load(std::memory_order_relaxed);
    PERDURE_ASSERT(is_locked(word));
    word_.store(word - locked_bit + version_step * std::uint64_t{changed},
                std::memory_order_release);
  }

  /// Releases for the last time: the node is unlinked (V2).
  void unlock_obsolete() noexcept {
    const std::uint64_t word = word_.load(std::memory_order_relaxed);
    PERDURE_ASSERT(is_locked(word));
    word_.store((word - locked_bit + version_step) | obsolete_bit, std::memory_order_release);
  }

  /// Forgets what a crash left. Recovery only, before any other thread runs.
  void reset() noexcept { word_.store(0, std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> word_{0};
};

static_assert(sizeof(VersionLock) == 8);

/// Holds a lock that never turns obsolete and that nobody reads past: the version stays as it is.
class LockGuard {
 public:
  explicit LockGuard(VersionLock& lock) noexcept : lock_(lock) {
    [[maybe_unused]] const bool held = lock_.lock();
    PERDURE_ASSERT(held);
  }
  /// Of a lock that this thread has taken.
  LockGuard(VersionLock& lock, std::adopt_lock_t) noexcept : lock_(lock) {}
  ~LockGuard() { lock_.unlock_unchanged(); }
  LockGuard(const LockGuard&) = delete;
  LockGuard& operator=(const LockGuard&) = delete;

 private:
  VersionLock& lock_;
};

/// Holds a lock, or none; releases it unchanged unless told otherwise.
template <class Lock = VersionLock>
class HeldLock {
 public:
  HeldLock() = default;
  /// Waits for `lock`. Holds none if it is obsolete.
  explicit HeldLock(Lock& lock) noexcept : lock_(lock.lock() ? &lock : nullptr) {}
  ~HeldLock() { unlock_unchanged(); }
  HeldLock(const HeldLock&) = delete;
  HeldLock& operator=(const HeldLock&) = delete;

  /// Without waiting. False: `lock` is taken or obsolete.
  [[nodiscard]] bool take(Lock& lock) noexcept {
    if (!lock.try_lock()) return false;
    lock_ = &lock;
    return true;
  }
  [[nodiscard]] explicit operator bool() const noexcept { return lock_ != nullptr; }
  void unlock_unchanged() noexcept {
    if (lock_ != nullptr) std::exchange(lock_, nullptr)->unlock_unchanged();
  }
  // It holds one.
  void unlock_changed() noexcept { std::exchange(lock_, nullptr)->unlock(); }
  void unlock_obsolete() noexcept { std::exchange(lock_, nullptr)->unlock_obsolete(); }

 private:
  Lock* lock_ = nullptr;
};

/// One optimistic reading of what a VersionLock guards: true as long as nothing has changed since
/// `word` was read. Once false it stays false: a holder that releases unchanged brings the old word
/// back, and a reader that had looked away meanwhile must not believe that it saw everything.
class ReadAttempt {
 public:
  ReadAttempt(const VersionLock& lock, std::uint64_t word) noexcept : lock_(lock), word_(word) {}

  [[nodiscard]] bool operator()() noexcept {
    stable_ = stable_ && lock_.validate(word_);
    return stable_;
  }

 private:
  const VersionLock& lock_;
  std::uint64_t word_;
  bool stable_ = true;
};

}  // namespace perdure::pm
