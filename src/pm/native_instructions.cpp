// What the instructions of pm/native_instructions.h need to know of the machine. Not part of the
// sim build.
#include "pm/native_instructions.h"

#include <cpuid.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace perdure::pm::detail::instruction {
namespace {

bool membarrier(int command) noexcept { return syscall(SYS_membarrier, command, 0, 0) == 0; }
bool register_process() noexcept { return membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED); }

bool cpu_has_rtm() noexcept {
#ifdef __SANITIZE_THREAD__
  return false;  // ThreadSanitizer does not understand transactions
#else
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return false;
  return (ebx & (1U << 11)) != 0;
#endif
}

// A CPU may report RTM while microcode aborts every transaction.
bool trial_commits() noexcept {
  constexpr unsigned trials = 64;
  for (unsigned trial = 0; trial < trials; ++trial) {
    if (transaction_begin() == ~0U) {
      transaction_commit();
      return true;
    }
  }
  return false;
}

}  // namespace

bool has_transactions() noexcept { return cpu_has_rtm() && trial_commits(); }

FlushSupport flush_support() noexcept {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return {};
  return {.clflushopt = (ebx & (1U << 23)) != 0, .clwb = (ebx & (1U << 24)) != 0};
}

const bool has_membarrier = register_process();

void heavy_fence() noexcept {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (!has_membarrier || membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED)) return;
  // A forked child may have to register again.
  if (register_process() && membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED)) return;
  std::perror("perdure: membarrier");
  std::abort();
}

}  // namespace perdure::pm::detail::instruction
