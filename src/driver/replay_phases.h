// ReplayPhases: the phases of a replay, with the names of IndexPhases. There is one repetition,
// from an empty store, with cold caches: what a trace does it does once.
#pragma once

#include <memory>
#include <vector>

#include "driver/answers_file.h"
#include "driver/replay_worker.h"
#include "driver/run_context.h"
#include "driver/run_site.h"

namespace perdure::driver {

class ReplayPhases {
 public:
  // Answers are compared with recorded ones, and not kept.
  ReplayPhases(const RunContext& run, AnswersFile&)
      : run_(run), replay_(*run.config.replay), site_(run) {}

  Result<void> open();
  Result<void> load() { return {}; }
  void keep() {}  // a half of a replay is not kept: see `repeat`
  Result<void> settle_load() { return {}; }
  void repeat();
  void check() {}
  [[nodiscard]] Result<void> publish_answers() { return read_digest_; }
  void sum_up() {}

  void leave_target() { site_.leave_target(); }
  Result<void> close();

 private:
  Result<void> make();
  void sum_up_workers();

  const RunContext& run_;
  const ReplayRun& replay_;
  RunSite site_;  // outlives the store
  ReplayRule rule_;
  std::unique_ptr<engine::DocumentStore> store_;
  std::vector<std::unique_ptr<ReplayWorker>> workers_;
  Result<void> read_digest_;
};

}  // namespace perdure::driver
