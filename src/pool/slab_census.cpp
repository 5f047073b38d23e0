// What the slab heap holds, in numbers that a clean close keeps (pool/header.h, H6).
#include <bit>

#include "core/assert.h"
#include "pool/slab_geometry.h"
#include "pool/slab_heap.h"

namespace perdure {

static_assert(slab::chunk_bytes == SlabHeap::chunk_bytes);

SlabHeap::Census SlabHeap::census_below(std::uint32_t end) const noexcept {
  Census census;
  for (std::uint32_t first = 0; first < end; ++first) {
    const std::uint8_t size_class = chunk_[first].size_class.load(std::memory_order_acquire);
    if (size_class == no_class || first % slab::geometry[size_class].chunks != 0) continue;
    const slab::Geometry& shape = slab::geometry[size_class];
    const std::atomic<std::uint64_t>* bitmap = chunk_[first].bitmap.load(std::memory_order_relaxed);
    const std::uint64_t start = first_offset_ + first * chunk_bytes;
    for (std::uint32_t word = 0; word < shape.words; ++word) {
      std::uint64_t bits = bitmap[word].load(std::memory_order_relaxed);
      for (; bits != 0; bits &= bits - 1) {
        const std::uint32_t block = word * 64 + static_cast<std::uint32_t>(std::countr_zero(bits));
        if (block >= shape.blocks) break;
        ++census.blocks;
        census.sum += slab::census_hash(start + std::uint64_t{block} * shape.bytes, size_class);
      }
    }
  }
  return census;
}

// S6: a set bit below is a mark, whether or not the heap serves meanwhile.
std::optional<Heap::Census> SlabHeap::marked() const {
  [[maybe_unused]] const bool held = sweep_lock_.lock();
  PERDURE_ASSERT(held);
  Census census = census_below(frozen_chunks_);
  census.blocks += unmarked_.blocks;
  census.sum += unmarked_.sum;
  sweep_lock_.unlock();
  return census;
}

// S2: without caches a set bit is a live block.
std::optional<Heap::Census> SlabHeap::allocated() {
  if (!swept_.load(std::memory_order_acquire)) return std::nullopt;
  empty_caches();
  return census_below(chunks_);
}

}  // namespace perdure
