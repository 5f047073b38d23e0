// QueuePhases: the phases of a run of a queue, with the names of IndexPhases.
#pragma once

#include <memory>

#include "driver/answers_file.h"
#include "driver/measured_queue.h"
#include "driver/queue_worker.h"
#include "driver/repetitions.h"
#include "driver/run_context.h"

namespace perdure::driver {

class QueuePhases {
 public:
  // Answers are of indexes: the command line refuses --answers.
  QueuePhases(const RunContext& run, AnswersFile&) : run_(run) {}

  Result<void> open() { return queue_.open(); }
  Result<void> load();
  void keep() { queue_.keep(); }
  Result<void> settle_load();
  void repeat() { repetitions_.repeat(); }
  void check();
  [[nodiscard]] Result<void> publish_answers() { return {}; }
  void sum_up();

  void leave_target() { queue_.leave_target(); }
  Result<void> close() {
    repetitions_.clear();
    return queue_.close();
  }

 private:
  const RunContext& run_;
  MeasuredQueue queue_{run_};
  Repetitions<QueueWorker> repetitions_{run_,
                                        [this](unsigned thread) {
                                          return std::make_unique<QueueWorker>(run_.config, queue_,
                                                                               thread, run_.clock);
                                        },
                                        [this] { queue_.level(); }};
};

}  // namespace perdure::driver
