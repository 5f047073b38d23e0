// The log of a thread: the one change that it is about to make.
//
//   byte 0       8      16           64
//        | entry | node | operation |
//
// G1  `entry` is 0, or the node's generation and what is done to it. It is cleared before `node`
//     changes and written last; the log lies in one line, so its stores persist in their order.
// G2  an entry counts only while the node has its generation: what a thread has not cleared
//     durably when it returned says nothing of what the node is used for later.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "pm/pm.h"

namespace perdure::lockfree {

enum class Change : std::uint8_t { none, insertion, removal };

struct alignas(pm::cache_line_bytes) Log {
  std::atomic<std::uint64_t> entry;
  std::atomic<std::uint64_t> node;       ///< offset
  std::atomic<std::uint64_t> operation;  ///< of this thread, by number: for whoever reads a dump

  [[nodiscard]] static constexpr std::uint64_t entry_of(std::uint64_t generation, Change change) {
    return generation << 2 | static_cast<std::uint64_t>(change);
  }
  [[nodiscard]] Change change() const noexcept {
    return static_cast<Change>(entry.load(std::memory_order_relaxed) & 3);
  }
  [[nodiscard]] std::uint64_t generation() const noexcept {
    return entry.load(std::memory_order_relaxed) >> 2;
  }

  /// Durable at the next fence.
  void begin(std::uint64_t offset, std::uint64_t generation, Change what) noexcept {
    entry.store(0, std::memory_order_release);  // G1
    node.store(offset, std::memory_order_release);
    operation.store(operation.load(std::memory_order_relaxed) + 1, std::memory_order_release);
    entry.store(entry_of(generation, what), std::memory_order_release);
    pm::flush(this, sizeof *this);
  }
  /// Durable at the next fence.
  void end() noexcept {
    entry.store(0, std::memory_order_release);
    pm::flush(this, sizeof *this);
  }
};
static_assert(sizeof(Log) == 64 && offsetof(Log, node) == 8 && offsetof(Log, operation) == 16);

}  // namespace perdure::lockfree
