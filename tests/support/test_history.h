// A test that runs a generated history on one target, beside a model.
#pragma once

#include <gtest/gtest.h>

#include "support/differential.h"
#include "support/dispatch.h"

namespace perdure::testing {

class HistoryTest : public ::testing::TestWithParam<Target> {
 protected:
  void run(HistoryPlan plan) {
    plan.seed = seed_or(plan.seed);
    const bool disk = GetParam().info->index_class == IndexClass::on_disk;
    plan.operations = scaled(disk ? plan.operations / 5 : plan.operations, 200);
    const Result<void> done = for_kind(GetParam().kind, [&](auto keys) {
      return run_differential<decltype(keys)>(GetParam(), plan);
    });
    EXPECT_TRUE(done.ok()) << done.error().line();
  }
};

}  // namespace perdure::testing
