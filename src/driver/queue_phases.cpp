#include "driver/queue_phases.h"

namespace perdure::driver {

Result<void> QueuePhases::load() {
  Result<void> loaded;
  run_.progress.show("load", -1, 0);
  run_.target.run_alone(Accounting::off, [&] {
    if (run_.config.reuse) queue_.take_over();
    loaded = queue_.load();
  });
  return loaded;
}

Result<void> QueuePhases::settle_load() {
  run_.target.run_alone(Accounting::off, [&] {
    queue_.queue().quiesce();
    queue_.measure_memory();
    queue_.level();
  });
  return {};
}

void QueuePhases::check() {
  run_.progress.show("empty the queue", -1, 0);
  if (run_.config.verify) queue_.empty_and_refill();
  if (run_.config.check) {
    auto checked = queue_.check_invariants();
    if (!checked) {
      Error error = checked.error();
      error.code = ErrorCode::failed;
      if (error.where.empty()) error.where = run_.config.index.full_name();
      run_.result.broken_invariant = std::move(error);
    }
  }
  if (!run_.result.broken_invariant) run_.result.broken_invariant = queue_.fault();
}

void QueuePhases::sum_up() {
  if (const QueueVerifier* const verifier = queue_.verifier())
    run_.result.verification = verifier->summary();
}

}  // namespace perdure::driver
