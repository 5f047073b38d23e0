// The chain of leaves as a whole: making an empty one, building it from records, recovering it.
//
// The root leads to the anchor, the anchor to the first leaf, each leaf to the next. A bulk load
// builds a whole new chain and shows it by one store of the anchor's word.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "core/result.h"
#include "index/inner_tree/inner_tree.h"
#include "index/linetree/kind.h"
#include "index/linetree/leaf.h"
#include "index/linetree/leaf_table.h"
#include "pool/pool.h"

namespace perdure::linetree {

struct Anchor {
  std::atomic<std::uint64_t> first;  ///< pool offset of the first leaf
  std::uint64_t unused;
};
static_assert(sizeof(Anchor) == 16);

template <class Keys>
using Children = std::vector<typename Kind<Keys>::Inner::Child>;

/// What the functions below work on.
template <class Keys>
struct Chain {
  Pool& pool;
  const Shape& shape;
  LeafTable& table;
  const RecordStore<Keys>& records;

  [[nodiscard]] Leaf* leaf_at(std::uint64_t offset) const noexcept { return pool.at<Leaf>(offset); }
};

[[nodiscard]] Error damaged(const Pool& pool, const char* what, std::uint64_t offset);

/// The empty leaves that every tree has, one or two, reserved but not published, written and
/// flushed; the first leads to the second. Empty: out of space.
template <class Keys>
[[nodiscard]] std::vector<Reservation> make_first_leaves(Pool& pool, const Shape& shape);

/// Walks the chain, checks and marks the anchor, every leaf and all that it leads to with `threads`
/// threads, and fills the table. Then empties what an interrupted displacement has left twice, and
/// of byte strings what a split or a merge has left beyond an interval, durably; nothing on media
/// is changed when the chain is damaged. Returns what the inner nodes are built from; keys point
/// into the pool. Errors: corrupt. Cost: a dependent miss a leaf, then all lines of all leaves and
/// all blobs, side by side.
template <class Keys>
[[nodiscard]] Result<Children<Keys>> recover_chain(const Chain<Keys>& chain, std::uint64_t anchor,
                                                   unsigned threads);

/// Makes ascending records a chain of its own and the anchor lead to it; the old chain is the
/// caller's to free. Leaves are streamed. Errors: out_of_space (then all blocks are given back and
/// nothing has changed).
template <class Keys>
[[nodiscard]] Result<Children<Keys>> build_chain(const Chain<Keys>& chain, Anchor& anchor,
                                                 std::span<const typename Keys::Record> source);

}  // namespace perdure::linetree
