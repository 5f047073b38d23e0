// Walks over whole lists: the recovery of one whose links are on media, and a count.
#pragma once

#include <cstdint>

#include "lockfree/list/links.h"

namespace perdure::lockfree {

/// Unlinks the marked nodes, takes the marks of a policy away, and claims the others. Each link is
/// one word, so a cut in between leaves a list, too. Null, or what is wrong.
[[nodiscard]] const char* relink(NodeSlab& slab, Link& head);

/// Marked nodes that are still linked: their remover was stopped, or is at work.
[[nodiscard]] std::uint64_t marked_nodes(const NodeSlab& slab, const Link& head) noexcept;

}  // namespace perdure::lockfree
