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

/// Parts of pools that traffic is counted for apart.
inline constexpr std::size_t most_counted_parts = 4;

/// Stores by size: of fewer bytes than the first, of up to twice as many, and so on; the last class
/// has no end.
inline constexpr std::size_t smallest_store_class = 64;
inline constexpr std::size_t store_classes = 9;
using StoredBytes = std::array<std::array<std::uint64_t, store_classes>, most_counted_parts>;

/// Which lines of the memory belong to which part of a pool.
class PartRanges {
 public:
  static constexpr std::size_t none = most_counted_parts;

  void add(std::size_t part, std::uint64_t first_line, std::uint64_t end_line) noexcept {
    if (part < most_counted_parts) range_[part] = {first_line, end_line};
  }
  [[nodiscard]] std::size_t of(std::uint64_t line) const noexcept {
    for (std::size_t part = 0; part < most_counted_parts; ++part)
      if (line - range_[part].first < range_[part].end - range_[part].first) return part;
    return none;
  }

 private:
  struct Range {
    std::uint64_t first = 0;
    std::uint64_t end = 0;
  };
  std::array<Range, most_counted_parts> range_{};
};

/// Counters of a channel, and how much of them belongs to each part.
struct ChannelCounters : MemoryCounters {
  const PartRanges* parts = nullptr;
  std::array<MemoryCounters, most_counted_parts> of_part{};

  void add(std::uint64_t line, std::uint64_t MemoryCounters::*what, std::uint64_t much) noexcept {
    this->*what += much;
    if (parts == nullptr) return;
    if (const std::size_t part = parts->of(line); part != PartRanges::none)
      of_part[part].*what += much;
  }
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
  std::array<MemoryCounters, most_counted_parts> parts{};  ///< of these, by part of the pool
  StoredBytes stored{};  ///< into these parts, by the size of the store
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
