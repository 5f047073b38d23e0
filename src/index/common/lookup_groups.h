// Lookups in groups whose cache misses overlap.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include "core/assert.h"
#include "index/index.h"

namespace perdure {

inline constexpr std::size_t batch_group = 32;  ///< operations whose misses overlap

/// Calls `search(keys, values, outcomes)` for groups of at most `batch_group` lookups.
template <class Key, class ValueOut, class Search>
void in_groups(std::span<const Key> keys, std::span<ValueOut> values, std::span<Outcome> outcomes,
               Search&& search) {
  PERDURE_ASSERT(values.size() >= keys.size() && outcomes.size() >= keys.size());
  for (std::size_t first = 0; first < keys.size(); first += batch_group) {
    const std::size_t group = std::min(batch_group, keys.size() - first);
    search(keys.subspan(first, group), values.subspan(first, group),
           outcomes.subspan(first, group));
  }
}

}  // namespace perdure
