// Thread-local storage of OS threads: a fiber that runs with the storage of a thread of its own is
// that thread to all code that keeps state per thread (libpmemobj, malloc, errno), and the next is
// reached by a jump instead of a wake-up by the system.
//
// On x86-64 all of it is addressed from the base of segment fs. The system keeps any value of the
// base with the OS thread that runs.
#pragma once

#include <asm/prctl.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace perdure::platform::runtime {

[[nodiscard]] inline void* own_thread_storage() noexcept {
  void* base;  // the psABI keeps it in its first word
  asm("mov %%fs:0, %0" : "=r"(base));
  return base;
}

/// The calling function must leave by a jump to a fiber that belongs with the storage: it may have
/// addresses of the old storage in registers.
inline void use_thread_storage(void* base) noexcept {
  constexpr unsigned long by_instruction = 1UL << 1;  // HWCAP2_FSGSBASE: the system allows it
  static const bool allowed = (getauxval(AT_HWCAP2) & by_instruction) != 0;
  if (allowed)
    asm volatile("wrfsbase %0" : : "r"(base) : "memory");
  else
    syscall(SYS_arch_prctl, ARCH_SET_FS, base);
}

}  // namespace perdure::platform::runtime
