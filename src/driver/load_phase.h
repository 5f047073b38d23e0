// LoadPhase: fills the new indexes of a run with the workload's records.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "driver/indexes.h"
#include "driver/load.h"
#include "driver/rounds.h"
#include "driver/run_context.h"

namespace perdure::driver {

template <class Keys>
class LoadPhase {
 public:
  LoadPhase(const RunContext& run, Indexes<Keys>& indexes)
      : run_(run), config_(run.config), indexes_(indexes) {}

  /// Errors: out_of_space, failed (the index refuses a fresh key), those of bulk_load.
  Result<void> load() {
    if (!config_.bulk_load) return load_by_inserts();
    Result<void> loaded;
    run_.target.run_alone(Accounting::off, [&] {
      for (Instance<Keys>& each : indexes_.all())
        if (loaded) loaded = load_in_bulk(each);
    });
    return loaded;
  }

 private:
  Result<void> load_by_inserts() {
    LoadFailure failure;
    std::vector<std::unique_ptr<Loader<Keys>>> loaders(config_.threads);
    Rounds rounds(config_.threads, run_.clock, run_.target.filling());
    const auto job = [&](unsigned thread) {
      // Each thread makes its own loader, so that the loader's memory lies on the thread's node.
      Instance<Keys>& instance = indexes_.of_thread(thread);
      const workload::Place place = instance.place(thread);
      loaders[thread] = std::make_unique<Loader<Keys>>(instance.workload, *instance.index,
                                                       place.thread, place.threads, failure);
      Loader<Keys>& loader = *loaders[thread];
      rounds.work(
          thread, false, [&] { return loader.fill(); },
          [&](Ticks, Ticks) { loader.run(rounds, rounds.counter(thread)); },
          [&] { return loader.more(); });
    };
    static_cast<void>(run_.target.run_phase(Accounting::off, rounds, {"load", 0, records_to_load()},
                                            run_.progress, job));
    run_.result.load.seconds = run_.clock.to_seconds(rounds.active());
    run_.result.load.records = rounds.operations();
    if (failure.outcome() != Outcome::ok) return load_error(failure.outcome());
    return {};
  }

  Result<void> load_in_bulk(Instance<Keys>& instance) {
    run_.progress.show("sort records", -1, 0);
    const SortedRecords<Keys> sorted(instance.workload);
    run_.progress.show("bulk load", -1, 0);
    const Ticks start = run_.clock.now();
    if (auto loaded = instance.index->bulk_load(sorted.records()); !loaded) {
      if (loaded.error().code == ErrorCode::out_of_space) return load_error(Outcome::out_of_space);
      return loaded.error();
    }
    run_.result.load.seconds += run_.clock.to_seconds(run_.clock.now() - start);
    run_.result.load.records += sorted.records().size();
    return {};
  }

  [[nodiscard]] std::uint64_t records_to_load() const noexcept {
    return config_.workload.records * config_.instances();
  }

  [[nodiscard]] Error load_error(Outcome outcome) const {
    const std::uint64_t loaded = run_.result.load.records;
    const std::string progress =
        std::to_string(loaded) + " of " + std::to_string(records_to_load()) + " records";
    if (outcome != Outcome::out_of_space)
      return {ErrorCode::failed,
              "loading a fresh key answered '" + std::string(perdure::name_of(outcome)) +
                  "' after " + progress,
              config_.index.name, "the index is at fault: run it with --verify"};
    if (indexes_.site().pool() == nullptr && !config_.uses_path())
      return {ErrorCode::out_of_space, "the system gives no more memory after " + progress,
              config_.index.name, "give fewer --records, or raise the limit (ulimit -v)"};
    return full_pool(loaded, progress);
  }

  // Suggests what the loaded part took, scaled up, with a quarter to spare; twice the size where
  // too little was loaded to tell.
  [[nodiscard]] Error full_pool(std::uint64_t loaded, const std::string& progress) const {
    const double share = static_cast<double>(std::max<std::uint64_t>(loaded, 1)) /
                         static_cast<double>(records_to_load());
    const double needed =
        static_cast<double>(indexes_.site().bytes()) * std::max(2.0, 1.25 / share);
    const auto mebibytes = static_cast<std::uint64_t>(needed / 0x1p20) + 1;
    const bool loaded_any = loaded * 100 >= records_to_load();
    return {ErrorCode::out_of_space, "the pool is full after " + progress,
            config_.scratch_pool        ? "the simulated pool"
            : config_.pool_path.empty() ? "--heap dram"
                                        : config_.pool_path,
            loaded_any ? "--pool-bytes " + std::to_string(mebibytes) + "MiB would do"
                       : "leave --pool-bytes out to have it chosen"};
  }

  const RunContext& run_;
  const BenchConfig& config_;
  Indexes<Keys>& indexes_;
};

}  // namespace perdure::driver
