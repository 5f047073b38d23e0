// ProbeTarget: the machine that `probe` measures. perdure-native links the one that is this machine
// (probe_target_native.cpp), perdure-sim the one that simulates a platform
// (probe_target_simulated.cpp).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/result.h"
#include "probe/measure.h"

namespace perdure::driver {

struct ProbeOptions {
  std::string target = "native";  ///< or "sim:PLATFORM"
  std::string pool_path;          ///< native: folder, file or device of the PM region
  bool force = false;             ///< native: overwrite an existing file or device
  std::uint64_t seed = 1;
  bool quick = false;               ///< a tenth of the accesses
  double seconds = 0;               ///< native, per bandwidth point; 0: the default
  unsigned jobs = 0;                ///< simulated points at once; 0: one per core
  std::vector<std::string> ablate;  ///< simulated: mechanisms switched off
  bool guard = false;               ///< simulated: with the completeness guard
};

/// What the lists of points depend on.
struct ProbeDefaults {
  std::uint64_t region_bytes = 0;
  std::uint64_t cached_region_bytes = 0;  ///< I1: as published, 16 MiB
  unsigned threads = 1;                   ///< most that run side by side
  bool prefetch_switch = false;           ///< hardware prefetchers can be switched off
};

class ProbeTarget {
 public:
  using Progress = std::function<void(std::size_t done)>;

  virtual ~ProbeTarget() = default;
  [[nodiscard]] virtual ProbeDefaults defaults() const = 0;
  /// Sections of the document: "platform" and "ablate", or "environment".
  [[nodiscard]] virtual nlohmann::ordered_json facts() const = 0;
  /// Measures each point from a fresh state; results in the order of `points`.
  [[nodiscard]] virtual Result<std::vector<probe::Outcome>> measure(
      const std::vector<probe::Point>& points, const Progress& progress) = 0;
};

/// Errors: usage and unsupported for a target that this program cannot measure; those of the files
/// and devices named.
[[nodiscard]] Result<std::unique_ptr<ProbeTarget>> open_probe_target(const ProbeOptions& options);

}  // namespace perdure::driver
