// Per-thread slots: a small dense number for each live thread, for per-thread state in index code
// (which must not use thread_local: simulated threads are fibers on one OS thread).
#pragma once

#include <cstddef>

namespace perdure::pm {

inline constexpr std::size_t max_threads = 256;

/// This thread's slot in [0, max_threads). Taken at first use, given back when the thread ends;
/// a later thread may inherit it, so per-slot state must be valid for whoever comes next.
/// More than max_threads live threads: prints one line and aborts (a limit of the build).
[[nodiscard]] std::size_t thread_slot() noexcept;

/// The NUMA node that this thread runs on, as the system (simulated: the platform) numbers it.
/// Natively it may be another a moment later, unless the thread is pinned.
[[nodiscard]] unsigned numa_node() noexcept;

}  // namespace perdure::pm
