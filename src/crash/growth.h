// Growth: what a structure does for the first time when it has become large enough, such as the
// first split of an inner node, or the doubling of a table.
#pragma once

#include "crash/search.h"

namespace perdure::crash {

/// A program that begins a few operations before one that leaves a longer trace than any insertion
/// before it. Which of these is drawn from the seed. `events`: of the run that was recorded for it.
[[nodiscard]] Program draw_growth(const Plan& plan, std::uint64_t seed, Workspace& workspace,
                                  std::size_t& events);

}  // namespace perdure::crash
