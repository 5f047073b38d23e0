// Lock: how the operations on one structure keep out of each other's way, as its creation or
// recovery chose (`LockKind`, index/registry.h).
//
// K1  a lock that lies in the structure's memory is made anew at every start: what a crash left of
//     it says nothing.
// K2  `buckets` locks groups of keys; all operations on keys of one group exclude each other, and
//     nothing but the groups of a structure's own choice is changed under it.
#pragma once

#include <libpmemobj/base.h>
#include <libpmemobj/thread.h>
#include <pthread.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "index/registry.h"
#include "pm/hints.h"
#include "pm/shared_lock.h"

namespace perdure::structure {

/// Where a mutex lies that is kept beside the structure's records: in a line of its own.
struct alignas(pm::cache_line_bytes) LockPlace {
  std::array<std::byte, sizeof(PMEMmutex)> bytes{};
};
static_assert(sizeof(pthread_mutex_t) <= sizeof(LockPlace));

/// A reader-writer spin lock of one word, for one group of many.
class alignas(pm::cache_line_bytes) GroupLock {
 public:
  void enter() noexcept {
    for (pm::Backoff backoff;; backoff.wait()) {
      std::uint32_t word = word_.load(std::memory_order_relaxed);
      if (word < wanted && word_.compare_exchange_weak(word, word + 1, std::memory_order_acquire))
        return;
    }
  }
  void leave() noexcept { word_.fetch_sub(1, std::memory_order_release); }
  void exclude() noexcept {
    for (pm::Backoff backoff;; backoff.wait()) {
      std::uint32_t word = word_.load(std::memory_order_relaxed);
      if (word < wanted) word = word_.fetch_or(wanted, std::memory_order_relaxed) | wanted;
      if (word == wanted && word_.compare_exchange_weak(word, held, std::memory_order_acquire))
        return;
    }
  }
  void readmit() noexcept { word_.store(0, std::memory_order_release); }

  class WriteGuard {
   public:
    explicit WriteGuard(GroupLock& lock) noexcept : lock_(lock) { lock.exclude(); }
    ~WriteGuard() { lock_.readmit(); }
    WriteGuard(const WriteGuard&) = delete;
    WriteGuard& operator=(const WriteGuard&) = delete;

   private:
    GroupLock& lock_;
  };

 private:
  static constexpr std::uint32_t held = 1U << 31;
  static constexpr std::uint32_t wanted = 1U << 30;  ///< by a writer: no reader enters any more
  std::atomic<std::uint32_t> word_{0};               ///< readers inside, and these two
};

class Lock {
 public:
  Lock() = default;
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

  /// Before the first operation. `place` outlives the lock; `objects` for `pmemobj` only.
  void choose(LockKind kind, LockPlace& place, PMEMobjpool* objects) {
    kind_ = kind;
    objects_ = objects;
    place_ = &place;
    if (kind == LockKind::pthread_pm) pthread_mutex_init(mutex_in_place(), nullptr);  // K1
    if (kind == LockKind::pmemobj) pmemobj_mutex_zero(objects, pmemobj_mutex());
    if (kind == LockKind::buckets) groups_ = std::make_unique<Groups>();
  }

  /// Whether operations of different groups change the structure at the same time.
  [[nodiscard]] bool admits_writers_together() const noexcept { return kind_ == LockKind::buckets; }

  /// Holds what an operation that changes nothing needs.
  class ReadGuard {
   public:
    ReadGuard(Lock& lock, std::uint64_t group) noexcept : lock_(lock), held_(lock.enter(group)) {}
    ~ReadGuard() { lock_.leave(held_); }
    ReadGuard(const ReadGuard&) = delete;
    ReadGuard& operator=(const ReadGuard&) = delete;

   private:
    Lock& lock_;
    void* const held_;
  };
  /// Holds what an operation needs that changes keys of one group.
  class WriteGuard {
   public:
    WriteGuard(Lock& lock, std::uint64_t group) noexcept : lock_(lock), group_(group) {
      lock.exclude(group);
    }
    ~WriteGuard() { lock_.readmit(group_); }
    WriteGuard(const WriteGuard&) = delete;
    WriteGuard& operator=(const WriteGuard&) = delete;

