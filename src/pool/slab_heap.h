// SlabHeap: size-class slabs over a mapping. All allocator state is volatile: allocating and
// freeing write nothing to the pool, and recovery rebuilds the state from the blocks that are
// reachable.
//
// The mapping after the header is cut into chunks of 64 KiB. A span is a run of chunks that holds
// blocks of one size class side by side; it starts at a multiple of its length, so that any address
// inside leads to it without a search (recovery meets blocks in any order).
//
// S1  a chunk belongs to at most one span; its `size_class` says which, free chunks say `no_class`.
// S2  bit i of a span's bitmap is set while block i is live or waits in a slot's cache.
// S3  only the slot that owns an active span sets bits in it; anyone clears them.
// S4  `used` is never below the number of set bits, so a span with used == 0 has no user left.
// S5  a span is on the partial list of its class exactly while its state is `partial`; state and
//     links change under the class lock.
// S6  until the sweep, the chunks below `frozen_chunks_` hold marked blocks only, and none of them
//     is handed out. A set bit there is a mark, and freeing the block takes it back.
// S7  where a high-water mark is kept, every chunk beyond it was free at every moment so far.
//
// Who touches what: a slot's caches under the slot's lock (usually its own thread's; another thread
// takes it only when the pool is full and cached blocks are called in), lists under the class lock,
// the chunk map and the high-water mark under the chunk lock. Order: calling in, slot, class,
// chunk. The sweep lock parts frees below the mark from the sweep; whoever holds it takes no other.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "pm/pm.h"
#include "pool/heap.h"
#include "pool/slab_geometry.h"

namespace perdure {

class SlabHeap final : public Heap {
 public:
  static constexpr std::size_t chunk_bytes = slab::chunk_bytes;

  /// Manages [first_offset, end_offset) of a pool, without ever touching it. Nothing can be
  /// reserved until `sweep` or `serve_above` has run; on a new pool the sweep runs at once.
  SlabHeap(std::uint64_t first_offset, std::uint64_t end_offset);
  ~SlabHeap() override;

  [[nodiscard]] Reservation reserve(std::size_t bytes) noexcept override;
  void publish(std::span<Reservation> blocks, std::atomic<std::uint64_t>* word,
               std::uint64_t value) noexcept override;
  void cancel(Reservation& block) noexcept override;
  void free(std::uint64_t offset, std::size_t bytes) noexcept override;
  [[nodiscard]] bool mark(std::uint64_t offset, std::size_t bytes) noexcept override;
  [[nodiscard]] bool is_marked(std::uint64_t offset) const noexcept override;
  Result<std::uint64_t> sweep() override;
  [[nodiscard]] std::optional<Census> marked() const override;
  [[nodiscard]] std::optional<Census> allocated() override;
  [[nodiscard]] bool keep_high_water(std::atomic<std::uint64_t>& word) noexcept override;
  [[nodiscard]] Result<bool> serve_above(std::atomic<std::uint64_t>& word) override;
  [[nodiscard]] Extent block_at(std::uint64_t offset) const noexcept override;
  [[nodiscard]] bool is_live(std::uint64_t offset) const noexcept override;
  [[nodiscard]] std::uint64_t room_for(std::size_t bytes) const noexcept override;
  [[nodiscard]] HeapUsage usage() const noexcept override;
  [[nodiscard]] std::uint64_t capacity_bytes() const noexcept override {
    return chunks_ * chunk_bytes;
  }
  [[nodiscard]] const char* name() const noexcept override { return "slab"; }

 private:
  static constexpr std::uint32_t no_chunk = ~std::uint32_t{0};
  static constexpr std::uint8_t no_class = 0xff;
  static constexpr unsigned cache_blocks = 32;
  static_assert(size_classes::count < no_class);

  enum class SpanState : std::uint8_t { free, active, partial, full };

  /// One per chunk; the first chunk of a span speaks for all of it.
  struct Chunk {
    std::atomic<std::atomic<std::uint64_t>*> bitmap{nullptr};
    std::atomic<std::uint32_t> used{0};
    std::uint32_t next = no_chunk;
    std::uint32_t previous = no_chunk;
    std::uint32_t first_free_word = 0;  ///< no free bit before it, as far as the owner knows
    std::atomic<SpanState> state{SpanState::free};
    std::atomic<std::uint8_t> size_class{no_class};
  };

