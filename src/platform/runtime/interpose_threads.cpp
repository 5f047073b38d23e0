// Mutexes under simulation: a simulated thread that finds one taken must let its holder run, which
// no call that blocks the OS thread would do. Fibers of one OS thread would even pass for its
// owner.
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>

#include "platform/runtime/engine.h"
#include "pm/simulated_instructions.h"

namespace {

using perdure::platform::runtime::current;

using MutexCall = int (*)(pthread_mutex_t*);
using LockCall = int (*)(pthread_rwlock_t*);

template <class Call>
Call real(const char* name) noexcept {
  return reinterpret_cast<Call>(dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
  static const auto lock = real<MutexCall>("pthread_mutex_lock");
  if (current == nullptr) return lock(mutex);
  int result = 0;
  while ((result = pthread_mutex_trylock(mutex)) == EBUSY)
    perdure::pm::detail::instruction::pause();
  return result;
}

int pthread_rwlock_rdlock(pthread_rwlock_t* mutex) noexcept {
  static const auto lock = real<LockCall>("pthread_rwlock_rdlock");
  if (current == nullptr) return lock(mutex);
  int result = 0;
  while ((result = pthread_rwlock_tryrdlock(mutex)) == EBUSY)
    perdure::pm::detail::instruction::pause();
  return result;
}

int pthread_rwlock_wrlock(pthread_rwlock_t* mutex) noexcept {
  static const auto lock = real<LockCall>("pthread_rwlock_wrlock");
  if (current == nullptr) return lock(mutex);
  int result = 0;
  while ((result = pthread_rwlock_trywrlock(mutex)) == EBUSY)
    perdure::pm::detail::instruction::pause();
  return result;
}

int sched_yield(void) noexcept {
  static const auto yield = real<int (*)()>("sched_yield");
  if (current == nullptr) return yield();
  perdure::pm::detail::instruction::yield();
  return 0;
}
}
