// The compact table that a person reads.
#pragma once

#include <string>

#include "driver/bench.h"

namespace perdure::cli {

/// Operations with rate and latency per repetition's median, load, recovery, memory.
[[nodiscard]] std::string table_of(const driver::BenchConfig& config,
                                   const driver::BenchResult& result);

}  // namespace perdure::cli
