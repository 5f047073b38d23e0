// LeafTable: what DRAM keeps of each leaf, found by the leaf's pool offset. Rebuilt at recovery.
//
// V1  `last` is the highest key of the leaf's interval: the next leaf's `lo` - 1, or 2^64 - 1. It
//     tells a writer which slots are free, without a miss in the next leaf.
// V2  the bit of a line is set in `hints` if a live record of that home line lies in its overflow
//     line. A set bit proves nothing.
// V3  `count` is the number of live records; 0 where no leaf of the chain lies.
// V4  `growth` says at which end of the leaf the key lay that last split it, if at one; forgotten
//     at recovery. It decides where the next split cuts, and nothing else.
//
// An entry is written by whoever holds the leaf's lock, or has not shown the leaf to anyone yet;
// readers validate the lock's version.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

#include "index/inner_tree/node_arena.h"
#include "index/linetree/leaf.h"

namespace perdure::linetree {

/// Where in a leaf a key lies that finds no room there.
enum class Growth : std::uint8_t { inside, below_all, above_all };

struct LeafInfo {
  std::atomic<std::uint64_t> last{0};
  std::atomic<std::uint32_t> hints{0};
  std::atomic<std::uint16_t> count{0};
  std::atomic<Growth> growth{Growth::inside};

  [[nodiscard]] std::uint64_t highest() const noexcept {
    return last.load(std::memory_order_acquire);
  }
  [[nodiscard]] bool may_overflow(unsigned line) const noexcept {
    return (hints.load(std::memory_order_acquire) & line_bit(line)) != 0;
  }
  [[nodiscard]] std::uint32_t records() const noexcept {
    return count.load(std::memory_order_acquire);
  }
  void set(std::uint64_t highest, Summary summary, Growth grew = Growth::inside) noexcept {
    last.store(highest, std::memory_order_release);
    hints.store(summary.hints, std::memory_order_release);
    count.store(static_cast<std::uint16_t>(summary.count), std::memory_order_release);
    growth.store(grew, std::memory_order_release);
  }
  // The caller holds the lock, so nothing is lost between load and store.
  void note_overflow(unsigned line) noexcept {
    hints.store(hints.load(std::memory_order_relaxed) | line_bit(line), std::memory_order_release);
  }
  /// The leaf is not in the chain any more, or never was.
  void forget_records() noexcept { count.store(0, std::memory_order_release); }
  void add(int records) noexcept {
    count.store(static_cast<std::uint16_t>(count.load(std::memory_order_relaxed) + records),
                std::memory_order_release);
  }
};
static_assert(sizeof(LeafInfo) == 16);

class LeafTable {
 public:
  /// For leaves of `leaf_bytes` in a pool that extends over `pool_bytes`.
  LeafTable(std::uint64_t pool_bytes, std::size_t leaf_bytes, bool huge_pages)
      : shift_(static_cast<unsigned>(std::bit_width(leaf_bytes) - 1)),
        chunks_((pool_bytes >> shift_) / chunk_entries + 1),
        arena_(huge_pages),
        chunk_(new std::atomic<LeafInfo*>[chunks_]()) {}

  /// The entry of a leaf that was added.
  [[nodiscard]] LeafInfo& of(std::uint64_t offset) const noexcept {
    const std::uint64_t number = offset >> shift_;
    return chunk_[number / chunk_entries].load(std::memory_order_acquire)[number % chunk_entries];
  }
  /// Makes sure that the leaf has an entry. Thread-safe.
  LeafInfo& add(std::uint64_t offset) {
    std::atomic<LeafInfo*>& chunk = chunk_[(offset >> shift_) / chunk_entries];
    if (chunk.load(std::memory_order_acquire) == nullptr) fill(chunk);
    return of(offset);
  }
  /// Of all leaves (V3). While leaves split and merge some may count twice, or not at all.
  [[nodiscard]] std::uint64_t records() const noexcept {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < chunks_; ++i)
      if (const LeafInfo* const chunk = chunk_[i].load(std::memory_order_acquire))
        for (std::size_t entry = 0; entry < chunk_entries; ++entry) sum += chunk[entry].records();
    return sum;
  }
  [[nodiscard]] std::uint64_t dram_bytes() const noexcept {
    return arena_.dram_bytes() + chunks_ * sizeof(std::atomic<LeafInfo*>);
  }

 private:
  static constexpr std::size_t chunk_entries = 1024;

  [[gnu::noinline, gnu::cold]] void fill(std::atomic<LeafInfo*>& chunk) {
    constexpr std::size_t bytes = chunk_entries * sizeof(LeafInfo);
    auto* const fresh = static_cast<LeafInfo*>(arena_.allocate(bytes));
    for (std::size_t i = 0; i < chunk_entries; ++i) new (fresh + i) LeafInfo;
    LeafInfo* none = nullptr;
    if (!chunk.compare_exchange_strong(none, fresh, std::memory_order_acq_rel))
      arena_.free(fresh, bytes);
  }

  unsigned shift_;  ///< no two leaves begin at less than a leaf's bytes from each other
  std::size_t chunks_;
  NodeArena arena_;
  std::unique_ptr<std::atomic<LeafInfo*>[]> chunk_;
};

}  // namespace perdure::linetree
