#include "driver/bench.h"

#include <memory>
#include <utility>

#include "driver/answers_file.h"
#include "driver/index_phases.h"
#include "driver/interrupt.h"
#include "driver/pool_setup.h"
#include "driver/queue_phases.h"
#include "driver/replay_phases.h"
#include "driver/run_context.h"
#include "driver/target.h"
#include "driver/warnings.h"
#include "pool/file.h"

namespace perdure::driver {
namespace {

Result<void> configure_pm(const BenchConfig& config) {
  if (config.flush) {
    if (auto configured = pm::configure(config.durability, *config.flush); !configured)
      return configured;
  } else {
    pm::configure(config.durability);
  }
  pm::configure_simd(config.simd.value_or(pm::detect_simd_level()));
  pm::configure_transactions(config.transactions);
  return {};
}

// Looks before a simulation starts: looking allocates, which would move what is allocated later.
Result<void> check_room(const BenchConfig& config) {
  if (auto fits = check_memory(config, memory_room()); !fits) return fits;
  if (!config.simulated || config.reuse || !(config.uses_pool() || config.uses_path())) return {};
  const auto bytes = choose_pool_bytes(config, room_of(config));
  memory_was_looked_at.store(true);
  return bytes ? Result<void>() : bytes.error();
}

template <class Phases>
Result<void> check_all(const RunContext& run, Phases& phases) {
  run.target.run_alone(Accounting::off, [&] { phases.check(); });
  if (auto kept = run.target.check(); !kept) return kept;
  // The result is worth more than the files beside it: it is printed even if one cannot be written.
  for (const auto& written : {phases.publish_answers(), run.target.write_profile()})
    if (!written && !run.result.unwritten) run.result.unwritten = written.error();
  return {};
}

/// One run from its first phase to its last.
template <class Phases>
Result<void> measure(const RunContext& run, Phases& phases) {
  if (auto opened = phases.open(); !opened) return opened;
  if (auto loaded = phases.load(); !loaded) return loaded;
  if (!interrupted()) {
    phases.keep();
    if (auto settled = phases.settle_load(); !settled) return settled;
    phases.repeat();
  }
  if (!interrupted())
    if (auto checked = check_all(run, phases); !checked) return checked;
  run.result.interrupted = interrupted();
  phases.sum_up();
  add_warnings(run.config, run.result, run.target.pinned());
  return {};
}

template <class Phases>
Result<void> close(const RunContext& run, Phases& phases) {
  run.progress.clear();
  phases.leave_target();
  Result<void> closed;
  run.target.run_alone(Accounting::off, [&] { closed = phases.close(); });
  return closed;
}

/// `Phases`: those of an index or of a queue (index_phases.h, queue_phases.h).
template <class Phases>
Result<BenchResult> run_with(const BenchConfig& config, Progress& progress) {
  AnswersFile answers;
  if (auto opened = answers.open(config.answers_path); !opened) return opened.error();
  if (auto fits = check_room(config); !fits) return fits.error();
  auto target = Target::start(config);
  if (!target) return target.error();
  BenchResult result;
  const RunContext run{config, progress, Clock::get(), **target, result};
  Phases phases(run, answers);
  const Result<void> measured = measure(run, phases);
  const Result<void> closed =
      close(run, phases);  // what is kept must open clean, also after an error
  if (!measured) return measured.error();
  if (!closed) return closed.error();
  return result;
}

}  // namespace

Result<BenchResult> run_bench(const BenchConfig& config, Progress& progress) {
  if (auto configured = configure_pm(config); !configured) return configured.error();
  if (config.replay) return run_with<ReplayPhases>(config, progress);
  if (config.queue) return run_with<QueuePhases>(config, progress);
  if (config.key_kind() == KeyKind::integer)
    return run_with<IndexPhases<IntegerKeys>>(config, progress);
  if (config.key_kind() == KeyKind::slots) return run_with<IndexPhases<SlotKeys>>(config, progress);
  return run_with<IndexPhases<ByteKeys>>(config, progress);
}

}  // namespace perdure::driver
