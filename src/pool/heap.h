// Heap: where blocks of a pool come from.
//
// The life of a block, the same for every heap:
//   reserve   volatile; a crash forgets it
//   fill      the caller writes the block and flushes it
//   publish   the block is durably allocated, and a word that links to it is durably set
//   free      after a grace period (see pool/epoch.h), once no reader can hold it
//
// A heap refuses where it has no room, although blocks may wait for their grace period: whoever can
// let go of its pin asks Epochs for them and tries again (index/common/with_room.h).
//
// What a crash can leave behind, an allocated block that nothing links to, recovery takes back:
//   the owner of each root marks every block it can reach (`mark`), then the pool calls `sweep`.
// No leak can survive that, so no index needs an allocation log.
//
// Instant restart: a heap that persists no allocation may serve before all is marked. It keeps a
// mark on media up to where it has handed out memory (`keep_high_water`). After the next opening it
// hands out only what lies beyond (`serve_above`), while the owner of the root goes on marking;
// what lies below waits for the sweep, so nothing that is still to be read is overwritten.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/result.h"
#include "pm/version_lock.h"
#include "pool/ptr.h"
#include "pool/size_classes.h"

namespace perdure {

/// A block that is promised but not yet allocated durably.
struct Reservation {
  std::uint64_t offset = null_offset;  ///< pool offset of the block; null: out of space
  std::uint32_t bytes = 0;             ///< as requested
  /// The heap's own note (libpmemobj: a pobj_action); not cleared, because that would cost more
  /// than a slab reservation itself.
  alignas(8) std::byte action[128];

  [[nodiscard]] explicit operator bool() const noexcept { return offset != null_offset; }
};

struct HeapUsage {
  std::uint64_t live_blocks = 0;     ///< reserved or published, not yet freed
  std::uint64_t live_bytes = 0;      ///< bytes of live blocks, rounded up to their size class
  std::uint64_t reserved_bytes = 0;  ///< bytes of the pool taken from the free part: real use
  std::uint64_t capacity_bytes = 0;  ///< bytes the heap could ever hand out
  std::uint64_t dram_bytes = 0;      ///< the heap's own volatile state

  /// Bytes in no live block. How much of it one reservation can have depends on how it is cut: a
  /// heap may refuse a block of fewer bytes than this.
  [[nodiscard]] std::uint64_t free_bytes() const noexcept {
    return capacity_bytes > live_bytes ? capacity_bytes - live_bytes : 0;
  }
};

class Heap {
 public:
  virtual ~Heap() = default;
  Heap() = default;
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  /// Promises a block of `bytes` (1 .. max_block_bytes), aligned to `block_alignment(bytes)`,
  /// content undefined. Thread-safe. Out of space: a null reservation. Must not be called before
  /// `sweep` or `serve_above` on a reopened pool.
  [[nodiscard]] virtual Reservation reserve(std::size_t bytes) noexcept = 0;

  /// Makes the reserved blocks durably allocated. The caller has flushed and fenced their content.
  /// If `word` is not null it is set to `value` and durable when this returns, not before the
  /// blocks are; with libpmemobj blocks and word change in one failure-atomic step.
  /// Thread-safe. Cost, slab: 1 flush and 1 fence for the word, nothing for the blocks.
  virtual void publish(std::span<Reservation> blocks, std::atomic<std::uint64_t>* word = nullptr,
                       std::uint64_t value = 0) noexcept = 0;

  /// Gives a reservation back unused.
  virtual void cancel(Reservation& block) noexcept = 0;

  /// As `reserve`, of memory that is never published: what is in it is gone after a crash, and the
  /// block free. The caller gives it back by `cancel_volatile` before the pool is closed.
  [[nodiscard]] Reservation reserve_volatile(std::size_t bytes);
  void cancel_volatile(Reservation& block) noexcept;
  /// Blocks of `reserve_volatile`, which `usage` counts with the others.
  [[nodiscard]] HeapUsage volatile_usage() const noexcept;
  [[nodiscard]] bool is_volatile(std::uint64_t offset) const noexcept;

  /// Frees a published block. No thread may read it any more: usually called by `Epochs`.
  virtual void free(std::uint64_t offset, std::size_t bytes) noexcept = 0;

  static constexpr std::size_t max_block_bytes = size_classes::max_bytes;

