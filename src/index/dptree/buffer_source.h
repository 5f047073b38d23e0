// Makes the buffer trees of a DPTree, and says how large they and what is kept of their logs may
// be.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>

#include "index/common/record_store.h"
#include "index/dptree/base_map.h"
#include "index/dptree/buffer.h"
#include "index/dptree/log.h"
#include "index/registry.h"
#include "pool/epoch.h"
#include "pool/pool.h"

namespace perdure::dptree {

template <class Keys>
class BufferSource {
 public:
  /// `anchor`: its offset, which seals the log's records.
  BufferSource(const IndexPlace& place, const RecordStore<Keys>& records, std::uint64_t anchor,
               unsigned log_entries)
      : pool_(*place.pool),
        records_(records),
        anchor_(anchor),
        log_entries_(log_entries),
        least_entries_(place.options.get("buffer_entries")),
        percent_(place.options.get("merge_percent")),
        huge_pages_(place.huge_pages),
        leaf_memory_(place.huge_pages) {}

  /// An empty tree over `base`, without a log.
  [[nodiscard]] std::unique_ptr<Buffer<Keys>> make(std::uint64_t generation,
                                                   const BaseMap<Keys>& base) {
    return std::make_unique<Buffer<Keys>>(pool_, records_, epochs_, leaf_memory_, huge_pages_,
                                          anchor_, generation, capacity_over(base.records),
                                          log_entries_, base.records);
  }
  /// Segments of a dropped log that are kept (G5), over a base tree of `records` records.
  [[nodiscard]] std::size_t kept_segments(std::uint64_t records) const noexcept {
    return records / LogTail::records_per_kept_record / log_entries_;
  }
  /// Those of them that wait for what a merge leaves over.
  [[nodiscard]] std::size_t set_aside_segments(std::uint64_t records) const noexcept {
    return kept_segments(records) / 4 * 3;
  }
  [[nodiscard]] unsigned log_entries() const noexcept { return log_entries_; }
  [[nodiscard]] std::uint64_t dram_bytes() const noexcept { return leaf_memory_.dram_bytes(); }

 private:
  // Fewer where the pool has little room left: a merge of so many would leave over more than the
  // log has room for (G5). An entry may take two log records, its part of a new leaf, and its blob.
  [[nodiscard]] std::uint64_t capacity_over(std::uint64_t records) const noexcept {
    constexpr std::uint64_t bytes_per_entry = RecordStore<Keys>::has_blobs ? 256 : 128;
    const std::uint64_t usual = std::max(least_entries_, records * percent_ / 100);
    const std::uint64_t kept = kept_segments(records) * log_entries_;
    if (kept == 0) return usual;
    const std::uint64_t affordable = pool_.heap().usage().free_bytes() / bytes_per_entry;
    return std::clamp(affordable, std::min(usual, kept / 8), usual);
  }

  Pool& pool_;
  const RecordStore<Keys>& records_;
  const std::uint64_t anchor_;
  const unsigned log_entries_;
  const std::uint64_t least_entries_;
  const std::uint64_t percent_;
  const bool huge_pages_;
  ChunkReserve leaf_memory_;  ///< of buffers that are gone
  Epochs epochs_;             ///< of the buffers' inner nodes, of which none ever goes
};

}  // namespace perdure::dptree
