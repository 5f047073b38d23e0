// The flags of `probe`, as text, and what they resolve to.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/result.h"
#include "driver/probe_target.h"
#include "probe/catalogue.h"

namespace perdure::cli {

/// As given; an empty optional means "as the probe has it".
struct ProbeFlags {
  using Text = std::optional<std::string>;

  std::vector<std::string> names;
  Text target, memory, op, pattern, sizes, threads, region, regions, stride, mix_reads, fence;
  Text op_cost_ns, op_cost, node, dimms, prefetch, hit_ratios, variant, operations;
  Text pool, seed, seconds, jobs, ablate, output;
  bool full = false;
  bool quick = false;
  bool force = false;
  bool guard = false;
  bool json = false;
  bool dry_run = false;
  bool quiet = false;
};

/// What is to be measured on what.
struct ProbeRequest {
  std::vector<std::string> names;  ///< of probes, "all" resolved
  probe::Settings settings;
  driver::ProbeOptions options;
};

void declare(CLI::App& app, ProbeFlags& flags);

/// Everything checked, nothing opened. Errors: usage.
[[nodiscard]] Result<ProbeRequest> resolve(const ProbeFlags& flags);

/// The points of all probes of a request, given what its target offers. Errors: usage, for a region
/// that is too small for what is to be done in it.
[[nodiscard]] Result<std::vector<probe::Point>> points_of(const ProbeRequest& request,
                                                          const driver::ProbeDefaults& defaults);

}  // namespace perdure::cli
