#include "crash/pooled_instance.h"

#include <algorithm>
#include <set>

namespace perdure::crash {
namespace {

std::vector<Heap::Extent> live_blocks(const Pool& pool) {
  const Heap& heap = pool.heap();
  std::vector<Heap::Extent> live;
  constexpr std::uint64_t smallest = size_classes::smallest_step;
  for (std::uint64_t at = 0; at < pool.bytes();) {
    const Heap::Extent block = heap.block_at(at);
    if (block.offset == at && heap.is_live(at) && !heap.is_volatile(at)) live.push_back(block);
    at = block.bytes == 0 ? at + smallest : block.offset + block.bytes;
  }
  return live;
}

/// A quarter of the pool is free, and of every size that lives there, and of twice the largest,
/// many blocks could be had: more than any one change of structure takes.
bool has_plenty(const Pool& pool) {
  constexpr std::uint64_t many = 16;
  const Heap& heap = pool.heap();
  const HeapUsage usage = heap.usage();
  if (usage.free_bytes() < usage.capacity_bytes / 4) return false;
  std::set<std::uint64_t> sizes;
  for (const Heap::Extent& block : live_blocks(pool)) sizes.insert(block.bytes);
  if (sizes.empty()) return false;
  sizes.insert(std::min<std::uint64_t>(2 * *sizes.rbegin(), Heap::max_block_bytes));
  return std::ranges::all_of(sizes,
                             [&](std::uint64_t bytes) { return heap.room_for(bytes) >= many; });
}

}  // namespace

std::vector<Heap::Extent> PooledInstance::live_extents() const { return live_blocks(*pool_); }

std::string PooledInstance::refused_without_reason(std::uint64_t before, bool is_new) const {
  const std::uint64_t refusals = pool_->heap().refusals();
  if (refusals != 0 && (refusals != before || !has_plenty(*pool_))) return {};
  const HeapUsage usage = pool_->heap().usage();
  const std::string room = std::to_string(usage.free_bytes()) + " of " +
                           std::to_string(usage.capacity_bytes) + " bytes are free";
  if (refusals != 0) return " without asking the heap, which has room: " + room;
  return std::string(", although the heap has refused nobody since the pool was ") +
         (is_new ? "created" : "opened") + " (" + room + ")";
}

Recovered recovered_to(const Result<void>& result, std::unique_ptr<PooledInstance> instance,
                       bool was_closed) {
  if (!result && result.error().code == ErrorCode::not_found)
    return {.instance = nullptr, .absent = true};
  if (!result) return {.instance = nullptr, .problem = result.error().what};
  if (!instance->ready())
    return {.instance = nullptr, .problem = "the pool is not ready after its root was recovered"};
  return {.instance = std::move(instance), .was_closed = was_closed};
}

}  // namespace perdure::crash
