// QueueWorker: one thread's timed loop over a queue, as a producer or as a consumer.
//
// A call that finds the queue full or empty is tried again and counted apart: it is no operation,
// and in no latency. A latency is that of the call that succeeded, so it says what the queue costs
// and not how long one side waits for the other.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "driver/config.h"
#include "driver/measured_queue.h"
#include "driver/queue_payload.h"
#include "driver/rounds.h"
#include "driver/samples.h"
#include "driver/tally.h"
#include "driver/target.h"
#include "driver/think_time.h"

namespace perdure::driver {

class QueueWorker {
 public:
  /// Allocates everything that it needs later. The queue outlives it.
  QueueWorker(const BenchConfig& config, MeasuredQueue& queue, unsigned thread, const Clock& clock);

  /// Starts a phase of `pushes` over all producers, and as many pops; 0: without end.
  void begin(unsigned repetition, std::uint64_t pushes, bool paced);
  /// Nothing is prepared: a payload is made where it is pushed.
  [[nodiscard]] bool fill() const noexcept { return more(); }
  /// Timed: works until its part is done or the round is over.
  void run(Rounds& rounds, OperationCounter& counter, Ticks active_before, Ticks round_start);
  [[nodiscard]] bool more() const noexcept { return part_.left != 0; }
  void finish();

  Tally tally;

 private:
  /// What this thread does in one phase.
  struct Part {
    std::uint64_t left = 0;
    std::size_t executed = 0;
    std::uint64_t helped = 0;     ///< calls that released others: no operations
    bool inside = true;           ///< has not left yet (departure.h)
    bool producers_done = false;  ///< before the call under way began
  };

  [[nodiscard]] bool produces() const noexcept { return thread_ < role_.producers; }
  [[nodiscard]] Departure::Side side() const noexcept {
    return produces() ? Departure::Side::producers : Departure::Side::consumers;
  }
  void end_part() noexcept;
  void leave() noexcept;
  /// Ends a phase that was stopped (departure.h).
  void depart();
  void help();
  [[nodiscard]] bool push(const Rounds& rounds);
  [[nodiscard]] bool pop(const Rounds& rounds);
  /// Calls until the answer is another than `again`, which is also returned when the round is over
  /// or waiting is in vain.
  template <class Call>
  [[nodiscard]] Outcome call(workload::Operation operation, Outcome again, const Rounds& rounds,
                             Call&& once);
  [[nodiscard]] bool waits_in_vain() noexcept;
  [[nodiscard]] bool is_timed() const noexcept {
    return every_ || (samples_ && samples_->next() == part_.executed);
  }
  void record(workload::Operation operation, Ticks duration) noexcept;
  void note(workload::Operation operation, Outcome outcome) noexcept;

  const Clock& clock_;
  MeasuredQueue& queue_;
  const QueueRun& role_;
  const unsigned thread_;
  const bool every_;
  const ThinkTime think_;
  QueuePayload payload_;
  std::string popped_;
  QueueVerifier::Before before_;
  std::unique_ptr<Samples> samples_;  ///< null: all operations are timed, or none
  Part part_;
  bool thinks_ = false;  ///< in this phase
};

}  // namespace perdure::driver
