// Clock: the time stamp counter as a clock, or CLOCK_MONOTONIC where the counter cannot be trusted;
// under simulation, the virtual time of the simulated thread (target_simulated.cpp).
//
// `now` is one plain rdtsc, without fences. The core may move it by a few dozen instructions; over
// the readings of a run that cancels, because the end of one operation is the start of the next.
// Even so it keeps the misses of successive operations from overlapping as they would without, so
// throughput is measured with no reading between operations (worker.h). `now_in_order` times one
// operation that stands alone.
#pragma once

#include <x86intrin.h>

#include <cstdint>
#include <ctime>

namespace perdure::driver {

/// Units of `Clock::now`.
using Ticks = std::uint64_t;

class Clock {
 public:
  /// Calibrates at the first call, which takes about 30 ms; thread-safe.
  [[nodiscard]] static const Clock& get();

  [[nodiscard]] Ticks now() const noexcept { return counter_ ? __rdtsc() : read_(); }

  /// A reading between fences: everything before it has been executed, nothing after it has begun.
  /// For single operations that are timed by themselves. Cost: about 20 ns, and the loads that the
  /// core still waits for.
  [[nodiscard]] Ticks now_in_order() const noexcept {
    if (!counter_) return read_();
    _mm_lfence();
    const Ticks ticks = __rdtsc();
    _mm_lfence();
    return ticks;
  }

  /// Cost: one multiplication.
  [[nodiscard]] std::uint64_t to_ns(Ticks ticks) const noexcept {
    __extension__ using Wide = unsigned __int128;
    return static_cast<std::uint64_t>((static_cast<Wide>(ticks) * ns_per_tick_) >> fraction_bits);
  }
  [[nodiscard]] double to_seconds(Ticks ticks) const noexcept {
    return static_cast<double>(ticks) / ticks_per_second_;
  }
  [[nodiscard]] double ticks_per_second() const noexcept { return ticks_per_second_; }

  [[nodiscard]] static std::uint64_t monotonic_ns() noexcept {
    timespec at{};
    clock_gettime(CLOCK_MONOTONIC, &at);
    return static_cast<std::uint64_t>(at.tv_sec) * 1'000'000'000 +
           static_cast<std::uint64_t>(at.tv_nsec);
  }

  /// `use_counter` false forces CLOCK_MONOTONIC; tests compare the two.
  explicit Clock(bool use_counter);
  /// A clock that is read by a call.
  Clock(Ticks (*read)(), double ticks_per_second);

 private:
  /// The clock of the target this program is for; in target_native.cpp or target_simulated.cpp.
  [[nodiscard]] static Clock of_target();

  static constexpr unsigned fraction_bits = 40;

  bool counter_;
  Ticks (*read_)() = monotonic_ns;
  double ticks_per_second_ = 1e9;
  std::uint64_t ns_per_tick_ = 1ULL << fraction_bits;
};

/// True when the counter runs at one rate in every power state (CPUID, invariant TSC).
[[nodiscard]] bool has_invariant_counter() noexcept;

}  // namespace perdure::driver
