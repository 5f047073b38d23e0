#include "driver/run_record.h"

#include <utility>

#include "driver/build_info.h"
#include "driver/simulated_record.h"
#include "driver/target.h"

namespace perdure::driver {

using Json = nlohmann::ordered_json;

std::string target_of(const BenchConfig& config) {
  return config.simulated ? "sim:" + config.simulated->platform.name : "native";
}

Json build_record() {
  const BuildInfo& build = build_info();
  return {{"version", build.version},
          {"commit", build.commit},
          {"dirty", build.dirty},
          {"compiler", build.compiler},
          {"flags", build.flags},
          {"type", build.type},
          {"kind", Target::simulates ? "sim" : "native"}};
}

Json latency_record(const BenchConfig& config, const Histogram* histogram) {
  if (histogram == nullptr) return nullptr;
  const std::uint64_t count = histogram->total();
  if (count == 0) return nullptr;
  Json record = {{"p50", histogram->quantile(0.5)},
                 {"p90", histogram->quantile(0.9)},
                 {"p99", histogram->quantile(0.99)},
                 {"p999", histogram->quantile(0.999)},
                 {"p9999", histogram->quantile(0.9999)},
                 {"max", histogram->max()},
                 {"mean", static_cast<double>(histogram->sum()) / static_cast<double>(count)}};
  if (!config.simulated) record["samples"] = count;
  return record;
}

namespace {

using workload::Operation;

double rate(std::uint64_t operations, double seconds) {
  return seconds > 0 ? static_cast<double>(operations) / seconds : 0;
}

// Native runs only: a simulation times every operation at no cost, and its record stays the same.
Json latency_method(const BenchConfig& config) {
  Json record = {{"method", name_of(config.latency)}, {"interval", nullptr}};
  if (config.latency == Latency::sampled) record["interval"] = config.latency_interval;
  if (config.latency == Latency::every) record["interval"] = 1;
  return record;
}

Json histogram_record(const Histogram& histogram) {
  Json buckets = Json::array();
  for (std::size_t i = 0; i < Histogram::buckets; ++i)
    if (const std::uint64_t count = histogram.count_in(i); count != 0)
      buckets.push_back(Json::array({Histogram::lower_bound(i), count}));
  return buckets;
}

Json operations_record(const BenchConfig& config, const Tally& tally, double seconds) {
  Json operations = Json::object();
  for (std::size_t i = 0; i < workload::operation_kinds; ++i) {
    const auto operation = static_cast<Operation>(i);
    if (!config.workload.mix.has(operation)) continue;
    const std::uint64_t attempted = tally.attempted[operation];
    const std::uint64_t failed = tally.failed[operation];
    const Histogram* const latency = tally.latency_ns ? &(*tally.latency_ns)[operation] : nullptr;
    const Histogram* const service = tally.service_ns ? &(*tally.service_ns)[operation] : nullptr;
    Json record = {{"attempted", attempted},
                   {"succeeded", attempted - failed},
                   {"failed", failed},
                   {"latency_ns", latency_record(config, latency)},
                   {"service_ns", latency_record(config, service)}};
    if (config.queue) {
      record["succeeded_ops_s"] = rate(attempted - failed, seconds);
      record["retries"] = tally.retried[operation];
    }
    if (config.export_histograms && latency != nullptr)
      record["histogram"] = histogram_record(*latency);
    operations[workload::name_of(operation)] = std::move(record);
  }
  return operations;
}

Json repetition_record(const BenchConfig& config, const RepetitionResult& repetition) {
  const std::uint64_t attempted = repetition.tally.attempted.total();
  const std::uint64_t failed = repetition.tally.failed.total();
  Json timeline = Json::array();
  for (const TimelinePoint& point : repetition.timeline)
    timeline.push_back({{"second", point.second}, {"operations", point.operations}});
  Json record = {{"seconds", repetition.seconds},
                 {"throughput_ops_s", rate(attempted - failed, repetition.seconds)},
                 {"attempted_ops_s", rate(attempted, repetition.seconds)},
                 {"failed_ops_s", rate(failed, repetition.seconds)},
                 {"operations", operations_record(config, repetition.tally, repetition.seconds)},
                 {"timeline", std::move(timeline)},
                 {"simulation",
                  simulation_record(config, repetition.simulated, attempted, repetition.seconds)}};
  // Absent in a simulated record, which so stays what it was.
  if (repetition.hardware) record["hardware"] = record_of(*repetition.hardware);
  return record;
}

Json memory_record(const BenchConfig& config, const MemoryResult& memory) {
  const double records = memory.records != 0 ? static_cast<double>(memory.records) : 1;
  return {{"pm_bytes", memory.pm_bytes},
          {"dram_bytes", memory.dram_bytes},
          {"pm_bytes_per_record", static_cast<double>(memory.pm_bytes) / records},
          {"dram_bytes_per_record", static_cast<double>(memory.dram_bytes) / records},
          // What this machine's kernel gave, which a simulation must not depend on.
          {"pool_huge_page_bytes", config.simulated ? 0 : memory.pool_huge_page_bytes}};
}

Json recovery_record(const BenchConfig& config, const std::optional<RecoveryResult>& recovery) {
  if (!recovery) return nullptr;
  Json record = {
      {"seconds", recovery->seconds},
      {"records", recovery->records},
      {"clean", nullptr},
      {"leaked_blocks_freed", recovery->leaked_blocks_freed},
      {"simulation", simulation_record(config, recovery->simulated, 0, recovery->seconds)}};
  if (recovery->clean) record["clean"] = *recovery->clean;
  return record;
}

Json queue_record(const BenchConfig& config) {
  const QueueRun& queue = *config.queue;
  Json record = {{"progress", perdure::name_of(queue.info.progress)},
                 {"producers", queue.producers},
                 {"consumers", queue.consumers},
                 {"payload_bytes", queue.payload_bytes},
                 {"prefill", queue.prefill}};
  if (config.workload.think_ns != 0) record["think_ns"] = config.workload.think_ns;
  return record;
}

Json settings_of(const BenchConfig& config) {
  Json options = Json::object();
  for (const IndexOptions::Choice& choice : config.options.choices())
    options[choice.name] = choice.value;
  const bool by_operations = config.workload.operations != 0;
  Json record = {{"index", config.index.full_name()},
                 {"options", std::move(options)},
                 {"plugin", nullptr},
                 {"pool", nullptr},
                 {"heap", config.uses_pool() ? name_of(config.heap) : "none"},
                 {"durability", pm::name_of(config.durability)},
                 {"huge_pages", config.huge_pages},
                 {"pool_bytes", config.pool_bytes},
                 {"reuse", config.reuse},
                 {"bulk_load", config.bulk_load},
                 {"threads", config.threads},
                 {"parallel", name_of(config.parallel)},
                 {"lock", nullptr},
                 {"pinned", config.pin},
                 {"workload", nullptr},
                 {"loop", config.open_loop() ? "open" : "closed"},
                 {"rate_ops_s", nullptr},
                 {"arrivals", nullptr},
                 {"seconds", nullptr},
                 {"operations", nullptr},
                 {"warmup_seconds", config.warmup_seconds},
                 {"repetitions", config.repetitions},
                 {"verify", config.verify},
                 {"check", config.check},
                 {"histograms", config.measures_latency()}};
  // Absent in a record of an index, which so stays what it was.
  if (config.queue)
    record["queue"] = queue_record(config);
  else
    record["workload"] = workload::json_of(config.workload);
  if (!config.simulated) record["latency"] = latency_method(config);
  if (!config.plugin.empty()) record["plugin"] = config.plugin;
  if (!config.index.locks.empty()) record["lock"] = perdure::name_of(config.lock);
  if (config.uses_path() && !config.scratch_pool) record["pool"] = config.pool_path;
  if (config.open_loop()) {
    record["rate_ops_s"] = config.rate_ops_s;
    record["arrivals"] = name_of(config.arrivals);
  }
  if (by_operations)
    record["operations"] = config.workload.operations;
  else
    record["seconds"] = config.workload.seconds;
  return record;
}

}  // namespace

Json configuration_of(const BenchConfig& config) {
  Json record = {{"target", target_of(config)}, {"platform", platform_record(config)}};
  record.update(settings_of(config));
  return record;
}

Json record_of(const BenchConfig& config, const BenchResult& result,
               const std::optional<Environment>& environment) {
  Json configuration = settings_of(config);
  configuration["heap"] = result.heap;
  configuration["pool_bytes"] = result.pool_bytes;
  Json repetitions = Json::array();
  for (const RepetitionResult& repetition : result.repetitions)
    repetitions.push_back(repetition_record(config, repetition));
  Json machine = nullptr;
  if (environment) {
    machine = record_of(*environment, result.medium);
    machine["interference"] = result.interference ? record_of(*result.interference) : Json(nullptr);
  }
  Json verification = nullptr;
  if (result.verification)
    verification = {{"checked", result.verification->checked},
                    {"wrong", result.verification->wrong},
                    {"examples", result.verification->examples}};
  return {{"schema", "perdure-run/1"},
          {"index", config.index.full_name()},
          {"index_class", name_of(config.index.index_class)},
          {"target", target_of(config)},
          {"platform", platform_record(config)},
          {"threads", config.threads},
          {"records", config.workload.records},
          {"key_kind", config.queue ? Json(nullptr) : Json(name_of(config.key_kind()))},
          {"seed", config.workload.seed},
          {"configuration", std::move(configuration)},
          {"build", build_record()},
          {"load",
           {{"seconds", result.load.seconds},
            {"throughput_ops_s", rate(result.load.records, result.load.seconds)},
            {"records", result.load.records},
            {"failed", result.load.failed}}},
          {"recovery", recovery_record(config, result.recovery)},
          {"memory", memory_record(config, result.memory)},
          {"repetitions", std::move(repetitions)},
          {"verification", std::move(verification)},
          {"environment", std::move(machine)},
          {"warnings", result.warnings}};
}

}  // namespace perdure::driver
