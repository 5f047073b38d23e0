// The list node of uTree: one record and the link to the next, in key order.
//
//   byte 0     8       16     24
//        | key | value | next |
//
//   A block of it takes 32 bytes and is aligned to them, so a node lies in one cache line.
//
// L1  the list is reached from the root's node, which holds no record and never goes. A record is
// in
//     the index <=> its node is reachable. Keys ascend strictly along the list.
// L2  a node and what it leads to are durable and allocated no later than the link to it, which one
//     8-byte store sets; another takes it out. Key and `next` of a node that is out never change.
// L3  the value of a reachable node is replaced by one 8-byte store.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "index/common/record_store.h"
#include "pm/pm.h"
#include "pool/heap.h"

namespace perdure::utree {

struct ListNode {
  LeafRecord record;
  std::atomic<std::uint64_t> next;

  /// Fills a node that nothing leads to, and flushes it. Not fenced.
  void fill(RecordWords words, std::uint64_t successor) noexcept {
    new (this) ListNode;
    record.store(words);
    next.store(successor, std::memory_order_relaxed);
    pm::flush(this, sizeof *this);
  }
};

/// Spacing and alignment of nodes: leaves count offsets in this unit.
inline constexpr std::uint64_t node_alignment = 32;

static_assert(sizeof(ListNode) == 24 && offsetof(ListNode, next) == 16);
static_assert(offsetof(LeafRecord, value) % 8 == 0, "a value must be failure-atomic");
static_assert(Heap::block_bytes(sizeof(ListNode)) == node_alignment);
static_assert(Heap::block_alignment(sizeof(ListNode)) == node_alignment);

}  // namespace perdure::utree
