// Per-thread slots: a small dense number for each live thread, for per-thread state in index code
// (which must not use thread_local: simulated threads are fibers on one OS thread).
#pragma once

#include <cstddef>

#include "core/assert.h"
#include "pm/instructions.h"

namespace perdure::pm {

inline constexpr std::size_t max_threads = 256;
/// That a run may have: the main thread and those that an index starts need slots, too.
inline constexpr unsigned max_workers = max_threads - 16;

namespace detail {
inline constexpr std::size_t slot_not_taken = ~std::size_t{0};
/// Number of this thread's slot, or `slot_not_taken`. Initial-exec: a load instead of a call,
/// because every operation asks.
extern thread_local constinit std::size_t slot_of_thread [[gnu::tls_model("initial-exec")]];
[[nodiscard]] std::size_t take_thread_slot() noexcept;
}  // namespace detail

/// This thread's slot in [0, max_threads). Taken at first use, given back when the thread ends;
/// a later thread may inherit it, so per-slot state must be valid for whoever comes next.
/// More than max_threads live threads: prints one line and aborts (a limit of the build).
[[nodiscard]] inline std::size_t thread_slot() noexcept {
  if constexpr (detail::instruction::simulated) {
    const std::size_t simulated = detail::instruction::thread_slot();
    if (simulated != detail::instruction::no_slot) return simulated;
  }
  const std::size_t slot = detail::slot_of_thread;
  return slot != detail::slot_not_taken ? slot : detail::take_thread_slot();
}

/// The same for a thread that has asked before: nothing is called.
[[nodiscard]] inline std::size_t taken_thread_slot() noexcept {
  if constexpr (detail::instruction::simulated) return thread_slot();
  PERDURE_ASSERT(detail::slot_of_thread != detail::slot_not_taken);
  return detail::slot_of_thread;
}

/// The NUMA node that this thread runs on, as the system (simulated: the platform) numbers it.
/// Natively it may be another a moment later, unless the thread is pinned.
[[nodiscard]] unsigned numa_node() noexcept;

}  // namespace perdure::pm
