// `engine replay`: what a server has recorded, executed again, natively or under simulation.
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/bench_steps.h"
#include "cli/commands.h"
#include "cli/format.h"
#include "driver/bench.h"
#include "driver/interrupt.h"
#include "driver/replay_record.h"
#include "driver/replay_run.h"
#include "driver/run_record.h"

namespace perdure::cli {
namespace {

using driver::BenchConfig;
using driver::BenchResult;
using driver::ReplayRun;
using driver::ReplayTally;

std::string heading_of(const BenchConfig& config) {
  const engine::Trace& trace = *config.replay->trace;
  return trace.path() + ": " + std::to_string(trace.size()) + " operations on " +
         driver::target_of(config) + ", " + std::to_string(config.threads) +
         (config.threads == 1 ? " thread" : " threads") + ", index " + config.replay->index +
         (config.simulated ? " (all times are simulated)" : "") + "\n\n";
}

std::string operations_of(const ReplayTally& tally) {
  std::string text =
      print("%-16s %12s %9s %9s %9s %9s\n", "operation", "executed", "p50", "p99", "p99.9", "max");
  for (std::size_t i = 0; i < engine::actions; ++i) {
    const Histogram& latency = tally.latency_ns[i];
    if (latency.total() == 0) continue;
    text += print("%-16s %12llu", engine::name_of(static_cast<engine::Action>(i)),
                  static_cast<unsigned long long>(latency.total()));
    for (const double share : {0.5, 0.99, 0.999})
      text += print(" %9s", short_time(latency.quantile(share)).c_str());
    text += print(" %9s\n", short_time(latency.max()).c_str());
  }
  return text;
}

std::string simulation_of(const driver::RepetitionResult& run, std::uint64_t executed) {
  if (!run.simulated || executed == 0) return "";
  const platform::Counters& counters = run.simulated->counters;
  const auto each = [&](std::uint64_t total) {
    return static_cast<double>(total) / static_cast<double>(executed);
  };
  return print(
      "simulated        per operation %.2f flushes, %.2f fences, %.0f B read from and "
      "%.0f B written to the media\n",
      each(counters.flushes), each(counters.fences), each(counters.pm.media_read_bytes),
      each(counters.pm.media_write_bytes));
}

std::string answers_of(const ReplayTally& tally) {
  std::string text = "answers          ";
  text += tally.differences == 0 ? "all as recorded\n"
                                 : std::to_string(tally.differences) +
                                       " differ, the first: " + tally.first_difference + "\n";
  if (tally.other_scans != 0)
    text += "scans            " + std::to_string(tally.other_scans) +
            " found another number: others wrote while they were recorded, or write now\n";
  if (tally.refused != 0)
    text += "left out         " + std::to_string(tally.refused) +
            " that found no room when they were recorded\n";
  return text;
}

std::string digest_line(const BenchConfig& config, const BenchResult& result) {
  const engine::Digest& digest = result.replay->digest;
  const auto& end = config.replay->trace->end();
  const std::string text = "digest           " + digest.text() + ", " +
                           std::to_string(digest.documents) + " documents and catalog entries, " +
                           std::to_string(digest.entries) + " index entries";
  if (!end) return text + "; the recording was cut off and has none\n";
  return text + (end->digest == digest ? ", as recorded\n"
                                       : ", and recorded " + end->digest.text() + "\n");
}

std::string replay_table(const BenchConfig& config, const BenchResult& result) {
  const ReplayTally& tally = result.replay->tally;
  const driver::RepetitionResult& run = result.repetitions.front();
  const std::uint64_t executed = tally.executed();
  const double rate = run.seconds > 0 ? static_cast<double>(executed) / run.seconds : 0;
  return heading_of(config) + operations_of(tally) + "\n" +
         print("all              %llu in %.6f s, ", static_cast<unsigned long long>(executed),
               run.seconds) +
         short_count(rate) + " op/s" + (config.simulated ? " (simulated)\n" : "\n") +
         simulation_of(run, executed) + answers_of(tally) + digest_line(config, result);
}

/// An error of the driver or the store, whose remedies are those of `bench`.
Error in_our_terms(Error error) {
  if (error.code == ErrorCode::exists) error.remedy = "replace it with --force, or name another";
  if (error.where == "IndexRegistry::find") error.where = "--engine-index";
  return error;
}

Error difference_of(const BenchConfig& config, const BenchResult& result) {
  const ReplayTally& tally = result.replay->tally;
  return {ErrorCode::failed,
          tally.differences != 0
              ? std::to_string(tally.differences) +
                    " answers differ from the recorded ones, the first: " + tally.first_difference
              : "the store holds something else than was recorded",
          config.replay->trace->path(),
          tally.first_difference.find(engine::name_of(engine::Status::out_of_space)) !=
                  std::string::npos
              ? "give a larger --pool-bytes"
              : "replay with --threads 1 and the recorded index, and report it if it stays so"};
}

}  // namespace

Result<void> choose_trace(BenchFlags& flags) {
  if (flags.words.size() != 1)
    return usage(flags.words.empty() ? "a trace is missing" : "replays one trace", "engine replay",
                 "give the file of `perdure serve POOL --record FILE`");
  auto trace = engine::Trace::open(flags.words.front());
  if (!trace) return trace.error();
  if ((*trace)->header().documents != 0)
    return Error{ErrorCode::unsupported, "was recorded on a pool that was not empty",
                 flags.words.front(), "record a new pool"};
  BenchConfig& config = flags.config;
  const std::string index =
      flags.engine_index.empty() ? (*trace)->header().index : flags.engine_index;
  for (const char* const name : {"engine", index.c_str()})
    if (auto found = IndexRegistry::find(name); !found) {
      Error error = found.error();
      error.where = "--engine-index " + index;
      return error;
    }
  config.index = **IndexRegistry::find("engine");
  config.heap = config.index.heaps.front();
  config.workload.keys.form = workload::Keys::Form::random;  // byte strings
  config.pool_bytes = (*trace)->header().pool_bytes;
  config.repetitions = 1;
  config.latency = driver::Latency::every;
  flags.machine.warm = false;
  config.replay = std::make_shared<ReplayRun>(ReplayRun{std::move(*trace), index, {}});
  return {};
}

Result<void> deal_trace(BenchFlags& flags) {
  BenchConfig& config = flags.config;
  if (config.pool_path.empty() && !config.scratch_pool)
    return usage("a place for what is replayed is missing", "--pool",
                 "give --pool /dev/shm/replayed.pool");
  ReplayRun replay = *config.replay;
  auto dealt = replay.trace->deal(config.threads);
  if (!dealt) return dealt.error();
  replay.dealt = std::move(*dealt);
  config.replay = std::make_shared<ReplayRun>(std::move(replay));
  // One part has nearly everything, and as much room as the recorded pool had.
  if (config.placement && !flags.table.given("--pool-bytes"))
    config.pool_bytes *= config.placement->parts.size();
  return {};
}

int replay_command(const Arguments& arguments) {
  BenchFlags flags{BenchFlags::Replay{}};
  if (const auto code = flags.table.parse(arguments)) return *code;
  const auto config = resolve_replay(flags);
  if (!config) return report(config.error());
  keep_stdout_for_results();
  constexpr unsigned patience_seconds = 5;
  driver::watch_for_interrupts(patience_seconds);
  const auto result = [&] {
    driver::Progress progress(flags.quiet);
    return driver::run_bench(*config, progress);
  }();
  if (!result) return report(in_our_terms(result.error()));
  if (result->interrupted || result->replay == nullptr) {
    std::fprintf(stderr, "perdure: interrupted: the pool is removed, no result is printed\n");
    return exit_interrupted;
  }
  if (result->unwritten) return report(*result->unwritten);
  const int printed =
      print_result(flags.json ? json_text(driver::replay_record_of(*config, *result))
                              : replay_table(*config, *result));
  if (printed != exit_ok) return printed;
  if (!flags.quiet && !flags.json)
    for (const std::string& warning : result->warnings)
      std::fprintf(stderr, "perdure: warning: %s\n", warning.c_str());
  if (driver::is_as_recorded(*config, *result)) return exit_ok;
  report(difference_of(*config, *result));
  return exit_violation;
}

}  // namespace perdure::cli
