// Bench: one run from an empty or recovered index to its result.
//
//   create and load, or open and recover -> warm-up -> repetitions -> verification, checks -> close
#pragma once

#include "core/result.h"
#include "driver/config.h"
#include "driver/progress.h"
#include "driver/result.h"

namespace perdure::driver {

/// Runs `config`. pm:: is configured here. On error nothing that the run created is left behind,
/// unless the load had finished. Errors: those of pool and index. A broken invariant that --check
/// finds is part of the result, as wrong answers are: the figures are there all the same.
[[nodiscard]] Result<BenchResult> run_bench(const BenchConfig& config, Progress& progress);

}  // namespace perdure::driver
