#include "driver/clock.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace perdure::driver {
namespace {

TEST(Clock, CounterAndMonotonicTimeAgree) {
  const Clock& clock = Clock::get();
  const std::uint64_t begin_ns = Clock::monotonic_ns();
  const Ticks begin = clock.now();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const Ticks ticks = clock.now() - begin;
  const auto ns = static_cast<double>(Clock::monotonic_ns() - begin_ns);
  EXPECT_NEAR(static_cast<double>(clock.to_ns(ticks)), ns, ns * 0.005);
  EXPECT_NEAR(clock.to_seconds(ticks) * 1e9, ns, ns * 0.005);
}

TEST(Clock, WithoutTheCounterTicksAreNanoseconds) {
  const Clock clock(false);
  EXPECT_EQ(clock.to_ns(12'345), 12'345U);
  EXPECT_EQ(clock.to_seconds(500'000'000), 0.5);
  EXPECT_EQ(clock.to_ns(~Ticks{0} >> 4), ~Ticks{0} >> 4);  // no overflow for years
}

}  // namespace
}  // namespace perdure::driver
