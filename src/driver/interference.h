// What else the machine did while a run was measured: other processes on its cores, a hypervisor
// that gave the cores to others, and a quota that held the run back.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace perdure::driver {

struct Interference {
  double seconds = 0;
  double steal_cores = 0;               ///< cores that the hypervisor took, on average
  double other_cores = 0;               ///< cores that other processes used, on average
  double load_average = 0;              ///< of the last minute, at the end
  std::uint64_t throttled_periods = 0;  ///< in which a CPU quota held this process back
};

/// Watches from its construction on. Tests give a `root`, which is put before every path.
class InterferenceWatch {
 public:
  explicit InterferenceWatch(std::string root = "");

  /// What has happened since; empty where the system does not say. Cost: about 0.2 ms.
  [[nodiscard]] std::optional<Interference> so_far() const;

 private:
  /// Seconds of all cores together since the system started.
  struct CpuTimes {
    double busy = 0;  ///< without what was stolen
    double stolen = 0;
    double own = 0;  ///< of this process
    double at = 0;   ///< the wall clock
  };
  [[nodiscard]] std::optional<CpuTimes> read() const;

  std::string root_;
  std::optional<CpuTimes> start_;
  std::uint64_t throttled_before_;
};

[[nodiscard]] nlohmann::ordered_json record_of(const Interference& interference);

/// One line for each kind that lowers the figures of `threads` threads on `cores` logical cores.
[[nodiscard]] std::vector<std::string> warnings_of(const Interference& interference,
                                                   unsigned threads, unsigned cores);

}  // namespace perdure::driver
