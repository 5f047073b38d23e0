// Hints to the core: prefetch, prefetch for write, pause.
#pragma once

#include <cstddef>

#include "pm/instructions.h"
#include "pm/persist.h"

namespace perdure::pm {

/// Prefetches the line of `address` into all cache levels.
inline void prefetch(const void* address) noexcept { detail::instruction::prefetch(address); }

/// Prefetches the line for one use: it does not push others out of the larger caches.
inline void prefetch_once(const void* address) noexcept {
  detail::instruction::prefetch_once(address);
}

/// Prefetches a line that is needed soon but not next, as one of many: into the L2, so that it
/// waits for none of the L1's few fill buffers longer than it must.
inline void prefetch_l2(const void* address) noexcept { detail::instruction::prefetch_l2(address); }

/// Prefetches the line in an owned state: most of a flush's price is the missing line.
/// `prefetchw` does nothing on x86-64 processors that do not know it.
inline void prefetch_for_write(const void* address) noexcept {
  detail::instruction::prefetch_for_write(address);
}

/// Prefetches every line of [address, address + bytes).
inline void prefetch_range(const void* address, std::size_t bytes) noexcept {
  const auto* at = static_cast<const std::byte*>(address);
  for (std::size_t done = 0; done < bytes; done += cache_line_bytes) prefetch(at + done);
}

/// Waits until this thread's earlier loads have their values; for flushes and stores it does not.
inline void wait_for_loads() noexcept { detail::instruction::load_fence(); }

/// Between the operations of a benchmark: also waits until earlier stores are visible under
/// simulation; natively as wait_for_loads, since no instruction waits for stores but not flushes.
inline void wait_for_accesses() noexcept { detail::instruction::drain(); }

/// One turn of a spin loop. Under simulation it spends virtual time and yields.
inline void pause() noexcept { detail::instruction::pause(); }

/// Waits without the core, for some hundred microseconds at least: for what takes a thread that has
/// lost its core. Under simulation as a long turn of a spin loop.
void nap() noexcept;

/// True in the build whose instructions a simulator or explorer performs.
inline constexpr bool simulated = detail::instruction::simulated;

/// Waits a little longer with every call: a spin loop's polite half. After many turns it gives the
/// core away, because on a machine with few cores the lock's holder may be waiting for it.
class Backoff {
 public:
  void wait() noexcept;

 private:
  unsigned turn_ = 0;
};

}  // namespace perdure::pm
