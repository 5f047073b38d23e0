#include "driver/schedule.h"

#include <gtest/gtest.h>

namespace perdure::driver {
namespace {

BenchConfig at(double rate_ops_s, unsigned threads, Arrivals arrivals) {
  BenchConfig config;
  config.rate_ops_s = rate_ops_s;
  config.threads = threads;
  config.arrivals = arrivals;
  return config;
}

TEST(Schedule, ConstantArrivalsInterleaveThreads) {
  const Clock nanoseconds(false);
  const BenchConfig config = at(1e6, 4, Arrivals::constant);
  for (unsigned thread = 0; thread < 4; ++thread) {
    Schedule schedule(config, thread, nanoseconds, 8);
    schedule.prepare(0, 8);
    for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(schedule[i], 4000 * i + 1000 * thread);
  }
}

TEST(Schedule, StepsThatWereNotRunKeepTheirTimes) {
  const Clock nanoseconds(false);
  for (const Arrivals arrivals : {Arrivals::constant, Arrivals::poisson}) {
    const BenchConfig config = at(1e6, 1, arrivals);
    Schedule whole(config, 0, nanoseconds, 100);
    whole.prepare(0, 100);
    Schedule pieces(config, 0, nanoseconds, 100);
    pieces.prepare(0, 60);
    pieces.prepare(40, 60);  // 40 run, 20 left over
    for (std::size_t i = 0; i < 60; ++i) EXPECT_EQ(pieces[i], whole[40 + i]);
  }
}

TEST(Schedule, PoissonArrivalsHaveTheRateAndItsSpread) {
  constexpr std::size_t n = 100'000;
  const Clock nanoseconds(false);
  Schedule schedule(at(2e6, 2, Arrivals::poisson), 1, nanoseconds, n);
  schedule.prepare(0, n);
  EXPECT_NEAR(static_cast<double>(schedule[n - 1]) / n, 1000, 20);  // 6 standard errors
  std::size_t longer = 0;
  for (std::size_t i = 1; i < n; ++i) longer += schedule[i] - schedule[i - 1] > 1000 ? 1 : 0;
  EXPECT_NEAR(static_cast<double>(longer) / n, 0.3679, 0.01);  // 1/e
}

}  // namespace
}  // namespace perdure::driver
