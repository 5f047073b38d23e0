// Leaf locks: a table of version locks in DRAM, shared by leaves whose offsets collide.
//
// S1  whoever changes a leaf, its coverage or its successor holds the stripe of that leaf.
// S2  nobody waits for a stripe while holding another: the second is only tried, and on failure
//     all are released. Two leaves may share a stripe, so an order of leaves is no order of
//     stripes. Only who takes all that it needs in ascending order of address, and tries none
//     besides, may wait: it waits for nobody who waits for it.
// S3  a stripe never turns obsolete, because other leaves live on under it. A leaf that was
//     unlinked is recognised by the changed version instead.
//
// A lock in the leaf itself would dirty a line of media, and a crash would leave it to be cleared.
#pragma once

#include <bit>
#include <cstdint>
#include <new>
#include <span>

#include "index/inner_tree/node_arena.h"
#include "pm/pm.h"

namespace perdure {

class LeafLocks {
 public:
  static constexpr std::size_t default_stripes = std::size_t{1} << 15;
  static constexpr std::size_t most_stripes = NodeArena::chunk_bytes / sizeof(pm::VersionLock);

  /// `stripes` (1 .. most_stripes) is rounded up to a power of two. No two leaves begin at less
  /// than `leaf_bytes` from each other.
  LeafLocks(std::size_t stripes, std::size_t leaf_bytes, bool huge_pages)
      : stripes_(std::bit_ceil(stripes)),
        shift_(static_cast<unsigned>(std::bit_width(leaf_bytes) - 1)),
        arena_(huge_pages),
        table_(static_cast<pm::VersionLock*>(arena_.allocate(stripes_ * sizeof(pm::VersionLock)))) {
    for (std::size_t i = 0; i < stripes_; ++i) new (table_ + i) pm::VersionLock;
  }

  /// The lock of the leaf at this pool offset.
  [[nodiscard]] pm::VersionLock& of(std::uint64_t leaf_offset) const noexcept {
    return table_[leaf_offset >> shift_ & (stripes_ - 1)];
  }

  /// True when no stripe is held: what must hold at rest.
  [[nodiscard]] bool all_free() const noexcept {
    for (const pm::VersionLock& stripe : std::span(table_, stripes_))
      if (pm::VersionLock::is_locked(stripe.peek())) return false;
    return true;
  }

  [[nodiscard]] std::uint64_t dram_bytes() const noexcept { return arena_.dram_bytes(); }

 private:
  std::size_t stripes_;
  unsigned shift_;
  NodeArena arena_;  ///< one chunk, so that a huge page can back the table
  pm::VersionLock* table_;
};

}  // namespace perdure
