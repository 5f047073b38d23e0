// Environment: what the machine is and how it is set, for run records and `perdure environment`.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/limits.h"
#include "driver/numa.h"

namespace perdure::driver {

/// A PM or CXL device that the kernel shows.
struct MemoryDevice {
  std::string kind;  ///< "devdax" | "pmem" | "nvdimm_region" | "cxl"
  std::string path;
  std::uint64_t bytes = 0;  ///< 0: the kernel does not say
};

struct Environment {
  std::string cpu;
  unsigned cores = 0;          ///< physical cores this process may use
  unsigned logical_cores = 0;  ///< the same with their siblings
  std::uint64_t memory_bytes = 0;
  std::string kernel;
  unsigned numa_nodes = 1;
  std::string flush;         ///< instruction in use
  std::string simd;          ///< level in use
  std::string transactions;  ///< "rtm" | "off" | "unavailable"
  std::string huge_pages;    ///< "anonymous madvise, shared memory advise"
  std::string governor;      ///< of CPU 0; "unknown" where the kernel does not say
  std::string turbo;         ///< "on" | "off" | "unknown"
  /// PMDK's variables ("PMEM...") that are set, with their values.
  std::vector<std::pair<std::string, std::string>> pmdk_variables;
  std::string host_fingerprint;  ///< equal for runs on the same kind of machine and kernel

  // Facts beyond the run record.
  std::vector<std::string> cpu_features;  ///< those that matter here and are present
  bool rtm_reported = false;              ///< CPUID reports RTM; it may still abort every time
  bool invariant_counter = false;
  int perf_event_paranoid = 99;                ///< 99: unknown
  std::uint64_t shared_memory_free_bytes = 0;  ///< in /dev/shm
  Room memory_room;                            ///< that is still free
  std::optional<CpuQuota> cpu_quota;           ///< of the control groups
  std::vector<MemoryDevice> devices;
  std::vector<MemoryNode> memory_nodes;  ///< without CPUs, as CXL memory is shown
};

/// Reads /proc, /sys and /dev; a file that is missing leaves "unknown" or 0. Cost: about 1 ms.
/// Call after pm::configure: the instructions in use are part of it. Tests give a `root`, which is
/// put before every path.
[[nodiscard]] Environment read_environment(const std::string& root = "");

/// The `environment` object of the run record (perdure-run/1). `medium`: where the pool lives.
[[nodiscard]] nlohmann::ordered_json record_of(const Environment& environment,
                                               const std::string& medium);
/// All facts, for `perdure environment --json`.
[[nodiscard]] nlohmann::ordered_json facts_of(const Environment& environment);

/// One line for each PMDK variable that changes what libpmem and libpmemobj do.
[[nodiscard]] std::vector<std::string> pmdk_warnings_of(const Environment& environment);

/// One line for each property of the machine that makes figures doubtful.
[[nodiscard]] std::vector<std::string> warnings_of(const Environment& environment);

}  // namespace perdure::driver
