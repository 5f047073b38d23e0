// The steps from the flags of `bench` to its configuration, in their order. Each resolves one
// thing in `flags.config`; what is checked needs nothing that a later step resolves.
#pragma once

#include "cli/bench_flags.h"

namespace perdure::cli {

// Before the values of flags are assigned: the defaults that they override.

/// The machine of --target sim:PLATFORM, or this one.
[[nodiscard]] Result<void> choose_target(BenchFlags& flags);
/// The index or queue of --index and --mode, or the wrapper of --plugin.
[[nodiscard]] Result<void> choose_index(BenchFlags& flags);
/// The queue of that name. Errors: usage, with the nearest of all indexes and queues.
[[nodiscard]] Result<void> choose_queue(BenchFlags& flags, const std::string& name);
/// The file of --workload.
[[nodiscard]] Result<void> load_workload_file(BenchFlags& flags);

/// The trace of a replay, and the document store as what is run. Its pool is as large as the
/// recorded one.
[[nodiscard]] Result<void> choose_trace(BenchFlags& flags);

// After that.

/// --cpus, nodes and ablations of a simulated machine, which goes into the configuration.
[[nodiscard]] Result<void> place_simulated(BenchFlags& flags);
[[nodiscard]] Result<void> resolve_options(BenchFlags& flags);
/// Producers, consumers and payloads of a queue, in place of threads and workload.
[[nodiscard]] Result<void> resolve_queue(BenchFlags& flags);
/// The kind of keys, and what ends a repetition.
[[nodiscard]] Result<void> resolve_workload(BenchFlags& flags);
/// Threads, what they share, the lock, the rate, and which operations are timed.
[[nodiscard]] Result<void> resolve_run(BenchFlags& flags);
/// Pool, heap, durability and instructions.
[[nodiscard]] Result<void> resolve_memory(BenchFlags& flags);
/// What a simulation cannot do, its carrier, and a pool where none is named.
/// Once memory and machine are known. Errors: usage, unsupported.
[[nodiscard]] Result<void> resolve_placement(BenchFlags& flags);
[[nodiscard]] Result<void> complete_simulated(BenchFlags& flags);
/// Which of the trace's operations each thread executes.
[[nodiscard]] Result<void> deal_trace(BenchFlags& flags);
/// Everything about --pool that can be refused before a file is touched.
[[nodiscard]] Result<void> check_place(const BenchFlags& flags);
/// Opens the key file; whether the index can do what the workload does.
[[nodiscard]] Result<void> check_workload(BenchFlags& flags);
/// Whether what is to be printed and written is there.
[[nodiscard]] Result<void> check_output(const BenchFlags& flags);

}  // namespace perdure::cli
