// OrderCache: the order of data nodes' records by key, which scans leave for the next scan. In
// DRAM: the paper keeps it in the node, unpersisted, so that reading alone dirties media.
//
//   byte 0     8
//        | version | code[7]: 10 slots of 6 bits each |   one line a node
//
// The line of a node is found by the node's offset, so it can be prefetched beside the node itself.
//
// O1  an odd `version` is 1 + the lock word that the node had when its records were in this order;
//     an even one says that there is no order. While a block is the same node it only rises, also
//     where a slow scan comes with an old order; so whoever sees it twice read one order between.
// O2  a line is filled by whoever set `version` to `filling`: pinned, and after it read the node
//     and validated its lock. Others go without meanwhile.
// O3  a block that becomes a data node loses its line first. Whoever could fill it for the node
//     before has unpinned by then.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "index/pactree/node.h"
#include "pm/pm.h"

namespace perdure::pactree {

class OrderCache {
 public:
  /// For nodes of `node_bytes` in a pool that extends over `pool_bytes`. Address space for all
  /// there could be; memory is taken by lines that are filled. Where the system refuses, nothing is
  /// remembered.
  OrderCache(std::uint64_t pool_bytes, std::size_t node_bytes, bool huge_pages) noexcept;
  ~OrderCache();
  OrderCache(const OrderCache&) = delete;
  OrderCache& operator=(const OrderCache&) = delete;

  void prefetch(std::uint64_t node) const noexcept {
    if (lines_ != nullptr) pm::prefetch(&line_of(node));
  }

  /// Fills `order` with what was remembered of the node at `word`: order[r] is the slot of the r-th
  /// smallest record. False: nothing was.
  [[nodiscard]] bool find(std::uint64_t node, std::uint64_t word,
                          std::span<std::uint8_t> order) const noexcept;
  /// Remembers it (O2), unless a later order is known.
  void keep(std::uint64_t node, std::uint64_t word, std::span<const std::uint8_t> order) noexcept;
  /// The block is to become a node (O3).
  void forget(std::uint64_t node) noexcept {
    if (lines_ == nullptr) return;
    std::atomic<std::uint64_t>& version = line_of(node).version;
    if (version.load(std::memory_order_relaxed) != untouched)
      version.store(forgotten, std::memory_order_release);
  }

  /// Lines that were ever filled.
  [[nodiscard]] std::uint64_t dram_bytes() const noexcept {
    return filled_.load(std::memory_order_relaxed) * sizeof(Line);
  }

 private:
  static constexpr unsigned slot_bits = 6;
  static constexpr unsigned slots_a_word = 10;
  static constexpr std::uint64_t untouched = 0;
  static constexpr std::uint64_t filling = 2;
  static constexpr std::uint64_t forgotten = 4;

  struct Line {
    std::atomic<std::uint64_t> version;
    std::array<std::atomic<std::uint64_t>, 7> code;
  };
  static_assert(sizeof(Line) == pm::cache_line_bytes);
  static_assert(7 * slots_a_word >= max_entries && 1U << slot_bits >= max_entries);

  /// O1: an unlocked word is even.
  [[nodiscard]] static constexpr std::uint64_t known_at(std::uint64_t word) noexcept {
    return word + 1;
  }
  [[nodiscard]] Line& line_of(std::uint64_t node) const noexcept {
    return lines_[node / node_bytes_];
  }

  const std::size_t node_bytes_;
  const std::size_t mapped_bytes_;
  Line* lines_ = nullptr;
  std::atomic<std::uint64_t> filled_{0};
};

}  // namespace perdure::pactree
