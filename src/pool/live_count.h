// LiveCount: how many blocks of a heap are live, counted without a shared line.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "pm/pm.h"
#include "pool/heap.h"

namespace perdure {

class LiveCount {
 public:
  /// `blocks` more, of `bytes` each; fewer when negative. Thread-safe.
  void add(std::int64_t blocks, std::uint64_t bytes) noexcept {
    add_bytes(blocks, blocks * static_cast<std::int64_t>(bytes));
  }
  /// `blocks` more, of `bytes` together.
  void add_bytes(std::int64_t blocks, std::int64_t bytes) noexcept {
    Slot& mine = slot_[pm::thread_slot()];
    mine.blocks.store(mine.blocks.load(std::memory_order_relaxed) + blocks,
                      std::memory_order_relaxed);
    mine.bytes.store(mine.bytes.load(std::memory_order_relaxed) + bytes, std::memory_order_relaxed);
  }
  /// What a recovery found, before anything was added.
  void set(std::int64_t blocks, std::int64_t bytes) noexcept {
    slot_[0].blocks.store(blocks, std::memory_order_relaxed);
    slot_[0].bytes.store(bytes, std::memory_order_relaxed);
  }
  /// Fills in live_blocks and live_bytes.
  void report(HeapUsage& usage) const noexcept {
    std::int64_t blocks = 0;
    std::int64_t bytes = 0;
    for (const Slot& slot : slot_) {
      blocks += slot.blocks.load(std::memory_order_relaxed);
      bytes += slot.bytes.load(std::memory_order_relaxed);
    }
    usage.live_blocks = static_cast<std::uint64_t>(blocks);
    usage.live_bytes = static_cast<std::uint64_t>(bytes);
  }

 private:
  struct alignas(64) Slot {
    std::atomic<std::int64_t> blocks{0};
    std::atomic<std::int64_t> bytes{0};
  };
  std::array<Slot, pm::max_threads> slot_;
};

}  // namespace perdure
