// Data node of PacTree: an unsorted array of records with a commit bitmap, in a list in key
// order.
//
//   byte 0        64       72     80          88           96     104    112    120      128
//        | tag[64] | commit | next | anchor key | anchor value | prev | lock | high | unused |
//   byte 128  | record[n], n = node_entries, 4 .. 64 |
//
// 1152 bytes with 64 entries. A record is 16 bytes and begins at a multiple of 16: none straddles a
// cache line.
//
// L1  record i exists <=> bit i of `commit` is set, and its key is below the next node's anchor.
// L2  bit i set => record[i] and the blob it leads to were durable no later than the bit.
// L3  tag[i] of an existing record is the fingerprint of its key. Tags are never flushed: recovery
//     computes them.
// L4  the key of a live slot is never rewritten. An update is one store of the value word.
// L5  the anchor is a record without a value. It never changes; no key of the node is below it, and
//     it is above the anchor of the node before. The first node's is the lowest key there is, which
//     a bulk load may give to the second, too: then the first stays without records.
// L6  the list begins at the root's `head`, which stays for ever.
// L7  `commit` and `next` lie in one line, so they reach the media in the order of their stores. A
//     split stores `next` first, a merge `commit`: either way the one state in between is that a
//     node holds records which are in the next one, too. L1 says that they do not count; recovery
//     clears their bits.
// L8  `prev` and `high` are never flushed: recovery derives them. `prev` leads to the node before;
//     it belongs to the lock of that node. `high` is the key word of the next node's anchor, and
//     all ones in the last node.
// L9  `lock` is held whenever anything else of the node but `prev` changes, and given back only
//     after the fence that made the change durable. It means nothing after a restart.
// L10 a merged node is obsolete; its `prev` leads to the node that took its records. Node locks are
//     waited for from left to right only.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "index/leaf/tagged_leaf.h"
#include "pm/pm.h"

namespace perdure::pactree {

using namespace tagged;

inline constexpr std::uint64_t no_high = ~std::uint64_t{0};

struct alignas(pm::cache_line_bytes) DataNode : Records<DataNode> {
  std::array<std::uint8_t, max_entries> tag;
  std::atomic<std::uint64_t> commit;
  std::atomic<std::uint64_t> next;  ///< pool offset
  LeafRecord anchor;
  std::atomic<std::uint64_t> prev;  ///< pool offset
  pm::VersionLock lock;
  std::atomic<std::uint64_t> high;
  std::uint64_t unused;

  /// Makes an empty node of undefined memory. No flush.
  void format(unsigned entries, RecordWords lowest) noexcept {
    for (unsigned i = 0; i < max_entries; ++i) tag[i] = 0;
    commit.store(0, std::memory_order_relaxed);
    next.store(0, std::memory_order_relaxed);
    anchor.store(lowest);
    prev.store(0, std::memory_order_relaxed);
    lock.reset();
    high.store(no_high, std::memory_order_relaxed);
    unused = 0;
    for (unsigned slot = 0; slot < entries; ++slot) record(slot).store({});
  }

  /// Records, those that L1 says do not count included.
  [[nodiscard]] unsigned count() const noexcept {
    return pm::count_bits(commit.load(std::memory_order_acquire));
  }

  void flush_header() const noexcept { pm::flush(&commit, pm::cache_line_bytes); }
};

static_assert(offsetof(DataNode, commit) == 64 && offsetof(DataNode, next) == 72,
              "L7: one line, so store order is persist order");
static_assert(offsetof(DataNode, anchor) % 8 == 0 && offsetof(DataNode, high) == 112);

[[nodiscard]] constexpr std::size_t node_bytes(unsigned entries) noexcept {
  return bytes_of<DataNode>(entries);
}
static_assert(node_bytes(64) == 1152);

}  // namespace perdure::pactree
