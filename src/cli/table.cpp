#include "cli/table.h"

#include <algorithm>
#include <vector>

#include "cli/format.h"

namespace perdure::cli {
namespace {

using driver::BenchConfig;
using driver::BenchResult;
using driver::Latency;
using driver::RepetitionResult;
using driver::Tally;
using workload::Operation;

double succeeded_ops_s(const RepetitionResult& repetition) {
  if (repetition.seconds <= 0) return 0;
  return static_cast<double>(repetition.tally.attempted.total() - repetition.tally.failed.total()) /
         repetition.seconds;
}

std::string counts_line(const char* name, std::uint64_t attempted, std::uint64_t failed,
                        double seconds) {
  return print("%-16s %13llu %13llu %11llu %9.3f", name, static_cast<unsigned long long>(attempted),
               static_cast<unsigned long long>(attempted - failed),
               static_cast<unsigned long long>(failed),
               seconds > 0 ? static_cast<double>(attempted - failed) / seconds / 1e6 : 0);
}

std::string latency_columns(const Histogram& histogram) {
  std::string line;
  const bool any = histogram.total() != 0;
  for (const double share : {0.5, 0.99, 0.999})
    line += print(" %9s", any ? short_time(histogram.quantile(share)).c_str() : "-");
  return line + print(" %9s", any ? short_time(histogram.max()).c_str() : "-");
}

// How the latencies came about, and how many of them the last percentile of the table rests on.
std::string latency_line(const BenchConfig& config, const Tally& all) {
  if (config.latency != Latency::sampled)
    return config.open_loop() && all.latency_ns
               ? "latency          of every operation, from its intended start\n"
               : "";
  std::string text = "latency          of one operation in " +
                     std::to_string(config.latency_interval) + ", drawn at random:";
  const char* separator = " ";
  for (std::size_t i = 0; i < workload::operation_kinds; ++i) {
    const auto operation = static_cast<Operation>(i);
    if (!config.workload.mix.has(operation)) continue;
    const std::uint64_t samples = (*all.latency_ns)[operation].total();
    text += separator + std::to_string(samples) + " " + workload::name_of(operation) +
            (samples < 1000 ? " (too few for a p99.9)" : "");
    separator = ", ";
  }
  return text + "\n";
}

// All repetitions together: quantiles of the union, counts added up.
Tally merged(const BenchConfig& config, const BenchResult& result) {
  Tally all(config.measures_latency(), config.open_loop());
  for (const RepetitionResult& repetition : result.repetitions) all.merge(repetition.tally);
  return all;
}

std::string operations_table(const BenchConfig& config, const BenchResult& result,
                             const Tally& all) {
  double seconds = 0;
  for (const RepetitionResult& repetition : result.repetitions) seconds += repetition.seconds;
  std::string text =
      print("%-16s %13s %13s %11s %9s", "operation", "attempted", "succeeded", "failed", "Mop/s");
  if (all.latency_ns) text += print(" %9s %9s %9s %9s", "p50", "p99", "p99.9", "max");
  text += "\n";
  for (std::size_t i = 0; i < workload::operation_kinds; ++i) {
    const auto operation = static_cast<Operation>(i);
    if (!config.workload.mix.has(operation)) continue;
    text += counts_line(workload::name_of(operation), all.attempted[operation],
                        all.failed[operation], seconds);
    if (all.latency_ns) text += latency_columns((*all.latency_ns)[operation]);
    text += "\n";
    if (all.service_ns)
      text +=
          print("%-66s", "  service time") + latency_columns((*all.service_ns)[operation]) + "\n";
  }
  return text + counts_line("all", all.attempted.total(), all.failed.total(), seconds) + "\n";
}

std::string repetitions_line(const BenchResult& result) {
  std::string text = "repetitions      ";
  for (const RepetitionResult& repetition : result.repetitions)
    text += print("%.3f ", succeeded_ops_s(repetition) / 1e6);
  return text + "Mop/s\n";
}

std::string memory_line(const BenchResult& result) {
  const auto records = static_cast<double>(std::max<std::uint64_t>(result.memory.records, 1));
  return "memory           pool " + short_bytes(result.memory.pm_bytes) +
         print(" (%.1f B/record), DRAM ", static_cast<double>(result.memory.pm_bytes) / records) +
         short_bytes(result.memory.dram_bytes) +
         print(" (%.2f B/record)\n", static_cast<double>(result.memory.dram_bytes) / records);
}

}  // namespace

std::string table_of(const BenchConfig& config, const BenchResult& result) {
  std::string text = config.index.full_name() + ", " + perdure::name_of(config.key_kind()) +
                     " keys, " + std::to_string(config.threads) +
                     (config.threads == 1 ? " thread, " : " threads, ") +
                     short_count(static_cast<double>(config.workload.records)) + " records, " +
                     workload::text_of(config.workload.mix) + ", " +
                     workload::name_of(config.workload.distribution.kind);
  if (config.open_loop()) text += ", open loop at " + short_count(config.rate_ops_s) + "/s";
  const Tally all = merged(config, result);
  text += "\n\n" + operations_table(config, result, all) + "\n" + repetitions_line(result) +
          latency_line(config, all);
  if (result.recovery)
    text += print("recovery         %.3f s, ", result.recovery->seconds) +
            short_count(static_cast<double>(result.recovery->records)) + " records\n";
  else if (result.load.seconds > 0)
    text += print("load             %.3f s, %.3f Mop/s\n", result.load.seconds,
                  static_cast<double>(result.load.records) / result.load.seconds / 1e6);
  else  // a simulated run loads with the model off
    text += "load             " + short_count(static_cast<double>(result.load.records)) +
            " records, not timed\n";
  text += memory_line(result);
  if (result.verification)
    text += "verification     " + std::to_string(result.verification->checked) + " answers, " +
            std::to_string(result.verification->wrong) + " wrong\n";
  return text;
}

}  // namespace perdure::cli
