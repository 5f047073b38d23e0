// Outcome: the figures of one measured point, and the ratios of its counters.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "probe/point.h"
#include "probe/rig.h"

namespace perdure::probe {

/// Time per operation of one thread (chase, I1: per 64 bytes), in ns.
struct Latency {
  double mean = 0, p50 = 0, p90 = 0, p99 = 0, p999 = 0, max = 0;
};

/// A quantity that the target cannot measure is empty.
struct Outcome {
  std::optional<std::string> skipped;  ///< why nothing was measured
  std::uint64_t operations = 0;        ///< within the window
  double seconds = 0;                  ///< of the window
  std::optional<double> bandwidth_gib_s;
  std::optional<Latency> latency_ns;
  std::uint64_t operations_per_sample = 1;  ///< over how many a latency sample is the mean
  std::optional<CounterValues> counters;
  std::string counters_missing;
};

/// Ratios of counters, empty when the divisor is 0 or the counters are missing.
struct Ratios {
  std::optional<double> ewr, err, rwr, buffer_hit_ratio, write_amplification;
};
[[nodiscard]] Ratios ratios_of(const Point& point, const Outcome& outcome);

}  // namespace perdure::probe
