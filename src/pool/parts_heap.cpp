#include "pool/parts_heap.h"

#include <algorithm>
#include <utility>

#include "core/assert.h"
#include "core/rng.h"

namespace perdure {

PartsHeap::PartsHeap(unsigned parts, unsigned part_shift, std::uint64_t first_offset,
                     std::uint64_t end_offset, std::vector<unsigned> nodes)
    : part_shift_(part_shift), nodes_(std::move(nodes)) {
  for (auto& chosen : chosen_) chosen.store(nearest, std::memory_order_relaxed);
  for (unsigned part = 0; part < parts; ++part)
    part_.push_back(std::make_unique<SlabHeap>(first_offset, end_offset));
}

// With as many parts as nodes a thread's slot counts for nothing; with more, the parts of a node
// are dealt to its threads by slots.
std::size_t PartsHeap::home() const noexcept {
  const std::size_t slot = pm::thread_slot();
  if (const std::uint8_t chosen = chosen_[slot].load(std::memory_order_relaxed); chosen != nearest)
    return chosen & ~only;
  if (nodes_.size() < 2) return slot % part_.size();
  const auto found = std::ranges::find(nodes_, pm::numa_node());
  const auto node = found == nodes_.end() ? 0 : static_cast<std::size_t>(found - nodes_.begin());
  return (node + nodes_.size() * slot) % part_.size();
}

Reservation PartsHeap::reserve(std::size_t bytes) noexcept {
  const std::uint8_t chosen = chosen_[pm::thread_slot()].load(std::memory_order_relaxed);
  const bool is_bound = chosen != nearest && (chosen & only) != 0;
  const std::size_t first = home();
  for (std::size_t i = 0;; ++i) {
    const std::size_t part = (first + i) % part_.size();
    Reservation block = part_[part]->reserve(bytes);
    if (block) block.offset += std::uint64_t{part} << part_shift_;
    if (block) return block;
    if (is_bound || i + 1 == part_.size()) return refuse();
  }
}

// A slab heap writes down nothing about blocks, so the word is all there is to publish.
void PartsHeap::publish(std::span<Reservation> blocks, std::atomic<std::uint64_t>* word,
                        std::uint64_t value) noexcept {
  part_.front()->publish(blocks, word, value);
}

void PartsHeap::cancel(Reservation& block) noexcept {
  PERDURE_ASSERT(block);
  free(block.offset, block.bytes);
  block.offset = null_offset;
}

void PartsHeap::free(std::uint64_t offset, std::size_t bytes) noexcept {
  PERDURE_ASSERT(heap_of(offset) != nullptr);
  heap_of(offset)->free(inside(offset), bytes);
}

bool PartsHeap::mark(std::uint64_t offset, std::size_t bytes) noexcept {
  SlabHeap* const heap = heap_of(offset);
  return heap != nullptr && heap->mark(inside(offset), bytes);
}

bool PartsHeap::is_marked(std::uint64_t offset) const noexcept {
  const SlabHeap* const heap = heap_of(offset);
  return heap != nullptr && heap->is_marked(inside(offset));
}

Result<std::uint64_t> PartsHeap::sweep() {
  std::uint64_t freed = 0;
  for (const auto& part : part_) {
    const Result<std::uint64_t> swept = part->sweep();
    if (!swept) return swept.error();
    freed += *swept;
  }
  return freed;
}

// Blocks of different parts lie at the same offsets inside, so each part's sum counts differently.
std::optional<Heap::Census> PartsHeap::marked() const {
  Census all;
  for (std::size_t part = 0; part < part_.size(); ++part) {
    const std::optional<Census> census = part_[part]->marked();
    if (!census) return std::nullopt;
    all.blocks += census->blocks;
    all.sum += mix64(census->sum + part);
  }
  return all;
}

std::optional<Heap::Census> PartsHeap::allocated() {
  Census all;
  for (std::size_t part = 0; part < part_.size(); ++part) {
    const std::optional<Census> census = part_[part]->allocated();
    if (!census) return std::nullopt;
    all.blocks += census->blocks;
    all.sum += mix64(census->sum + part);
  }
  return all;
}

Heap::Extent PartsHeap::block_at(std::uint64_t offset) const noexcept {
  const SlabHeap* const heap = heap_of(offset);
  if (heap == nullptr) return {};
  Extent extent = heap->block_at(inside(offset));
  if (extent.offset != null_offset) extent.offset += offset - inside(offset);
  return extent;
}

bool PartsHeap::is_live(std::uint64_t offset) const noexcept {
  const SlabHeap* const heap = heap_of(offset);
  return heap != nullptr && heap->is_live(inside(offset));
}

std::uint64_t PartsHeap::room_for(std::size_t bytes) const noexcept {
  std::uint64_t blocks = 0;
  for (const auto& part : part_) blocks += part->room_for(bytes);
  return blocks;
}

HeapUsage PartsHeap::usage() const noexcept {
  HeapUsage sum;
  for (const auto& part : part_) {
    const HeapUsage usage = part->usage();
    sum.live_blocks += usage.live_blocks;
    sum.live_bytes += usage.live_bytes;
    sum.reserved_bytes += usage.reserved_bytes;
    sum.capacity_bytes += usage.capacity_bytes;
    sum.dram_bytes += usage.dram_bytes;
  }
  return sum;
}

}  // namespace perdure
