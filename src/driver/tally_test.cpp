#include "driver/tally.h"

#include <gtest/gtest.h>

namespace perdure::driver {
namespace {

using workload::Operation;

TEST(Tally, MergingAddsCountsAndHistograms) {
  Tally sum(true, false);
  for (std::uint64_t thread = 1; thread <= 3; ++thread) {
    Tally tally(true, false);
    tally.attempted[Operation::insert] = 10 * thread;
    tally.failed[Operation::insert] = thread;
    tally.refused = 1;
    (*tally.latency_ns)[Operation::insert].record(100 * thread);
    sum.merge(tally);
  }
  EXPECT_EQ(sum.attempted[Operation::insert], 60U);
  EXPECT_EQ(sum.failed[Operation::insert], 6U);
  EXPECT_EQ(sum.refused, 3U);
  const Histogram& merged = (*sum.latency_ns)[Operation::insert];
  EXPECT_EQ(merged.total(), 3U);
  EXPECT_EQ(merged.max(), 300U);
  EXPECT_EQ(merged.sum(), 600U);
  EXPECT_EQ((*sum.latency_ns)[Operation::lookup].total(), 0U);
}

TEST(Tally, OffMeansNoMemory) {
  const Tally tally(false, true);
  EXPECT_EQ(tally.latency_ns, nullptr);
  EXPECT_EQ(tally.service_ns, nullptr);
}

}  // namespace
}  // namespace perdure::driver
