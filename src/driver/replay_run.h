// ReplayRun: a run that replays what a server has recorded, and how it ended.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/histogram.h"
#include "engine/store/digest.h"
#include "engine/store/observer.h"
#include "engine/trace/trace.h"

namespace perdure::driver {

struct ReplayRun {
  std::shared_ptr<const engine::Trace> trace;
  std::string index;                              ///< of the store, in the registry
  std::vector<std::vector<std::uint32_t>> dealt;  ///< operations of each thread (Trace::deal)
};

/// What a thread counts; of all threads at the end.
struct ReplayTally {
  std::array<Histogram, engine::actions> latency_ns{};
  /// Not replayed, because they found no room when they were recorded.
  std::uint64_t refused = 0;
  /// Answers other than the recorded ones.
  std::uint64_t differences = 0;
  std::string first_difference;
  std::uint64_t first_difference_at = 0;  ///< its number in the trace
  /// Scans that found another number. No failure: while others write a scan sees some of it.
  std::uint64_t other_scans = 0;

  void note_difference(std::uint64_t at, std::string what);
  void merge(const ReplayTally& other);
  [[nodiscard]] std::uint64_t executed() const noexcept;
};

struct ReplayResult {
  ReplayTally tally;
  engine::Digest digest;  ///< of what the store holds at the end
};

}  // namespace perdure::driver
