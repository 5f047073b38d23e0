// The data caches of this machine, which tell whether a probe has measured memory or a cache.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "probe/point.h"

namespace perdure::driver {

struct CacheLevel {
  unsigned level = 1;
  std::uint64_t bytes = 0;  ///< of one such cache
  bool shared = false;      ///< by the cores of a socket; else each core has one
};

/// Caches that hold data, from the first level on; empty where the system does not list them.
[[nodiscard]] std::vector<CacheLevel> cache_levels();

/// The first level that can answer for the memory at `point`: it holds the region, of which each
/// thread has a part, and nothing of the probe takes it out. Empty: the memory is measured.
[[nodiscard]] std::optional<CacheLevel> cache_that_answers(const probe::Point& point,
                                                           const std::vector<CacheLevel>& levels);

}  // namespace perdure::driver
