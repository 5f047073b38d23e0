// Asymmetric fences (P1202): a pair of fences of which the frequent one costs nothing.
//
// A light fence in one thread and a heavy fence in another order the accesses around them as two
// full fences would: the heavy one makes every thread of the process pass a full fence. A locked
// instruction in place of the light one would wait for all flushes before it to drain, and so keep
// an operation from overlapping with the one after it.
#pragma once

#include "pm/instructions.h"

namespace perdure::pm {

/// The frequent side. Cost: nothing but compiler order; a full fence where the kernel has no
/// expedited membarrier(2).
inline void light_fence() noexcept { detail::instruction::light_fence(); }

/// The rare side. Cost: an interrupt to every core that runs this process, microseconds.
inline void heavy_fence() noexcept { detail::instruction::heavy_fence(); }

}  // namespace perdure::pm
