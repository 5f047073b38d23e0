// Counters of a simulated machine, in the field's terms. Sums over cores, sockets and DIMMs.
#pragma once

#include <array>
#include <cstdint>

#include "platform/model/time.h"

namespace perdure::platform {

struct MemoryCounters {
  std::uint64_t controller_read_bytes = 0;  ///< requests that reached the DIMMs, 64 B each
  std::uint64_t controller_write_bytes = 0;
  std::uint64_t media_read_bytes = 0;  ///< PM: whole XPLines; DRAM: equal to the controller's
  std::uint64_t media_write_bytes = 0;
  std::uint64_t buffer_read_hits = 0;  ///< PM: reads served by the internal buffer
  std::uint64_t buffer_read_misses = 0;
  std::uint64_t buffer_write_hits = 0;  ///< PM: writes merged into a buffered XPLine
  std::uint64_t buffer_write_misses = 0;
  std::uint64_t read_modify_writes = 0;
  std::uint64_t wear_levelling_stalls = 0;
  std::uint64_t directory_writes = 0;
};

struct Counters {
  std::uint64_t loads = 0, stores = 0, atomics = 0;
  std::uint64_t l1_hits = 0, l1_misses = 0;
  std::uint64_t l2_hits = 0, l2_misses = 0;
  std::uint64_t llc_hits = 0, llc_misses = 0;
  std::uint64_t tlb_misses = 0;
  std::uint64_t flushes = 0, fences = 0, streaming_stores = 0;
  std::uint64_t upi_bytes = 0;
  MemoryCounters dram;
  MemoryCounters pm;
  std::uint64_t transaction_commits = 0;
  std::uint64_t aborts_conflict = 0, aborts_capacity = 0, aborts_explicit = 0, aborts_flush = 0,
                aborts_other = 0;

  [[nodiscard]] Counters since(const Counters& before) const noexcept;
};

/// Where a core's time went; the parts add up to its clock (M3).
struct TimeSplit {
  Time compute = 0;
  Time l1 = 0, l2 = 0, llc = 0;
  Time memory_queueing = 0;
  Time media = 0;  ///< latency of DRAM or PM beyond queueing
  Time flush_fence = 0;
  Time lock_wait = 0;
  Time aborted_transactions = 0;

  [[nodiscard]] Time total() const noexcept {
    return compute + l1 + l2 + llc + memory_queueing + media + flush_fence + lock_wait +
           aborted_transactions;
  }
};

}  // namespace perdure::platform
