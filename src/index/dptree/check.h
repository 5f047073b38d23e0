// The walk of DPTree's `check_invariants`.
#pragma once

#include <cstddef>

#include "core/result.h"
#include "index/dptree/parts.h"

namespace perdure::dptree {

/// Holds trees and logs against every numbered invariant that a walk can see. No operation runs,
/// and `merging` is held; `spare_leaves`: leaves that are reserved. Errors: corrupt.
template <class Keys>
[[nodiscard]] Result<void> check_trees(const Parts<Keys>& parts, std::size_t spare_leaves);

}  // namespace perdure::dptree
