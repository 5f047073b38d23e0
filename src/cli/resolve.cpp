// From the flags to a checked configuration. Nothing is created on the way.
#include "cli/bench_steps.h"

namespace perdure::cli {

Result<driver::BenchConfig> resolve(BenchFlags& flags) {
  for (const auto step : {choose_target, choose_index, load_workload_file})
    if (auto done = step(flags); !done) return done.error();
  if (auto assigned = flags.table.assign(); !assigned) return assigned.error();
  for (const auto step : {place_simulated, resolve_options, resolve_queue, resolve_workload,
                          resolve_run, resolve_memory, resolve_placement, complete_simulated})
    if (auto done = step(flags); !done) return done.error();
  if (auto checked = check_place(flags); !checked) return checked.error();
  if (auto checked = check_workload(flags); !checked) return checked.error();
  if (auto checked = check_output(flags); !checked) return checked.error();
  return flags.config;
}

Result<driver::BenchConfig> resolve_replay(BenchFlags& flags) {
  driver::BenchConfig& config = flags.config;
  for (const auto step : {choose_target, choose_trace})
    if (auto done = step(flags); !done) return done.error();
  if (auto assigned = flags.table.assign(); !assigned) return assigned.error();
  for (const auto step :
       {place_simulated, resolve_memory, resolve_placement, complete_simulated, deal_trace})
    if (auto done = step(flags); !done) return done.error();
  if (auto checked = check_place(flags); !checked) return checked.error();
  return config;
}

}  // namespace perdure::cli
