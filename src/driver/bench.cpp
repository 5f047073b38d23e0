#include "driver/bench.h"

#include <memory>
#include <utility>

#include "driver/answers_file.h"
#include "driver/end_checks.h"
#include "driver/indexes.h"
#include "driver/interrupt.h"
#include "driver/load_phase.h"
#include "driver/pool_setup.h"
#include "driver/repetitions.h"
#include "driver/reused.h"
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

/// The phases of one run, which keep what they need from one to the next.
template <class Keys>
struct Phases {
  Phases(const RunContext& context, AnswersFile& answers_file)
      : run(context), answers(answers_file) {}

  const RunContext& run;
  AnswersFile& answers;
  Indexes<Keys> indexes{run};
  Repetitions<Keys> repetitions{run, indexes};
  EndChecks<Keys> checks{run, indexes, answers};
};

/// Waits for the load's background work and looks at what the repetitions will start from.
template <class Keys>
Result<void> settle_load(Phases<Keys>& phases) {
  const RunContext& run = phases.run;
  Result<void> known;
  run.target.run_alone(Accounting::off, [&] {
    phases.indexes.quiesce();
    phases.indexes.measure_memory();
    phases.indexes.prepare_verifiers();
    for (Instance<Keys>& each : phases.indexes.all())
      if (run.config.reuse && known) known = look_at_reused(run, each);
  });
  return known;
}

template <class Keys>
Result<void> check_all(Phases<Keys>& phases) {
  const RunContext& run = phases.run;
  run.target.run_alone(Accounting::off, [&] { phases.checks.check(); });
  if (auto kept = run.target.check(); !kept) return kept;
  // The result is worth more than the files beside it: it is printed even if one cannot be written.
  for (const auto& written :
       {phases.answers.publish(phases.repetitions.workers()), run.target.write_profile()})
    if (!written && !run.result.unwritten) run.result.unwritten = written.error();
  return {};
}

template <class Keys>
void finish(Phases<Keys>& phases) {
  const RunContext& run = phases.run;
  run.result.interrupted = interrupted();
  phases.checks.sum_up();
  if (phases.repetitions.fresh_exhausted())
    run.result.warnings.emplace_back(
        "the key file has no line left for inserts: the later ones failed");
  add_warnings(run.config, run.result, run.target.pinned());
}

/// One run from its first phase to its last.
template <class Keys>
Result<void> measure(Phases<Keys>& phases) {
  const RunContext& run = phases.run;
  if (auto opened = phases.indexes.open(); !opened) return opened;
  if (!run.config.reuse)
    if (auto loaded = LoadPhase<Keys>(run, phases.indexes).load(); !loaded) return loaded;
  if (!interrupted()) {
    phases.indexes.keep();
    if (auto settled = settle_load(phases); !settled) return settled;
    phases.repetitions.repeat();
    phases.checks.note_unchecked_scans();
  }
  if (!interrupted())
    if (auto checked = check_all(phases); !checked) return checked;
  finish(phases);
  return {};
}

template <class Keys>
Result<void> close(Phases<Keys>& phases) {
  const RunContext& run = phases.run;
  run.progress.clear();
  phases.indexes.leave_target();
  Result<void> closed;
  run.target.run_alone(Accounting::off, [&] {
    phases.repetitions.clear();
    closed = phases.indexes.close();
  });
  return closed;
}

template <class Keys>
Result<BenchResult> run_with(const BenchConfig& config, Progress& progress) {
  AnswersFile answers;
  if (auto opened = answers.open(config.answers_path); !opened) return opened.error();
  if (auto fits = check_room(config); !fits) return fits.error();
  auto target = Target::start(config);
  if (!target) return target.error();
  BenchResult result;
  const RunContext run{config, progress, Clock::get(), **target, result};
  Phases<Keys> phases(run, answers);
  const Result<void> measured = measure(phases);
  const Result<void> closed = close(phases);  // what is kept must open clean, also after an error
  if (!measured) return measured.error();
  if (!closed) return closed.error();
  return result;
}

}  // namespace

Result<BenchResult> run_bench(const BenchConfig& config, Progress& progress) {
  if (auto configured = configure_pm(config); !configured) return configured.error();
  if (config.key_kind() == KeyKind::integer) return run_with<IntegerKeys>(config, progress);
  if (config.key_kind() == KeyKind::slots) return run_with<SlotKeys>(config, progress);
  return run_with<ByteKeys>(config, progress);
}

}  // namespace perdure::driver
