// Tally: what a thread counts while it works; the tallies of all threads are merged at the end.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/histogram.h"
#include "workload/mix.h"

namespace perdure::driver {

using OperationHistograms = workload::PerOperation<Histogram>;

/// Histograms are allocated beforehand or not at all: the timed path never allocates.
struct Tally {
  workload::OperationCounts attempted;
  workload::OperationCounts failed;
  std::uint64_t refused = 0;                        ///< of the failed: out of space, or invalid
  workload::OperationCounts retried;                ///< of a queue: "full", "empty"; no operations
  std::unique_ptr<OperationHistograms> latency_ns;  ///< null: off
  std::unique_ptr<OperationHistograms> service_ns;  ///< null: off, or closed loop

  Tally() = default;
  Tally(bool latencies, bool open_loop) {
    if (!latencies) return;
    latency_ns = std::make_unique<OperationHistograms>();
    if (open_loop) service_ns = std::make_unique<OperationHistograms>();
  }

  void clear() {
    attempted = {};
    failed = {};
    refused = 0;
    retried = {};
    if (latency_ns) *latency_ns = {};
    if (service_ns) *service_ns = {};
  }

  /// Adds another thread's. Both have the same histograms.
  void merge(const Tally& other) {
    for (std::size_t i = 0; i < workload::operation_kinds; ++i) {
      attempted.of[i] += other.attempted.of[i];
      failed.of[i] += other.failed.of[i];
      retried.of[i] += other.retried.of[i];
      if (latency_ns && other.latency_ns) latency_ns->of[i].merge(other.latency_ns->of[i]);
      if (service_ns && other.service_ns) service_ns->of[i].merge(other.service_ns->of[i]);
    }
    refused += other.refused;
  }
};

}  // namespace perdure::driver
