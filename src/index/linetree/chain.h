// The chain of leaves as a whole: making an empty one, building it from records, recovering it.
//
// The root leads to the anchor, the anchor to the first leaf, each leaf to the next. A bulk load
// builds a whole new chain and shows it by one store of the anchor's word.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "core/result.h"
#include "index/inner_tree/inner_tree.h"
#include "index/linetree/leaf.h"
#include "index/linetree/leaf_table.h"
#include "pool/pool.h"

namespace perdure::linetree {

struct Anchor {
  std::atomic<std::uint64_t> first;  ///< pool offset of the first leaf
  std::uint64_t unused;
};
static_assert(sizeof(Anchor) == 16);

using Inner = InnerTree<IntegerKeys, FrameLayout>;
using Children = std::vector<Inner::Child>;

/// What the functions below work on.
struct Chain {
  Pool& pool;
  const Shape& shape;
  LeafTable& table;

  [[nodiscard]] Leaf* leaf_at(std::uint64_t offset) const noexcept { return pool.at<Leaf>(offset); }
};

[[nodiscard]] Error damaged(const Pool& pool, const char* what, std::uint64_t offset);

/// The two empty leaves that every tree has, reserved but not published, written and flushed.
/// Null reservations: out of space.
[[nodiscard]] std::array<Reservation, 2> make_first_leaves(Pool& pool, const Shape& shape);

/// Walks the chain, checks and marks every leaf and the anchor with `threads` threads, and fills
/// the table. Then takes out what an interrupted displacement has left twice, durably; nothing on
/// media is changed when the chain is damaged. Returns what the inner nodes are built from.
/// Errors: corrupt. Cost: a dependent miss a leaf, then all lines of all leaves, side by side.
[[nodiscard]] Result<Children> recover_chain(const Chain& chain, std::uint64_t anchor,
                                             unsigned threads);

/// Makes ascending records a chain of its own and the anchor lead to it; the old chain is the
/// caller's to free. Leaves are streamed. Errors: out_of_space (then all blocks are given back and
/// nothing has changed).
[[nodiscard]] Result<Children> build_chain(const Chain& chain, Anchor& anchor,
                                           std::span<const IntegerRecord> source);

}  // namespace perdure::linetree
