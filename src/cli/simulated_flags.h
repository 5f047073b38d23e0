// What a simulated run is told beyond a native one.
#pragma once

#include "cli/bench_flags.h"
#include "core/result.h"
#include "driver/config.h"

namespace perdure::cli {

/// The machine of --target sim:PLATFORM, with all the CPUs that --cpus allows. Empty for a native
/// run. Errors: usage, unsupported, not_found, bad_input.
[[nodiscard]] Result<std::optional<driver::SimulatedMachine>> resolve_simulated_machine(
    const BenchFlags& flags);

/// What depends on the rest of the configuration: the carrier, a pool where none is named; and what
/// a simulation cannot do. Errors: usage, unsupported.
[[nodiscard]] Result<void> complete_simulated(const BenchFlags& flags, driver::BenchConfig& config);

}  // namespace perdure::cli
