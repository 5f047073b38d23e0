// IndexPhases: the phases of a run of an index, which keep what they need from one to the next.
#pragma once

#include <memory>

#include "driver/answers_file.h"
#include "driver/end_checks.h"
#include "driver/indexes.h"
#include "driver/load_phase.h"
#include "driver/repetitions.h"
#include "driver/reused.h"
#include "driver/run_context.h"
#include "driver/worker.h"

namespace perdure::driver {

template <class Keys>
class IndexPhases {
 public:
  IndexPhases(const RunContext& run, AnswersFile& answers) : run_(run), answers_(answers) {}

  Result<void> open() { return indexes_.open(); }
  Result<void> load() {
    return run_.config.reuse ? Result<void>() : LoadPhase<Keys>(run_, indexes_).load();
  }
  void keep() { indexes_.keep(); }

  /// Waits for the load's background work and looks at what the repetitions will start from.
  Result<void> settle_load() {
    Result<void> known;
    run_.target.run_alone(Accounting::off, [&] {
      indexes_.quiesce();
      indexes_.measure_memory();
      indexes_.prepare_verifiers();
      for (Instance<Keys>& each : indexes_.all())
        if (run_.config.reuse && known) known = look_at_reused(run_, each);
    });
    return known;
  }

  void repeat() {
    repetitions_.repeat();
    checks_.note_unchecked_scans();
  }
  /// While no worker runs.
  void check() { checks_.check(); }
  [[nodiscard]] Result<void> publish_answers() { return answers_.publish(repetitions_.workers()); }
  /// Also of a run that was interrupted.
  void sum_up() {
    checks_.sum_up();
    if (repetitions_.fresh_exhausted())
      run_.result.warnings.emplace_back("no key is left for inserts: the later ones failed");
  }

  void leave_target() { indexes_.leave_target(); }
  Result<void> close() {
    repetitions_.clear();
    return indexes_.close();
  }

 private:
  const RunContext& run_;
  AnswersFile& answers_;
  Indexes<Keys> indexes_{run_};
  Repetitions<Worker<Keys>> repetitions_{run_, [this](unsigned thread) {
                                           return std::make_unique<Worker<Keys>>(
                                               run_.config, indexes_.of_thread(thread), thread,
                                               run_.clock);
                                         }};
  EndChecks<Keys> checks_{run_, indexes_, answers_};
};

}  // namespace perdure::driver
