// Recovery of a DPTree from its anchor alone.
#pragma once

#include "core/result.h"
#include "index/dptree/leftovers.h"
#include "index/dptree/parts.h"

namespace perdure::dptree {

/// Reads the current version of the base tree, disowns what an unfinished merge wrote, and replays
/// the logs into buffer trees. Cost: one flush and fence for each leaf that an unfinished merge
/// touched. Errors: corrupt; media are believed in nothing.
template <class Keys>
[[nodiscard]] Result<void> recover_trees(Parts<Keys>& parts, Leftovers& leftovers);

}  // namespace perdure::dptree
