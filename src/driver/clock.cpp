#include "driver/clock.h"

#include <cpuid.h>

#include <cmath>

namespace perdure::driver {
namespace {

struct Pair {
  std::uint64_t ticks;
  std::uint64_t ns;
};

// The pair whose two counter readings lie closest together: an interrupt between them would
// otherwise go into the rate.
Pair read_pair() {
  constexpr int tries = 20;
  Pair best{};
  std::uint64_t narrowest = ~std::uint64_t{0};
  for (int i = 0; i < tries; ++i) {
    const std::uint64_t before = __rdtsc();
    const std::uint64_t ns = Clock::monotonic_ns();
    const std::uint64_t after = __rdtsc();
    if (after - before >= narrowest) continue;
    narrowest = after - before;
    best = {before + (after - before) / 2, ns};
  }
  return best;
}

}  // namespace

bool has_invariant_counter() noexcept {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  if (__get_cpuid(0x80000007, &eax, &ebx, &ecx, &edx) == 0) return false;
  return (edx & (1U << 8)) != 0;
}

Clock::Clock(bool use_counter) : counter_(use_counter) {
  if (!counter_) return;
  constexpr long calibration_ns = 30'000'000;
  const Pair begin = read_pair();
  timespec pause{0, calibration_ns};
  while (nanosleep(&pause, &pause) != 0) {
  }
  const Pair end = read_pair();
  const auto ns = static_cast<double>(end.ns - begin.ns);
  const auto ticks = static_cast<double>(end.ticks - begin.ticks);
  ticks_per_second_ = ticks / ns * 1e9;
  ns_per_tick_ =
      static_cast<std::uint64_t>(ns / ticks * static_cast<double>(1ULL << fraction_bits));
}

// Rounded up, or whole nanoseconds of a clock that counts picoseconds would lose one.
Clock::Clock(Ticks (*read)(), double ticks_per_second)
    : counter_(false),
      read_(read),
      ticks_per_second_(ticks_per_second),
      ns_per_tick_(static_cast<std::uint64_t>(
          std::ceil(1e9 / ticks_per_second * static_cast<double>(1ULL << fraction_bits)))) {}

const Clock& Clock::get() {
  static const Clock clock = of_target();
  return clock;
}

}  // namespace perdure::driver
