// Verdict: ratios beside targets, memory beside limits, and each rate beside what the machine's
// costs predict.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "contest.h"
#include "costs.h"

namespace perdure::bench {

/// Everything as one object.
[[nodiscard]] nlohmann::json to_json(const std::vector<Contestant>& contestants,
                                     const ContestPlan& plan, const MachineCosts& costs,
                                     const LoopCost& loop);

/// The same as tables on stdout. `contestants[0]` is the reference.
void print(const nlohmann::json& result);

}  // namespace perdure::bench
