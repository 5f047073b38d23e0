// What this process may use of the machine: memory and processor time, as the kernel's control
// groups (cgroup v1 and v2) limit them. A container's limits are those of its group and of all
// groups around it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace perdure {

/// Bytes that this process can still allocate, and what bounds them.
struct Room {
  static constexpr std::uint64_t unknown = ~std::uint64_t{0};

  std::uint64_t bytes = unknown;
  std::string bound;  ///< "this machine's memory"
};

/// Available memory: the least of MemAvailable and what each control group leaves below its
/// limit (memory.max and memory.high; memory.limit_in_bytes). Page cache that the kernel would
/// reclaim first counts as free. `root` is put before every path, for tests. Cost: about 0.2 ms.
[[nodiscard]] Room memory_room(const std::string& root = "");

/// Processor time that a control group may take.
struct CpuQuota {
  double cores = 0;   ///< on average over a period
  std::string group;  ///< the folder of the group that sets it
};

/// The least quota of all groups; empty: none has one.
[[nodiscard]] std::optional<CpuQuota> cpu_quota(const std::string& root = "");

/// Periods in which a group of this process was throttled by its quota, since the group was made;
/// 0 where the kernel does not say.
[[nodiscard]] std::uint64_t throttled_periods(const std::string& root = "");

}  // namespace perdure
