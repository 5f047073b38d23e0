#include "driver/replay_record.h"

#include <utility>

#include "driver/replay_run.h"
#include "driver/run_record.h"
#include "driver/simulated_record.h"

namespace perdure::driver {
namespace {

using Json = nlohmann::ordered_json;

Json trace_record(const engine::Trace& trace) {
  return {{"file", trace.path()},
          {"operations", trace.size()},
          {"ended", trace.end().has_value()},
          {"index", trace.header().index},
          {"pool_bytes", trace.header().pool_bytes}};
}

Json replayed_operations(const BenchConfig& config, const ReplayTally& tally) {
  Json operations = Json::object();
  for (std::size_t i = 0; i < engine::actions; ++i) {
    const Histogram& latency = tally.latency_ns[i];
    if (latency.total() == 0) continue;
    operations[engine::name_of(static_cast<engine::Action>(i))] = {
        {"executed", latency.total()}, {"latency_ns", latency_record(config, &latency)}};
  }
  return operations;
}

Json digest_record(const ReplayRun& replay, const engine::Digest& digest) {
  const auto& end = replay.trace->end();
  return {{"replayed", digest.text()},
          {"recorded", end ? Json(end->digest.text()) : Json(nullptr)},
          {"documents", digest.documents},
          {"entries", digest.entries}};
}

}  // namespace

Json replay_record_of(const BenchConfig& config, const BenchResult& result) {
  const ReplayRun& replay = *config.replay;
  const ReplayTally& tally = result.replay->tally;
  const RepetitionResult& run = result.repetitions.front();
  const std::uint64_t executed = tally.executed();
  Json record = {
      {"schema", "perdure-replay/1"},
      {"target", target_of(config)},
      {"simulated", config.simulated.has_value()},
      {"platform", platform_record(config)},
      {"trace", trace_record(*replay.trace)},
      {"configuration",
       {{"index", replay.index},
        {"pool", config.scratch_pool ? Json(nullptr) : Json(config.pool_path)},
        {"pool_bytes", result.pool_bytes},
        {"durability", pm::name_of(config.durability)},
        {"threads", config.threads}}},
      {"build", build_record()},
      {"seconds", run.seconds},
      {"throughput_ops_s",
       run.seconds > 0 ? Json(static_cast<double>(executed) / run.seconds) : Json(nullptr)},
      {"executed", executed},
      {"refused_when_recorded", tally.refused},
      {"differences", tally.differences},
      {"first_difference", nullptr},
      {"scans_of_another_number", tally.other_scans},
      {"operations", replayed_operations(config, tally)},
      {"digest", digest_record(replay, result.replay->digest)},
      {"simulation", simulation_record(config, run.simulated, executed, run.seconds)},
      {"warnings", result.warnings}};
  if (tally.differences != 0) record["first_difference"] = tally.first_difference;
  return record;
}

bool is_as_recorded(const BenchConfig& config, const BenchResult& result) {
  const auto& end = config.replay->trace->end();
  return result.replay->tally.differences == 0 && (!end || end->digest == result.replay->digest);
}

}  // namespace perdure::driver
