#include "driver/replay_phases.h"

#include "driver/interrupt.h"

namespace perdure::driver {

Result<void> ReplayPhases::open() {
  return site_.open([this] { return make(); }, [this] { return store_->size(); });
}

// Under the server's name, so that it can serve what a replay has left, and check it.
Result<void> ReplayPhases::make() {
  engine::StoreOptions options;
  options.index = replay_.index;
  options.huge_pages = run_.config.huge_pages;
  auto made = engine::DocumentStore::create(*site_.pool(), options, rule_);
  if (!made) return made.error();
  store_ = std::move(*made);
  return {};
}

void ReplayPhases::repeat() {
  workers_.resize(run_.config.threads);
  run_.target.run(Accounting::off, [&](unsigned thread) {
    workers_[thread] = std::make_unique<ReplayWorker>(replay_, thread, *store_, rule_, run_.clock);
  });
  Rounds rounds(run_.config.threads, run_.clock, run_.target.filling());
  const auto job = [&](unsigned thread) {
    ReplayWorker& worker = *workers_[thread];
    OperationCounter& counter = rounds.counter(thread);
    rounds.work(
        thread, true, [&] { return worker.fill(); },
        [&](Ticks, Ticks) { worker.run(rounds, counter); }, [&] { return worker.more(); });
  };
  RepetitionResult result;
  result.timeline = run_.target.run_phase(Accounting::on, rounds,
                                          {"replay", 0, replay_.trace->size()}, run_.progress, job);
  result.simulated = run_.target.last_run();
  result.seconds = run_.clock.to_seconds(rounds.active());
  run_.result.repetitions.push_back(std::move(result));
  if (interrupted()) return;
  run_.target.run_alone(Accounting::off, [&] { sum_up_workers(); });
  site_.keep();
}

void ReplayPhases::sum_up_workers() {
  auto replayed = std::make_shared<ReplayResult>();
  for (const auto& worker : workers_) replayed->tally.merge(worker->tally);
  site_.measure_memory(store_->usage().dram_bytes);
  const auto digest = engine::digest_of(*store_);
  if (digest)
    replayed->digest = *digest;
  else
    read_digest_ = digest.error();
  run_.result.replay = std::move(replayed);
}

Result<void> ReplayPhases::close() {
  workers_.clear();
  if (store_) store_->settle();
  store_.reset();
  return site_.close();
}

}  // namespace perdure::driver
