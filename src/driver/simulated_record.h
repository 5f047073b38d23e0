// The parts of a run record that only a simulated run has: the platform, and what its machine did.
#pragma once

#include <nlohmann/json.hpp>

#include "driver/config.h"
#include "driver/result.h"

namespace perdure::driver {

/// The machine of a simulated run; null for a native one.
[[nodiscard]] nlohmann::ordered_json platform_record(const BenchConfig& config);

/// Counters, ratios and the time split of one phase, in all and per operation; null for a native
/// run. `operations`: attempted; 0: no per-operation figures. `seconds`: the phase's virtual time.
[[nodiscard]] nlohmann::ordered_json simulation_record(const BenchConfig& config,
                                                       const std::optional<SimulatedPhase>& phase,
                                                       std::uint64_t operations, double seconds);

}  // namespace perdure::driver
