// The record of a replay ("perdure-replay/1"): what was replayed, whether everything was answered
// as recorded, what the store holds at the end, and what it cost.
#pragma once

#include <nlohmann/json.hpp>

#include "driver/config.h"
#include "driver/result.h"

namespace perdure::driver {

/// Of a replay that has ended. Of a simulated one it is the same at each run.
[[nodiscard]] nlohmann::ordered_json replay_record_of(const BenchConfig& config,
                                                      const BenchResult& result);

/// True if every answer and the contents at the end are the recorded ones. A trace that was cut off
/// tells no contents.
[[nodiscard]] bool is_as_recorded(const BenchConfig& config, const BenchResult& result);

}  // namespace perdure::driver
