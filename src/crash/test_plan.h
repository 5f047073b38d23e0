// A plan as the tests begin with.
#pragma once

#include "crash/search.h"

namespace perdure::crash {

/// Of small nodes; two minutes end it where nothing else does.
[[nodiscard]] inline Plan small_plan(const IndexInfo& info, unsigned threads) {
  Plan plan;
  plan.subject.info = &info;
  plan.subject.options = small_options(info);
  plan.threads = threads;
  plan.seconds = 120;
  return plan;
}

}  // namespace perdure::crash