  /// Bytes that a block of this size takes: its size class.
  [[nodiscard]] static constexpr std::size_t block_bytes(std::size_t bytes) noexcept {
    return size_classes::bytes_of(size_classes::class_of(bytes));
  }
  /// Alignment of a block of this size: the largest power of two up to 256 that divides its size
  /// class. So blocks lie side by side without gaps: 256 for 256 B, 128 for 1152 B, 64 for 192 B.
  [[nodiscard]] static constexpr std::size_t block_alignment(std::size_t bytes) noexcept {
    const auto power = static_cast<unsigned>(std::countr_zero(block_bytes(bytes)));
    return std::size_t{1} << (power < 8 ? power : 8U);
  }

  // Recovery, in this order: mark (from any number of threads), sweep once.

  /// Tells that [offset, offset + bytes) is reachable. Thread-safe. A block marked twice, or one
  /// outside the heap or overlapping another, is corruption: `false`.
  [[nodiscard]] virtual bool mark(std::uint64_t offset, std::size_t bytes) noexcept = 0;
  /// True when `mark` has seen a block that starts exactly here. Valid between opening and `sweep`.
  [[nodiscard]] virtual bool is_marked(std::uint64_t offset) const noexcept = 0;
  /// Frees every block that was not marked; returns how many allocated blocks that were (0 after a
  /// clean shutdown for a heap that persists allocation; slab, which persists none, reports 0).
  virtual Result<std::uint64_t> sweep() = 0;

  /// Identifies a set of blocks, in any order: two sets of equal census are taken for the same.
  struct Census {
    std::uint64_t blocks = 0;
    std::uint64_t sum = 0;  ///< over offsets and size classes
    friend bool operator==(const Census&, const Census&) = default;
  };
  /// Of all blocks that were marked, before the sweep; no thread marks meanwhile. None: not known.
  [[nodiscard]] virtual std::optional<Census> marked() const { return std::nullopt; }
  /// Of all blocks that are allocated, when no thread uses the heap any more. Cost, slab: some ns a
  /// block.
  [[nodiscard]] virtual std::optional<Census> allocated() { return std::nullopt; }

  /// From now on keeps in `word`, on media, how far memory was handed out: durable before a block
  /// beyond it is. `word` is 0, or was kept before. False: this heap cannot. Cost: 1 flush and 1
  /// fence for many blocks.
  [[nodiscard]] virtual bool keep_high_water(std::atomic<std::uint64_t>& /*word*/) noexcept {
    return false;
  }
  /// Hands out, before the sweep, what lies beyond the mark that `word` was kept with, and keeps it
  /// on. Blocks below may be freed once marked; other threads may run beside `mark` and `sweep`.
  /// False: this heap cannot, or `word` is 0, so none was kept. Errors: corrupt.
  [[nodiscard]] virtual Result<bool> serve_above(std::atomic<std::uint64_t>& /*word*/) {
    return false;
  }

  struct Extent {
    std::uint64_t offset = null_offset;  ///< null: no block
    std::uint64_t bytes = 0;             ///< of its size class
  };
  /// The block that holds the byte at `offset`, live or not; none where the heap has cut no blocks,
  /// or does not know. For tools that show images; not thread-safe.
  [[nodiscard]] virtual Extent block_at([[maybe_unused]] std::uint64_t offset) const noexcept {
    return {};
  }
  /// True when a live block starts exactly here; false where the heap does not know. For tools; not
  /// thread-safe.
  [[nodiscard]] virtual bool is_live([[maybe_unused]] std::uint64_t offset) const noexcept {
    return false;
  }
  /// How many blocks of `bytes` the heap could hand out now, if nothing else were reserved; 0
  /// where it does not know. For tools; not thread-safe.
  [[nodiscard]] virtual std::uint64_t room_for([[maybe_unused]] std::size_t bytes) const noexcept {
    return 0;
  }

  [[nodiscard]] virtual HeapUsage usage() const noexcept = 0;
  /// As in `usage`, which costs more.
  [[nodiscard]] virtual std::uint64_t capacity_bytes() const noexcept = 0;
  /// Calls of `reserve` that were refused so far; never falls. Whoever compares it before and after
  /// an operation learns whether an `out_of_space` was the heap's or the index's own.
  [[nodiscard]] virtual std::uint64_t refusals() const noexcept {
    return refusals_.load(std::memory_order_acquire);
  }
  [[nodiscard]] virtual const char* name() const noexcept = 0;

 protected:
  /// What every refused `reserve` returns.
  [[nodiscard]] Reservation refuse() noexcept {
    refusals_.fetch_add(1, std::memory_order_acq_rel);
    return {};
  }

 private:
  std::atomic<std::uint64_t> refusals_{0};
  mutable pm::VersionLock volatile_lock_;
  std::vector<Extent> volatile_;
};

}  // namespace perdure
