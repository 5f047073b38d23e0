// Where the index is: the pool, its heap, and how this machine makes it durable.
#include "cli/bench_steps.h"

namespace perdure::cli {
namespace {

using driver::BenchConfig;

Result<void> check_machine(const BenchFlags& flags) {
  const BenchConfig& config = flags.config;
  if (config.simd && *config.simd > pm::detect_simd_level() && flags.table.given("--simd"))
    return Error{ErrorCode::unsupported, "this CPU lacks it", flags.table.written("--simd"),
                 std::string("give ") + pm::name_of(pm::detect_simd_level()) + " or less"};
  if (!config.flush) return {};
  const std::string where = flags.table.written("--flush");
  if (*config.flush > pm::detect_flush_instruction())
    return Error{ErrorCode::unsupported, "this CPU lacks it", where,
                 std::string("give ") + pm::name_of(pm::detect_flush_instruction())};
  if (config.durability != pm::Durability::adr)
    return usage(
        "nothing is flushed under --durability " + std::string(pm::name_of(config.durability)),
        where, "leave --flush out");
  return {};
}

}  // namespace

Result<void> resolve_memory(BenchFlags& flags) {
  BenchConfig& config = flags.config;
  // A wrapper may append its files' names to a directory as it was given.
  while (config.plugin.empty() && config.pool_path.size() > 1 && config.pool_path.back() == '/')
    config.pool_path.pop_back();
  if (flags.table.given("--pool-bytes") && config.pool_bytes < Pool::min_pool_bytes)
    return usage("is smaller than a pool can be", flags.table.written("--pool-bytes"),
                 "give " + std::to_string(Pool::min_pool_bytes >> 20) + "MiB or more");
  if (config.uses_pool() && !config.index.works_on(config.heap))
    return usage(config.index.full_name() + " needs another heap", flags.table.written("--heap"),
                 "leave it out");
  return check_machine(flags);
}

Result<void> check_place(const BenchFlags& flags) {
  const BenchConfig& config = flags.config;
  if (config.uses_path() && config.pool_path.empty() && !config.scratch_pool)
    return usage(config.index.full_name() + " needs a place for its " +
                     (config.queue ? "payloads" : "records"),
                 "--pool",
                 config.uses_pool() ? "give --pool /dev/shm/perdure.pool, or --heap dram"
                                    : "name a directory that does not exist yet");
  if (!config.reuse) return {};
  if (config.force)
    return usage("replaces what --reuse would open", "--force", "give one of the two");
  if (config.bulk_load) return usage("--reuse loads nothing", "--bulk-load", "give one of the two");
  const bool recovers = config.queue ? config.queue->info.recover != nullptr
                                     : config.index.recovers(config.key_kind());
  if (!config.uses_path() || !recovers)
    return usage("nothing of " + config.index.full_name() +
                     (config.uses_pool() ? " with --heap dram" : "") + " outlives a run",
                 "--reuse", "leave it out");
  return {};
}

}  // namespace perdure::cli
