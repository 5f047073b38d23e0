// What misses and persists cost on this machine, measured in the same run as the indexes.
#pragma once

#include <cstdint>

namespace perdure::bench {

struct MachineCosts {
  double dependent_miss_ns = 0;     ///< a load whose address comes from the load before
  double dependent_miss_4k_ns = 0;  ///< the same without huge pages
  double independent_miss_ns = 0;   ///< one of many that overlap
  double persist_cold_ns = 0;       ///< store + flush + fence to a line that is in no cache
  double persist_warm_ns = 0;       ///< the same to a line in the cache
};

/// Walks `bytes` of memory. Cost: about a second, and twice the memory.
[[nodiscard]] MachineCosts measure_costs(std::uint64_t bytes);

}  // namespace perdure::bench
