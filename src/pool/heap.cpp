#include "pool/heap.h"

#include <algorithm>

namespace perdure {

Reservation Heap::reserve_volatile(std::size_t bytes) {
  const pm::LockGuard hold(volatile_lock_);
  volatile_.emplace_back();  // first: a block must not be lost to a failing vector
  Reservation block = reserve(bytes);
  if (block)
    volatile_.back() = {block.offset, block_bytes(bytes)};
  else
    volatile_.pop_back();
  return block;
}

void Heap::cancel_volatile(Reservation& block) noexcept {
  const pm::LockGuard hold(volatile_lock_);
  std::erase_if(volatile_, [&](const Extent& each) { return each.offset == block.offset; });
  cancel(block);
}

HeapUsage Heap::volatile_usage() const noexcept {
  const pm::LockGuard hold(volatile_lock_);
  HeapUsage usage;
  usage.live_blocks = volatile_.size();
  for (const Extent& each : volatile_) usage.live_bytes += each.bytes;
  return usage;
}

bool Heap::is_volatile(std::uint64_t offset) const noexcept {
  const pm::LockGuard hold(volatile_lock_);
  return std::ranges::any_of(volatile_, [&](const Extent& each) { return each.offset == offset; });
}

}  // namespace perdure
