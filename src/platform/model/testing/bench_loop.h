// BenchLoop: the loops of the published micro-benchmarks, driven straight on a Machine in order of
// time, without fibers or hooks. Used by tests and by calibration.
#pragma once

#include <cstdint>
#include <vector>

#include "platform/model/machine.h"

namespace perdure::platform::testing {

enum class BenchOp : std::uint8_t { load, ntstore, store_clwb, store };
enum class BenchPattern : std::uint8_t { sequential, random };

struct BenchSetup {
  Platform platform;
  Ablation ablation;
  BenchOp op = BenchOp::load;
  BenchPattern pattern = BenchPattern::sequential;
  unsigned access_bytes = 256;
  unsigned threads = 1;
  std::uint64_t region_bytes = 64 << 20;  ///< of each thread
  MemoryKind memory = MemoryKind::pm;
  unsigned memory_node = 0;
  unsigned cpu_node = 0;
  double op_cost_ns = 0;          ///< the benchmark's own, after the accesses have ended
  double op_compute_ns = 0;       ///< overlaps them
  std::uint64_t fence_bytes = 0;  ///< a fence after so many; 0: none
  bool flush_after_op = false;    ///< clwb after all stores of an operation, not each in turn
  double warm_us = 60, measured_us = 150;
  std::uint64_t seed = 1;
};

struct BenchResult {
  double mib_per_s = 0;
  double ewr = 0;  ///< bytes to the controller / bytes to the media
  double err = 0;  ///< bytes read by the controller / bytes read from the media
  double read_hit_ratio = 0;
  std::uint64_t accesses = 0;
  Counters counters;
  TimeSplit split;
};

[[nodiscard]] BenchResult run_bench(const BenchSetup& setup);

}  // namespace perdure::platform::testing
