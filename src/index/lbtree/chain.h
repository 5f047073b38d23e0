// The chain of leaves as a whole: recovering it, and building it from sorted records.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/result.h"
#include "index/common/record_store.h"
#include "index/inner_tree/inner_tree.h"
#include "index/lbtree/leaf.h"
#include "pool/pool.h"

namespace perdure::lbtree {

template <class Keys>
using Children = std::vector<typename InnerTree<Keys>::Child>;

/// Slots that a bulk-loaded leaf fills: all but those beside the header, so that the first
/// insertions into it cost one flushed line each.
inline constexpr unsigned bulk_records = Leaf::entries - Leaf::line_0_slots;

/// Whether a leaf may lie at `offset`: recovery asks before it follows anything.
[[nodiscard]] bool could_be_leaf(const Pool& pool, std::uint64_t offset) noexcept;

[[nodiscard]] Error damaged(const Pool& pool, const char* what, std::uint64_t offset);

/// Walks the chain from the leaf at `head`, checks and marks every leaf and blob with `threads`
/// threads, and unlinks empty leaves. Returns what the inner nodes are built from; keys point into
/// the pool. Nothing on media is changed when the chain is damaged. Errors: corrupt. Cost: a
/// dependent miss a leaf; a flush and a fence for each empty leaf.
template <class Keys>
[[nodiscard]] Result<Children<Keys>> recover_chain(Pool& pool, const RecordStore<Keys>& records,
                                                   std::uint64_t head, unsigned threads);

/// Makes ascending records a chain after `first`, an empty leaf without successor, which takes the
/// first of them: one store of its word 0 makes all of it visible and durable.
/// The caller is pinned. Errors: out_of_space (then everything is given back or retired).
template <class Keys>
[[nodiscard]] Result<Children<Keys>> build_chain(Pool& pool, const RecordStore<Keys>& records,
                                                 Leaf& first,
                                                 std::span<const typename Keys::Record> source);

}  // namespace perdure::lbtree
