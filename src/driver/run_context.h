// RunContext: what every phase of a run needs: the configuration, the machine, and the result that
// each phase fills in.
#pragma once

#include "driver/clock.h"
#include "driver/config.h"
#include "driver/progress.h"
#include "driver/result.h"
#include "driver/target.h"

namespace perdure::driver {

struct RunContext {
  const BenchConfig& config;
  Progress& progress;
  const Clock& clock;
  Target& target;
  BenchResult& result;
};

}  // namespace perdure::driver
