// The run record: what a run was, what it measured, on what machine. Its schema is
// schema/run-record.schema.json, the one contract between the C++ programs and Python.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "driver/config.h"
#include "driver/environment.h"
#include "driver/result.h"

namespace perdure::driver {

/// "native", or "sim:" and the platform.
[[nodiscard]] std::string target_of(const BenchConfig& config);
/// The program: version, commit, compiler.
[[nodiscard]] nlohmann::ordered_json build_record();
/// Quantiles; null where nothing was timed.
[[nodiscard]] nlohmann::ordered_json latency_record(const BenchConfig& config,
                                                    const Histogram* histogram);

/// Everything resolved, as --dry-run prints it.
[[nodiscard]] nlohmann::ordered_json configuration_of(const BenchConfig& config);

/// The record ("perdure-run/1") of a finished run. `environment`: empty for a simulated run, whose
/// record is the same on every machine.
[[nodiscard]] nlohmann::ordered_json record_of(const BenchConfig& config, const BenchResult& result,
                                               const std::optional<Environment>& environment);

}  // namespace perdure::driver
