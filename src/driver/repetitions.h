// Repetitions: the measured part of a run: warms the caches, warms up, then repeats the workload's
// operations on all threads.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "driver/hardware_counters.h"
#include "driver/interference.h"
#include "driver/interrupt.h"
#include "driver/rounds.h"
#include "driver/run_context.h"

namespace perdure::driver {

/// A simulated run begins with this many operations that fill the caches; 0: with none.
[[nodiscard]] std::uint64_t operations_that_warm(const BenchConfig& config);

/// `Worker`: one thread's part of them (worker.h, queue_worker.h).
template <class Worker>
class Repetitions {
 public:
  using Make = std::function<std::unique_ptr<Worker>(unsigned thread)>;

  /// `make` makes a thread's worker, on that thread. `settle` is called when the threads have ended
  /// a phase, on one thread whose work is not modelled.
  Repetitions(const RunContext& run, Make make, std::function<void()> settle = {})
      : run_(run), config_(run.config), make_(std::move(make)), settle_(std::move(settle)) {}

  /// Fills in the results of the repetitions. Ends early when a signal comes.
  void repeat() {
    make_workers();
    // The caches and the warm-up draw from streams that no repetition uses.
    if (config_.simulated && config_.simulated->warm)
      if (const std::uint64_t operations = operations_that_warm(config_); operations != 0)
        static_cast<void>(run_phase(Accounting::tags, config_.repetitions + 1, operations, 0,
                                    "warming the caches"));
    if (config_.warmup_seconds > 0)
      static_cast<void>(
          run_phase(Accounting::on, config_.repetitions, 0, config_.warmup_seconds, "warm-up"));
    std::optional<InterferenceWatch> others;
    if (!config_.simulated) others.emplace();
    for (unsigned i = 0; i < config_.repetitions && !interrupted(); ++i)
      run_.result.repetitions.push_back(run_phase(
          Accounting::on, i, config_.workload.operations, config_.workload.seconds,
          "repetition " + std::to_string(i + 1) + " of " + std::to_string(config_.repetitions)));
    if (others) run_.result.interference = others->so_far();
  }

  /// True when inserts failed because no key is left for them.
  [[nodiscard]] bool fresh_exhausted() const noexcept { return fresh_exhausted_; }

  [[nodiscard]] const std::vector<std::unique_ptr<Worker>>& workers() const noexcept {
    return workers_;
  }

  /// Destroys the workers, which refer to the indexes.
  void clear() { workers_.clear(); }

 private:
  void make_workers() {
    workers_.resize(config_.threads);
    run_.target.run(Accounting::off, [&](unsigned thread) { workers_[thread] = make_(thread); });
  }

  RepetitionResult run_phase(Accounting accounting, unsigned repetition, std::uint64_t operations,
                             double seconds, std::string name) {
    Rounds rounds(config_.threads, run_.clock, run_.target.filling());
    std::vector<HardwareCounts> counted(config_.simulated ? 0 : config_.threads);
    const auto job = [&](unsigned thread) {
      Worker& worker = *workers_[thread];
      OperationCounter& counter = rounds.counter(thread);
      std::optional<HardwareCounters> hardware;
      if (!counted.empty()) hardware.emplace();
      worker.begin(repetition, operations_of_instance(thread, operations),
                   accounting == Accounting::on);
      rounds.work(
          thread, true, [&] { return worker.fill(); },
          [&](Ticks active, Ticks start) {
            if (hardware) hardware->resume();  // one system call in a whole round
            worker.run(rounds, counter, active, start);
          },
          [&] {
            if (hardware) hardware->pause();
            return worker.more();
          });
      worker.finish();
      if (hardware) counted[thread] = hardware->read();
    };
    RepetitionResult result;
    result.timeline = run_.target.run_phase(
        accounting, rounds, {std::move(name), seconds, config_.counted_operations(operations)},
        run_.progress, job);
    if (accounting == Accounting::on) result.simulated = run_.target.last_run();
    if (!counted.empty()) result.hardware = sum_of(counted);
    result.seconds = run_.clock.to_seconds(rounds.active());
    result.tally = Tally(config_.measures_latency(), config_.open_loop());
    for (const auto& worker : workers_) {
      result.tally.merge(worker->tally);
      if constexpr (requires { worker->fresh_exhausted(); })
        fresh_exhausted_ = fresh_exhausted_ || worker->fresh_exhausted();
    }
    if (settle_) run_.target.run_alone(Accounting::off, settle_);
    return result;
  }

  // The instance's share of `operations`, which are those of all threads. All threads work on one
  // instance, or each on its own.
  [[nodiscard]] std::uint64_t operations_of_instance(unsigned thread,
                                                     std::uint64_t operations) const noexcept {
    const std::uint64_t instances = config_.instances();
    return operations / instances + (thread < operations % instances ? 1 : 0);
  }

  const RunContext& run_;
  const BenchConfig& config_;
  const Make make_;
  const std::function<void()> settle_;
  std::vector<std::unique_ptr<Worker>> workers_;
  bool fresh_exhausted_ = false;
};

}  // namespace perdure::driver