   private:
    Lock& lock_;
    const std::uint64_t group_;
  };
  /// Holds the whole structure.
  class WholeGuard {
   public:
    explicit WholeGuard(Lock& lock) noexcept : lock_(lock) {
      for (std::size_t group = 0; group < lock.groups(); ++group) lock.exclude(group);
    }
    ~WholeGuard() {
      for (std::size_t group = lock_.groups(); group-- > 0;) lock_.readmit(group);
    }
    WholeGuard(const WholeGuard&) = delete;
    WholeGuard& operator=(const WholeGuard&) = delete;

   private:
    Lock& lock_;
  };

 private:
  static constexpr std::size_t group_count = 1024;
  using Groups = std::array<GroupLock, group_count>;

  [[nodiscard]] std::size_t groups() const noexcept {
    return kind_ == LockKind::buckets ? group_count : 1;
  }
  [[nodiscard]] GroupLock& group(std::uint64_t number) noexcept {
    return (*groups_)[number % group_count];
  }
  [[nodiscard]] pthread_mutex_t* mutex_in_place() const noexcept {
    return reinterpret_cast<pthread_mutex_t*>(place_->bytes.data());
  }
  [[nodiscard]] PMEMmutex* pmemobj_mutex() const noexcept {
    return reinterpret_cast<PMEMmutex*>(place_->bytes.data());
  }

  // No lock costs a comparison.
  [[nodiscard]] void* enter(std::uint64_t number) noexcept {
    return kind_ == LockKind::none ? nullptr : enter_chosen(number);
  }
  void leave(void* held) noexcept {
    if (kind_ != LockKind::none) leave_chosen(held);
  }
  void exclude(std::uint64_t number) noexcept {
    if (kind_ != LockKind::none) exclude_chosen(number);
  }
  void readmit(std::uint64_t number) noexcept {
    if (kind_ != LockKind::none) readmit_chosen(number);
  }

  [[nodiscard, gnu::noinline]] void* enter_chosen(std::uint64_t number) noexcept {
    switch (kind_) {
      case LockKind::readers_writer:
        return &shared_.enter();
      case LockKind::buckets:
        group(number).enter();
        return &group(number);
      default:
        exclude_chosen(number);
        return nullptr;
    }
  }
  [[gnu::noinline]] void leave_chosen(void* held) noexcept {
    switch (kind_) {
      case LockKind::readers_writer:
        return pm::SharedLock::leave(*static_cast<pm::SharedLock::Readers*>(held));
      case LockKind::buckets:
        return static_cast<GroupLock*>(held)->leave();
      default:
        return readmit_chosen(0);
    }
  }
  [[gnu::noinline]] void exclude_chosen(std::uint64_t number) noexcept {
    switch (kind_) {
      case LockKind::none:
        return;
      case LockKind::readers_writer:
        return shared_.exclude();
      case LockKind::pthread:
        pthread_mutex_lock(&mutex_);
        return;
      case LockKind::pthread_pm:
        pthread_mutex_lock(mutex_in_place());
        return;
      case LockKind::pmemobj:
        pmemobj_mutex_lock(objects_, pmemobj_mutex());
        return;
      case LockKind::buckets:
        return group(number).exclude();
    }
  }
  [[gnu::noinline]] void readmit_chosen(std::uint64_t number) noexcept {
    switch (kind_) {
      case LockKind::none:
        return;
      case LockKind::readers_writer:
        return shared_.readmit();
      case LockKind::pthread:
        pthread_mutex_unlock(&mutex_);
        return;
      case LockKind::pthread_pm:
        pthread_mutex_unlock(mutex_in_place());
        return;
      case LockKind::pmemobj:
        pmemobj_mutex_unlock(objects_, pmemobj_mutex());
        return;
      case LockKind::buckets:
        return group(number).readmit();
    }
  }

  LockKind kind_ = LockKind::none;
  PMEMobjpool* objects_ = nullptr;
  LockPlace* place_ = nullptr;
  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
  std::unique_ptr<Groups> groups_;
  pm::SharedLock shared_;
};

}  // namespace perdure::structure
