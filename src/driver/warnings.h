// What a reader must know before believing a run's figures.
#pragma once

#include "driver/config.h"
#include "driver/result.h"

namespace perdure::driver {

/// Appends to `result.warnings` what the machine, the medium, the configuration and the figures
/// themselves give cause for; one line each.
void add_warnings(const BenchConfig& config, BenchResult& result, bool pinned);

}  // namespace perdure::driver
