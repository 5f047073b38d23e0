// The results of a run: each phase fills in its part, and the record and the warnings read them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/result.h"
#include "driver/hardware_counters.h"
#include "driver/interference.h"
#include "driver/tally.h"
#include "platform/model/counters.h"
#include "workload/verify.h"

namespace perdure::driver {

/// What a simulated machine did in one phase.
struct SimulatedPhase {
  platform::Counters counters;
  platform::TimeSplit time;  ///< of all threads, added up
};

struct LoadResult {
  double seconds = 0;
  std::uint64_t records = 0;
  std::uint64_t failed = 0;
};

struct RecoveryResult {
  double seconds = 0;  ///< opening the pool and recovering the index
  std::uint64_t records = 0;
  std::optional<bool> clean;  ///< empty: the storage engine does not say
  std::uint64_t leaked_blocks_freed = 0;
  std::optional<SimulatedPhase> simulated;
};

/// After the load and after background work has finished.
struct MemoryResult {
  std::uint64_t pm_bytes = 0;  ///< taken from the pool (on-disk index: size of its files)
  std::uint64_t dram_bytes = 0;
  std::uint64_t records = 0;
  std::uint64_t pool_huge_page_bytes = 0;
};

struct TimelinePoint {
  double second;             ///< time counted when the sample was taken
  std::uint64_t operations;  ///< since the sample before
};

struct RepetitionResult {
  double seconds = 0;  ///< time counted: see rounds.h
  Tally tally;         ///< of all threads
  std::vector<TimelinePoint> timeline;
  std::optional<SimulatedPhase> simulated;
  std::optional<HardwareCounts> hardware;  ///< of native runs, over all threads
};

struct ReplayResult;

struct BenchResult {
  LoadResult load;
  std::optional<RecoveryResult> recovery;
  MemoryResult memory;
  std::uint64_t pool_bytes = 0;
  std::string medium;
  std::string heap;  ///< of the pool; "none"
  std::vector<RepetitionResult> repetitions;
  std::optional<Interference> interference;  ///< of native runs, during the repetitions
  std::optional<workload::Verifier::Summary> verification;
  std::optional<Error> broken_invariant;       ///< what --check found
  std::shared_ptr<const ReplayResult> replay;  ///< of a replay that was not interrupted
  std::vector<std::string> warnings;
  std::optional<Error> unwritten;  ///< why a file beside the result could not be written
  bool interrupted = false;  ///< a signal came: the pool is closed, the figures are incomplete
};

}  // namespace perdure::driver