  /// Blocks ready for one thread, and the span they come from, per size class.
  struct Cache {
    std::uint32_t count = 0;
    std::uint32_t span = no_chunk;
    std::array<std::uint64_t, cache_blocks> block;
  };
  struct alignas(64) Slot {
    pm::VersionLock lock;
    std::atomic<std::int64_t> live_blocks{0};
    std::atomic<std::int64_t> live_bytes{0};
    std::atomic<std::uint64_t> stirs{0};  ///< how often blocks came into a cache
    std::array<Cache, size_classes::count> cache;
  };
  struct alignas(64) ClassState {
    pm::VersionLock lock;
    std::uint32_t partial = no_chunk;  ///< head of the list
  };

  /// What is marked, and in how many chunks.
  struct Marked {
    std::int64_t blocks = 0;
    std::int64_t bytes = 0;
    std::uint32_t chunks = 0;
  };

  [[nodiscard]] Slot* my_slot() noexcept;
  void give_back(std::uint64_t offset, unsigned size_class) noexcept;
  [[nodiscard]] bool refill(Slot& slot, unsigned size_class) noexcept;
  [[nodiscard]] bool take_from_span(Cache& cache, unsigned size_class) noexcept;
  void detach(Cache& cache, unsigned size_class) noexcept;
  [[nodiscard]] bool attach(Cache& cache, unsigned size_class) noexcept;
  void clear_block(std::uint64_t offset, unsigned size_class) noexcept;
  [[nodiscard]] bool call_in_caches(std::uint64_t calls) noexcept;
  void empty_caches() noexcept;
  [[nodiscard]] Census census_below(std::uint32_t end) const noexcept;
  [[nodiscard]] std::uint64_t total_stirs() const noexcept;

  [[nodiscard]] std::uint32_t take_chunks(unsigned size_class) noexcept;
  void release_chunks(std::uint32_t first, unsigned size_class) noexcept;
  [[nodiscard]] bool prepare_span(std::uint32_t first, unsigned size_class) noexcept;
  void push_partial(std::uint32_t span, unsigned size_class) noexcept;
  void remove_partial(std::uint32_t span, unsigned size_class) noexcept;
  [[nodiscard]] bool has_free_bit(std::uint32_t span, unsigned size_class) const noexcept;
  [[nodiscard]] bool claim_for_mark(std::uint32_t first, unsigned size_class) noexcept;
  [[nodiscard]] bool is_allocated(std::uint64_t offset, unsigned size_class) const noexcept;
  [[nodiscard]] std::uint32_t used_blocks(std::uint32_t first, unsigned size_class) const noexcept;
  /// Calls `take(first, size_class)` for the spans of the frozen chunks, the last first.
  template <class Take>
  void for_each_frozen_span(Take&& take) const;
  [[nodiscard]] Marked count_marked() const noexcept;
  [[nodiscard]] bool unmark(std::uint64_t offset, unsigned size_class) noexcept;
  void list_swept(std::uint32_t first, unsigned size_class) noexcept;
  void raise_high_water(std::uint32_t end) noexcept;

  [[nodiscard]] bool chunk_is_free(std::uint32_t chunk) const noexcept {
    return chunk_[chunk].size_class.load(std::memory_order_relaxed) == no_class;
  }

  std::uint64_t first_offset_;
  std::uint32_t chunks_;
  std::vector<Chunk> chunk_;
  std::array<ClassState, size_classes::count> class_;
  std::array<std::atomic<Slot*>, pm::max_threads> slot_{};

  pm::VersionLock chunk_lock_;
  std::uint32_t first_free_chunk_ = 0;
  std::uint64_t releases_ = 1;  ///< of chunks
  /// By length: as many were there when no run of so many chunks was found.
  std::array<std::uint64_t, slab::most_chunks + 1> no_run_since_{};
  std::atomic<std::uint32_t> chunks_used_{0};
  std::atomic<std::uint64_t> bitmap_bytes_{0};
  pm::VersionLock calling_in_;
  std::atomic<std::uint64_t> calls_{0};                   ///< that are over; written under the lock
  std::uint64_t stirs_at_last_call_ = ~std::uint64_t{0};  ///< under it, too
  std::atomic<bool> serves_{false};
  std::atomic<bool> swept_{false};
  std::atomic<std::int64_t> marked_blocks_{0};  ///< set by sweep
  std::atomic<std::int64_t> marked_bytes_{0};

  mutable pm::VersionLock sweep_lock_;
  std::uint32_t frozen_chunks_;               ///< S6; all of them, unless `serve_above` says
  std::atomic<std::uint64_t> frozen_end_{0};  ///< their end, while the heap serves unswept
  std::atomic<std::uint64_t>* high_water_word_ = nullptr;
  std::uint32_t high_water_ = 0;  ///< S7, in chunks
  Census unmarked_;               ///< marked blocks that were freed; under the sweep lock
};

}  // namespace perdure
