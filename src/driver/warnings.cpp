#include "driver/warnings.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <string_view>

#include "core/assert.h"
#include "driver/build_info.h"
#include "driver/environment.h"

namespace perdure::driver {
namespace {

template <class... Arguments>
std::string print(const char* format, Arguments... arguments) {
  std::array<char, 256> text{};
  std::snprintf(text.data(), text.size(), format, arguments...);
  return text.data();
}

void warn_of_build(std::vector<std::string>& warnings) {
  if (checked_build)
    warnings.emplace_back("assertions are on in this build: figures are lower than a release's");
  else if (std::string_view(build_info().type) != "Release")
    warnings.push_back(std::string("the build type is ") + build_info().type + ", not Release");
}

void warn_of_medium(const BenchConfig& config, const BenchResult& result,
                    std::vector<std::string>& warnings) {
  if (!config.uses_pool()) return;
  if (result.medium == "tmpfs")
    warnings.emplace_back(
        "the pool lies on tmpfs: it survives the death of the process, not a power cut");
  else if (result.medium == "page_cache")
    warnings.emplace_back(
        "the pool lies in the page cache: it survives the death of the process, not a power cut");
  if (config.huge_pages && result.memory.pool_huge_page_bytes < result.pool_bytes / 2)
    warnings.push_back(
        print("huge pages were asked for, and back %.0f %% of the pool",
              100.0 * static_cast<double>(result.memory.pool_huge_page_bytes) /
                  static_cast<double>(std::max<std::uint64_t>(result.pool_bytes, 1))));
}

// Warnings that apply to native and simulated runs alike.
void warn_of_answers(const BenchConfig& config, const BenchResult& result,
                     std::vector<std::string>& warnings) {
  std::uint64_t refused = 0;
  double slowest_rate = 1e300;
  for (const RepetitionResult& repetition : result.repetitions) {
    refused += repetition.tally.refused;
    if (repetition.seconds > 0)
      slowest_rate =
          std::min(slowest_rate,
                   static_cast<double>(repetition.tally.attempted.total()) / repetition.seconds);
  }
  if (refused != 0)
    warnings.push_back(print("%llu operations found no room in the pool: set --pool-bytes",
                             static_cast<unsigned long long>(refused)));
  if (config.open_loop() && slowest_rate < 0.99 * config.rate_ops_s)
    warnings.push_back(
        print("the index kept up with %.0f of %.0f operations/s: the backlog grows, "
              "and latencies with the length of the run",
              slowest_rate, config.rate_ops_s));
  if (config.durability == pm::Durability::none && config.uses_pool())
    warnings.emplace_back(
        "durability is none: nothing is flushed, a power cut may lose everything");
}

void warn_of_measurement(const BenchConfig& config, const BenchResult& result,
                         std::vector<std::string>& warnings) {
  constexpr double short_seconds = 0.5;
  double shortest = 1e9;
  for (const RepetitionResult& repetition : result.repetitions)
    shortest = std::min(shortest, repetition.seconds);
  if (shortest < short_seconds)
    warnings.push_back(
        print("the measured part of a repetition lasted only %.3f s: take more "
              "operations or seconds",
              shortest));
  if (config.verify)
    warnings.emplace_back("--verify was on: throughput includes the cost of checking");
  if (!config.plugin.empty())
    warnings.emplace_back("a wrapper does not tell how much memory it uses: the record says 0");
}

// An interval of the timeline (watch.cpp) in which no operation ended, unless operations are that
// slow.
void warn_of_standstill(const BenchConfig& config, const BenchResult& result,
                        std::vector<std::string>& warnings) {
  constexpr double fewest_ops_s = 200;  // with fewer, an interval may be empty by chance
  std::size_t empty = 0;
  std::size_t intervals = 0;
  double seconds = 0;
  std::uint64_t attempted = 0;
  for (const RepetitionResult& repetition : result.repetitions) {
    for (const TimelinePoint& point : repetition.timeline) empty += point.operations == 0 ? 1 : 0;
    intervals += repetition.timeline.size();
    seconds += repetition.seconds;
    attempted += repetition.tally.attempted.total();
  }
  const double rate = config.open_loop() ? config.rate_ops_s
                                         : static_cast<double>(attempted) / std::max(seconds, 1e-9);
  if (empty != 0 && rate >= fewest_ops_s)
    warnings.push_back(
        print("in %zu of %zu intervals of 0.1 s no operation ended: the machine was busy with "
              "something else, or the index stood still",
              empty, intervals));
}

// A rate of 0 needs a reason beside it.
void warn_of_failures(const BenchConfig& config, const BenchResult& result,
                      std::vector<std::string>& warnings) {
  for (std::size_t i = 0; i < workload::operation_kinds; ++i) {
    const auto operation = static_cast<workload::Operation>(i);
    std::uint64_t attempted = 0;
    std::uint64_t failed = 0;
    for (const RepetitionResult& repetition : result.repetitions) {
      attempted += repetition.tally.attempted[operation];
      failed += repetition.tally.failed[operation];
    }
    if (attempted == 0 || failed != attempted || !config.index.verifiable) continue;
    const bool scans = operation == workload::Operation::scan;
    warnings.push_back(
        print("none of %llu operations '%s' succeeded: %s",
              static_cast<unsigned long long>(attempted), workload::name_of(operation),
              scans ? "no record was returned" : "see what the keys of the workload are"));
  }
}

void warn_of_pmdk(const BenchConfig& config, const BenchResult& result,
                  std::vector<std::string>& warnings) {
  if (result.heap != "pmdk" && config.plugin.empty()) return;  // nothing asks libpmem
  for (std::string& warning : pmdk_warnings_of(read_environment()))
    warnings.push_back(std::move(warning));
}

void warn_of_host(const BenchConfig& config, const BenchResult& result, bool pinned,
                  std::vector<std::string>& warnings) {
  const Environment environment = read_environment();
  for (std::string& warning : warnings_of(environment)) warnings.push_back(std::move(warning));
  if (config.threads > environment.logical_cores)
    warnings.push_back(
        print("%u threads share %u cores", config.threads, environment.logical_cores));
  else if (config.threads > environment.cores)
    warnings.push_back(
        print("%u threads share %u physical cores", config.threads, environment.cores));
  if (environment.cpu_quota && environment.cpu_quota->cores < config.threads)
    warnings.push_back(print("%u threads share the %.2f cores that a control group allows: ",
                             config.threads, environment.cpu_quota->cores) +
                       environment.cpu_quota->group);
  if (result.interference)
    for (std::string& warning :
         warnings_of(*result.interference, config.threads, environment.logical_cores))
      warnings.push_back(std::move(warning));
  if (config.pin && !pinned) warnings.emplace_back("the system refused to pin threads to cores");
}

}  // namespace

void add_warnings(const BenchConfig& config, BenchResult& result, bool pinned) {
  std::vector<std::string>& warnings = result.warnings;
  warn_of_answers(config, result, warnings);
  warn_of_failures(config, result, warnings);
  if (config.simulated) return;  // nothing of this machine decides its figures
  warn_of_build(warnings);
  warn_of_host(config, result, pinned, warnings);
  warn_of_standstill(config, result, warnings);
  warn_of_pmdk(config, result, warnings);
  warn_of_medium(config, result, warnings);
  if (!config.replay) warn_of_measurement(config, result, warnings);  // a trace is as long as it is
}

}  // namespace perdure::driver
