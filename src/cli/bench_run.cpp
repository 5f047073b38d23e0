// How the workload is run: threads, what they share, the lock, the rate, what is timed and kept.
#include <algorithm>

#include "cli/bench_steps.h"
#include "driver/numa.h"
#include "driver/topology.h"

namespace perdure::cli {
namespace {

using driver::BenchConfig;
using driver::Latency;
using driver::Parallel;

void resolve_threads(BenchFlags& flags) {
  BenchConfig& config = flags.config;
  if (config.threads != BenchFlags::all_threads) return;
  const std::size_t all = config.simulated ? config.simulated->cpus.size() : driver::cores_to_use();
  config.threads = std::min(pm::max_workers, static_cast<unsigned>(all));
}

// An open loop times every operation, to start it when it should; the virtual clock costs nothing.
Result<void> resolve_latency(BenchFlags& flags) {
  BenchConfig& config = flags.config;
  const bool sampled = !config.simulated && !config.open_loop();
  config.latency = flags.no_histograms ? Latency::off : sampled ? Latency::sampled : Latency::every;
  if (!flags.latency) return {};
  const std::string where = flags.table.written("--latency");
  if (flags.no_histograms && flags.latency->method != Latency::off)
    return usage("says the opposite of --no-histograms", where, "give one of the two");
  if (flags.latency->method == Latency::sampled && !sampled)
    return usage(config.simulated ? "the virtual clock costs nothing: every operation is timed"
                                  : "an open loop times every operation",
                 where, "leave it out");
  config.latency = flags.latency->method;
  config.latency_interval = flags.latency->interval;
  return {};
}

// Whether there can be an index for each thread.
Result<void> check_instances(const BenchConfig& config, const std::string& where) {
  const bool in_memory = config.index.index_class == IndexClass::in_memory ||
                         config.index.index_class == IndexClass::harness;
  if (!config.plugin.empty() || !(config.uses_pool() || in_memory))
    return usage("there can be only one " + config.index.name + " in a run", where, "leave it out");
  if (config.uses_pool() && config.threads > Pool::max_roots)
    return usage("a pool holds up to " + std::to_string(Pool::max_roots) + " indexes",
                 "--threads " + std::to_string(config.threads), "give that many or fewer");
  const std::uint64_t operations = config.workload.operations;
  if (operations != 0 && operations < config.threads)
    return usage("fewer than there are threads", "--operations " + std::to_string(operations),
                 "give at least one for each");
  return {};
}

// Whether the run can be as --parallel says.
Result<void> check_parallel(const BenchConfig& config, const std::string& where) {
  switch (config.parallel) {
    case Parallel::shared:
      break;
    case Parallel::single:
      if (config.threads != 1)
        return usage("needs --threads 1", where, "leave --threads out, or give another mode");
      break;
    case Parallel::saturated:
      return check_instances(config, where);
    case Parallel::contended:
      if (config.index.locks.empty())
        return usage(config.index.name + " synchronizes its threads itself", where, "leave it out");
      break;
    case Parallel::numa:
      if (config.simulated) break;
      if (!config.pin) return usage("says where threads run", where, "leave --no-pin out");
      if (!driver::nodes_apart())
        return Error{ErrorCode::unsupported, "this machine has one NUMA node", where,
                     "give --target sim:PLATFORM"};
      break;
  }
  return {};
}

// The lock that follows from what the threads share, unless one was given.
Result<void> resolve_lock(BenchFlags& flags) {
  BenchConfig& config = flags.config;
  const std::vector<LockKind>& locks = config.index.locks;
  const std::string where = flags.table.written("--lock");
  if (!flags.table.given("--lock")) {
    if (config.parallel == Parallel::single || config.parallel == Parallel::saturated)
      config.lock = LockKind::none;
    if (config.parallel == Parallel::contended) config.lock = locks.front();
    return {};
  }
  if (locks.empty())
    return usage(config.index.name + " synchronizes its threads itself", where, "leave it out");
  if (std::ranges::find(locks, config.lock) == locks.end()) {
    std::vector<std::string> names;
    for (const LockKind kind : locks) names.emplace_back(name_of(kind));
    return not_one_of(name_of(config.lock), "--lock", names);
  }
  if (config.lock == LockKind::none && config.threads / config.instances() > 1)
    return usage("several threads would share an index without a lock", where,
                 "give --parallel parallel-saturated, or another lock");
  return {};
}

}  // namespace

Result<void> resolve_run(BenchFlags& flags) {
  resolve_threads(flags);
  if (flags.table.given("--arrivals") && !flags.table.given("--rate"))
    return usage("is for an open loop", "--arrivals", "add --rate, or leave it out");
  if (flags.config.open_loop() && flags.config.workload.think_ns != 0)
    return usage("in an open loop operations start at their own times",
                 "--think-ns " + std::to_string(flags.config.workload.think_ns),
                 "leave it out, or --rate");
  if (flags.config.open_loop() && flags.config.workload.batch != 1)
    return usage("in an open loop operations start at their own times",
                 "--batch " + std::to_string(flags.config.workload.batch),
                 "leave it out, or --rate");
  if (auto resolved = resolve_latency(flags); !resolved) return resolved;
  if (auto checked = check_parallel(flags.config, flags.table.written("--parallel")); !checked)
    return checked;
  return resolve_lock(flags);
}

Result<void> check_output(const BenchFlags& flags) {
  const BenchConfig& config = flags.config;
  if (config.verify && !config.index.verifiable)
    return usage(config.index.name + " keeps nothing that could be checked", "--verify",
                 "leave it out");
  if (!config.answers_path.empty() && !config.verify)
    return usage("answers are kept only when they are verified", "--answers", "add --verify");
  if (config.export_histograms && !config.measures_latency())
    return usage("there are none with --latency off or --no-histograms", "--export-histograms",
                 "give one of the two");
  if (config.export_histograms && !flags.json)
    return usage("the histograms go into the run record", "--export-histograms", "add --json");
  return {};
}

}  // namespace perdure::cli
