// Baton: what an OS thread waits for until it may run. Of futexes, because the standard library's
// semaphore spins with sched_yield, which the runtime intercepts.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

namespace perdure::platform::runtime {

class Baton {
 public:
  void release() noexcept {
    given_.store(1, std::memory_order_release);
    syscall(SYS_futex, address(), FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
  }
  void acquire() noexcept {
    while (given_.exchange(0, std::memory_order_acquire) == 0)
      syscall(SYS_futex, address(), FUTEX_WAIT_PRIVATE, 0, nullptr, nullptr, 0);
  }

 private:
  [[nodiscard]] std::uint32_t* address() noexcept {
    return reinterpret_cast<std::uint32_t*>(&given_);
  }
  std::atomic<std::uint32_t> given_{0};
};

}  // namespace perdure::platform::runtime
