// Mutexes under simulation: a simulated thread that finds one taken must let its holder run, which
// no call that blocks the OS thread would do. Fibers of one OS thread would even pass for its
// owner.
//
// The C library, which has no hooks, would take and release a mutex unseen: both are timed here as
// locked operations on its line, if it lies in memory that the simulation gave out, DRAM or PM. As
// with Linux' futexes, who finds a mutex taken sleeps, and who releases one that others sleep for
// wakes one of them. Mutexes that foreign libraries keep in memory of their own are free, as
// everything is that they do there.
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>

#include "platform/runtime/arena.h"
#include "platform/runtime/engine.h"
#include "platform/runtime/futex.h"
#include "pm/simulated_instructions.h"

namespace {

using perdure::platform::Time;
using perdure::platform::runtime::arena_owns;
using perdure::platform::runtime::current;
using perdure::platform::runtime::engine;
using perdure::platform::runtime::system_call_time;
using perdure::platform::runtime::wake_up_time;

using MutexCall = int (*)(pthread_mutex_t*);
using LockCall = int (*)(pthread_rwlock_t*);

template <class Call>
Call real(const char* name) noexcept {
  return reinterpret_cast<Call>(dlsym(RTLD_NEXT, name));
}

/// How many threads sleep for each lock. Only one simulated thread runs at a time.
class Sleepers {
 public:
  void add(const void* lock) noexcept {
    Entry* entry = find(lock);
    if (entry == nullptr) entry = find(nullptr);
    if (entry != nullptr) *entry = {lock, entry->threads + 1};
  }
  void remove(const void* lock) noexcept {
    Entry* const entry = find(lock);
    if (entry != nullptr && --entry->threads == 0) entry->lock = nullptr;
  }
  [[nodiscard]] bool any(const void* lock) noexcept { return find(lock) != nullptr; }

 private:
  struct Entry {
    const void* lock = nullptr;
    unsigned threads = 0;
  };
  Entry* find(const void* lock) noexcept {
    const auto found = std::ranges::find(entries_, lock, &Entry::lock);
    return found == entries_.end() ? nullptr : &*found;
  }
  std::array<Entry, 64> entries_;  ///< no more are waited for at a time than there are threads
};
constinit Sleepers sleepers;

// A lock changes in more than the word that counts, and libpmemobj's has a number beside it: the
// guard takes its lines, where nothing else should be, as they are.
template <class Lock>
void settle(const Lock* lock) {
  if (!engine.guarded) return;
  constexpr std::uintptr_t line_bytes = 64;
  const auto begin = reinterpret_cast<std::uintptr_t>(lock) / line_bytes * line_bytes;
  const auto end = reinterpret_cast<std::uintptr_t>(lock + 1);
  engine.guard.accept(reinterpret_cast<const void*>(begin), end - begin);
}

template <class Lock>
void time_access(Lock* lock, const void* pc) {
  if (!arena_owns(lock) && engine.space.pool_region(lock) == nullptr) return;
  settle(lock);
  engine.locked(*current, lock, sizeof(std::uint32_t), pc);
}

void spend(Time time) {
  if (!engine.timed) return perdure::pm::detail::instruction::pause();
  engine.machine->wait_until(current->number, engine.machine->now(current->number) + time);
  engine.read_clock(*current);
  engine.order(*current);
}

template <class Lock>
int acquire(Lock* lock, int (*attempt)(Lock*), const void* pc) {
  time_access(lock, pc);
  int result = attempt(lock);
  if (result != EBUSY) return settle(lock), result;
  sleepers.add(lock);
  spend(system_call_time);
  for (;;) {
    time_access(lock, pc);
    result = attempt(lock);
    if (result != EBUSY) break;
    spend(wake_up_time);
  }
  sleepers.remove(lock);
  settle(lock);
  return result;
}

template <class Lock>
int release(Lock* lock, int (*unlock)(Lock*), const void* pc) {
  time_access(lock, pc);
  const int result = unlock(lock);
  settle(lock);
  if (sleepers.any(lock)) spend(system_call_time);
  return result;
}

}  // namespace

extern "C" {

int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
  static const auto lock = real<MutexCall>("pthread_mutex_lock");
  if (current == nullptr) return lock(mutex);
  return acquire(mutex, pthread_mutex_trylock, __builtin_return_address(0));
}

int pthread_mutex_unlock(pthread_mutex_t* mutex) noexcept {
  static const auto unlock = real<MutexCall>("pthread_mutex_unlock");
  if (current == nullptr) return unlock(mutex);
  return release(mutex, unlock, __builtin_return_address(0));
}

int pthread_rwlock_rdlock(pthread_rwlock_t* lock) noexcept {
  static const auto read = real<LockCall>("pthread_rwlock_rdlock");
  if (current == nullptr) return read(lock);
  return acquire(lock, pthread_rwlock_tryrdlock, __builtin_return_address(0));
}

int pthread_rwlock_wrlock(pthread_rwlock_t* lock) noexcept {
  static const auto write = real<LockCall>("pthread_rwlock_wrlock");
  if (current == nullptr) return write(lock);
  return acquire(lock, pthread_rwlock_trywrlock, __builtin_return_address(0));
}

int pthread_rwlock_unlock(pthread_rwlock_t* lock) noexcept {
  static const auto unlock = real<LockCall>("pthread_rwlock_unlock");
  if (current == nullptr) return unlock(lock);
  return release(lock, unlock, __builtin_return_address(0));
}

int sched_yield(void) noexcept {
  static const auto yield = real<int (*)()>("sched_yield");
  if (current == nullptr) return yield();
  perdure::pm::detail::instruction::yield();
  return 0;
}
}
