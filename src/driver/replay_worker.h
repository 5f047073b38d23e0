// ReplayWorker: one thread's part of a replay: executes the operations that it was dealt, times
// each and compares its answer with the recorded one.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "driver/clock.h"
#include "driver/replay_run.h"
#include "driver/rounds.h"
#include "engine/store/document_store.h"
#include "pm/pm.h"

namespace perdure::driver {

/// Gives a write the entries that came and went when it was recorded (store/observer.h, V2).
class ReplayRule final : public engine::EntryRule {
 public:
  /// What the calling thread executes from now on.
  void begin(const engine::TraceOperation& operation) noexcept {
    now_[pm::thread_slot()] = &operation;
  }
  [[nodiscard]] bool has_entries(std::string_view key) const override;
  void entries(std::string_view key, std::string_view document,
               engine::Entries& out) const override;

 private:
  std::array<const engine::TraceOperation*, pm::max_threads> now_{};
};

class ReplayWorker {
 public:
  /// All outlive it.
  ReplayWorker(const ReplayRun& replay, unsigned thread, engine::DocumentStore& store,
               ReplayRule& rule, const Clock& clock)
      : trace_(*replay.trace),
        mine_(replay.dealt[thread]),
        store_(store),
        rule_(rule),
        clock_(clock) {}

  /// Untimed: copies the next operations out of the trace, so that a simulation sees them at the
  /// same addresses in each run. False: there are none.
  [[nodiscard]] bool fill();
  /// Timed, until none is left or the round is over.
  void run(Rounds& rounds, OperationCounter& counter);
  [[nodiscard]] bool more() const noexcept { return at_ < prepared_ || next_ < mine_.size(); }

  ReplayTally tally;

 private:
  void execute(const engine::TraceOperation& operation);
  [[nodiscard]] engine::Status call(const engine::TraceOperation& operation, std::uint64_t id);
  [[nodiscard]] std::uint64_t id_of(std::string_view key);
  void compare(const engine::TraceOperation& operation, engine::Status status);
  [[nodiscard]] std::uint64_t number() const noexcept { return mine_[next_ - prepared_ + at_]; }

  const engine::Trace& trace_;
  const std::vector<std::uint32_t>& mine_;
  engine::DocumentStore& store_;
  ReplayRule& rule_;
  const Clock& clock_;
  std::string records_;  ///< of what is prepared
  std::vector<engine::TraceOperation> operations_;
  std::size_t prepared_ = 0;
  std::size_t at_ = 0;    ///< of those, the next to execute
  std::size_t next_ = 0;  ///< of mine_, the next to prepare
  std::uint64_t done_ = 0;
  // What operations answer.
  std::string key_, document_, next_key_;
  std::vector<engine::DocumentStore::Found> found_;
  std::vector<engine::DocumentStore::Entry> entries_;
};

}  // namespace perdure::driver
