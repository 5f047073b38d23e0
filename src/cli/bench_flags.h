// The flags of `bench` and of `engine replay`, and the configuration that they make.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/flags.h"
#include "core/result.h"
#include "driver/config.h"

namespace perdure::cli {

/// "sampled:256", "every" or "off".
struct LatencyChoice {
  driver::Latency method = driver::Latency::every;
  unsigned interval = driver::BenchConfig::default_latency_interval;
};

/// What the command line says. What a flag says of the run alone it says in `config` or `machine`;
/// what has to be seen beside something else stands here.
struct BenchFlags {
  using Text = std::optional<std::string>;
  static constexpr unsigned all_threads = 0;

  struct Replay {};

  BenchFlags();                 ///< declares them
  explicit BenchFlags(Replay);  ///< those of `engine replay` alone

  FlagTable table;
  driver::BenchConfig config;
  driver::SimulatedMachine machine;
  driver::QueueRun queue;  ///< goes into `config` where a queue is measured

  Text index, mode, plugin, target, workload, cpus;
  std::vector<std::string> options, ablate;
  std::optional<KeyKind> key_kind;
  std::optional<std::uint64_t> operations;
  std::optional<double> seconds;
  std::optional<LatencyChoice> latency;
  Text placement;
  bool near_in_dram = false;
  bool no_histograms = false;
  bool json = false;
  bool dry_run = false;
  bool quiet = false;
  std::vector<std::string> words;  ///< of a replay: the trace
  std::string engine_index;        ///< of a replay; empty: the recorded one
};

/// Flags over workload file over defaults, everything checked, nothing created. Opens the workload
/// and key files and loads the plugin. Errors: usage, bad_input, not_found, unsupported.
[[nodiscard]] Result<driver::BenchConfig> resolve(BenchFlags& flags);
/// The same of a replay. Reads the whole trace. Errors: also those of Trace.
[[nodiscard]] Result<driver::BenchConfig> resolve_replay(BenchFlags& flags);

}  // namespace perdure::cli
