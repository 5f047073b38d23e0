// The flags of `bench`, as text, and what they resolve to.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/result.h"
#include "driver/config.h"

namespace perdure::cli {

/// As given; an empty optional means "not given", so that a workload file can decide.
struct BenchFlags {
  using Text = std::optional<std::string>;

  Text index, mode, plugin, target;
  std::vector<std::string> options;

  Text workload, records, mix, distribution, keys, key_kind, value_bytes, scan_count, load_order;
  Text seed, operations, seconds, warmup_seconds, repetitions, threads, rate, arrivals;
  Text parallel, lock;

  Text cpus, pool_node, dram_node, carrier, flamegraph, host_times;
  std::vector<std::string> ablate;
  std::optional<bool> warm, guard;

  Text pool, pool_bytes, heap, durability, transactions, simd, flush;
  bool reuse = false;
  bool force = false;
  bool huge_pages = true;
  bool bulk_load = false;
  bool no_pin = false;

  Text answers;
  bool verify = false;
  bool check = false;
  Text latency;
  bool no_histograms = false;
  bool export_histograms = false;

  bool json = false;
  bool dry_run = false;
  bool quiet = false;
};

void declare(CLI::App& app, BenchFlags& flags);

/// Flags over workload file over defaults, everything checked, nothing created. Opens the workload
/// and key files and loads the plugin. Errors: usage, bad_input, not_found, unsupported.
[[nodiscard]] Result<driver::BenchConfig> resolve(const BenchFlags& flags);

}  // namespace perdure::cli
