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
  const std::string drawn =
      "one operation in " + std::to_string(config.latency_interval) + ", drawn at random:";
  const bool batches = config.workload.batch != 1;
  std::string text =
      (batches ? "latency          of the batches that hold " : "latency          of ") + drawn;
  const char* separator = " ";
  for (std::size_t i = 0; i < workload::operation_kinds; ++i) {
    const auto operation = static_cast<Operation>(i);
    if (!config.workload.mix.has(operation)) continue;
    const std::uint64_t samples = (*all.latency_ns)[operation].total();
    if (all.attempted[operation] == 0) continue;  // nobody pops
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

// Beside each operation the answers "full" and "empty", which are none.
std::string queue_table(const BenchResult& result, const Tally& all) {
  double seconds = 0;
  for (const RepetitionResult& repetition : result.repetitions) seconds += repetition.seconds;
  std::string text = print("%-9s %13s %11s %13s %9s", "operation", "succeeded", "failed",
                           "full or empty", "Mop/s");
  if (all.latency_ns) text += print(" %9s %9s %9s %9s %9s", "mean", "p50", "p99", "p99.9", "max");
  text += "\n";
  for (const Operation operation : {Operation::push, Operation::pop}) {
    const std::uint64_t failed = all.failed[operation];
    const std::uint64_t succeeded = all.attempted[operation] - failed;
    text +=
        print("%-9s %13llu %11llu %13llu %9.3f", workload::name_of(operation),
              static_cast<unsigned long long>(succeeded), static_cast<unsigned long long>(failed),
              static_cast<unsigned long long>(all.retried[operation]),
              seconds > 0 ? static_cast<double>(succeeded) / seconds / 1e6 : 0);
    if (all.latency_ns) {
      const Histogram& latency = (*all.latency_ns)[operation];
      const std::uint64_t timed = latency.total();
      text += print(" %9s", timed != 0 ? short_time(latency.sum() / timed).c_str() : "-") +
              latency_columns(latency);
    }
    text += "\n";
  }
  return text;
}

std::string thinking(const BenchConfig& config) {
  const std::uint64_t ns = config.workload.think_ns;
  return ns == 0 ? "" : ", " + std::to_string(ns) + " ns between operations";
}

std::string queue_heading(const BenchConfig& config) {
  const auto count = [](std::uint64_t number, const std::string& what) {
    return std::to_string(number) + " " + what + (number == 1 ? "" : "s");
  };
  const driver::QueueRun& queue = *config.queue;
  std::string text = config.index.full_name() + " (" + perdure::name_of(queue.info.progress) +
                     "), " + count(queue.producers, "producer") + ", " +
                     count(queue.consumers, "consumer") + ", payloads of " +
                     count(queue.payload_bytes, "byte");
  if (queue.prefill != 0)
    text += ", " + short_count(static_cast<double>(queue.prefill)) + " of them there before";
  return text + thinking(config);
}

std::string index_heading(const BenchConfig& config) {
  std::string text = config.index.full_name() + ", " + perdure::name_of(config.key_kind()) +
                     " keys, " + std::to_string(config.threads) +
                     (config.threads == 1 ? " thread, " : " threads, ") +
                     short_count(static_cast<double>(config.workload.records)) + " records, " +
                     workload::text_of(config.workload.dealt_mix()) + ", " +
                     workload::name_of(config.workload.distribution.kind);
  const std::uint64_t batch = config.workload.batch;
  if (batch != 1)
    text += ", batches of " + std::to_string(batch) +
            (config.measures_latency() ? " (a latency is that of a batch)" : "");
  if (config.open_loop()) text += ", open loop at " + short_count(config.rate_ops_s) + "/s";
  return text + thinking(config);
}

std::string load_line(const BenchConfig& config, const BenchResult& result) {
  const std::string things = config.queue ? " payloads" : " records";
  const auto count = [&](std::uint64_t number) {
    return short_count(static_cast<double>(number)) + things;
  };
  if (result.recovery)
    return print("recovery         %.3f s, ", result.recovery->seconds) +
           count(result.recovery->records) + "\n";
  if (config.queue && result.load.records == 0) return "";
  if (result.load.seconds > 0)
    return print("load             %.3f s, %.3f Mop/s\n", result.load.seconds,
                 static_cast<double>(result.load.records) / result.load.seconds / 1e6);
  // A simulated run loads with the model off.
  return "load             " + count(result.load.records) + ", not timed\n";
}

std::string repetitions_line(const BenchResult& result) {
  std::string text = "repetitions      ";
  for (const RepetitionResult& repetition : result.repetitions)
    text += print("%.3f ", succeeded_ops_s(repetition) / 1e6);
  return text + "Mop/s\n";
}

std::string memory_line(const BenchConfig& config, const BenchResult& result) {
  const driver::MemoryResult& memory = result.memory;
  if (config.queue)
    return "memory           pool " + short_bytes(memory.pm_bytes) + ", DRAM " +
           short_bytes(memory.dram_bytes) + "\n";
  const auto records = static_cast<double>(std::max<std::uint64_t>(memory.records, 1));
  return "memory           pool " + short_bytes(memory.pm_bytes) +
         print(" (%.1f B/record), DRAM ", static_cast<double>(memory.pm_bytes) / records) +
         short_bytes(memory.dram_bytes) +
         print(" (%.2f B/record)\n", static_cast<double>(memory.dram_bytes) / records);
}

}  // namespace

std::string table_of(const BenchConfig& config, const BenchResult& result) {
  const Tally all = merged(config, result);
  std::string text = config.queue ? queue_heading(config) : index_heading(config);
  text += "\n\n" +
          (config.queue ? queue_table(result, all) : operations_table(config, result, all)) + "\n" +
          repetitions_line(result) + latency_line(config, all) + load_line(config, result) +
          memory_line(config, result);
  if (result.verification)
    text += "verification     " + std::to_string(result.verification->checked) + " answers, " +
            std::to_string(result.verification->wrong) + " wrong\n";
  return text;
}

}  // namespace perdure::cli
