// Target: the machine a benchmark runs on. perdure-native measures this one (target_native.cpp),
// perdure-sim a modelled one (target_simulated.cpp): each program links one of the two, and nothing
// else in the driver differs between them.
//
// T1  Whatever an index or a pool does, it does in a `run` of the target: a simulation sees no
//     other code.
// T2  What the driver does for itself between operations is no part of the benchmark: native runs
//     stop the clock for it (rounds.h), a simulation does not model it (`Unmeasured`).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/result.h"
#include "driver/clock.h"
#include "driver/config.h"
#include "driver/progress.h"
#include "driver/result.h"
#include "driver/rounds.h"

namespace perdure::driver {

/// How much of the machine's work is modelled. A native run ignores it.
enum class Accounting : std::uint8_t {
  off,   ///< nothing: loading a hundred million records
  tags,  ///< which lines lie in the caches, and no time
  on,
};

class Target {
 public:
  using Job = std::function<void(unsigned thread)>;

  /// True in perdure-sim.
  static const bool simulates;
  /// A thread's prepared operations are this many times fewer than a native run's.
  static const std::size_t smaller_blocks;

  /// Errors: those of Simulation::start.
  [[nodiscard]] static Result<std::unique_ptr<Target>> start(const BenchConfig& config);
  virtual ~Target() = default;
  Target(const Target&) = delete;
  Target& operator=(const Target&) = delete;

  /// A pool was mapped, or is about to be unmapped.
  virtual void add_pool(const Pool& pool) = 0;
  virtual void remove_pool(const Pool& pool) = 0;

  /// Runs job(t) on every thread t and waits.
  virtual void run(Accounting accounting, const Job& job) = 0;
  /// Runs `step` on one thread (native: the calling one) and waits.
  virtual void run_alone(Accounting accounting, const std::function<void()>& step) = 0;
  /// Runs job(t), which runs `rounds`, on every thread; stops it at its time limit or when a signal
  /// came. Returns samples of the progress.
  [[nodiscard]] virtual std::vector<TimelinePoint> run_phase(Accounting accounting, Rounds& rounds,
                                                             const WatchedPhase& phase,
                                                             Progress& progress,
                                                             const Job& job) = 0;
  /// How the rounds of a phase are to be filled.
  [[nodiscard]] virtual Filling filling() const noexcept = 0;
  /// What the machine did in the last run with Accounting::on. Empty for native runs.
  [[nodiscard]] virtual std::optional<SimulatedPhase> last_run() const = 0;
  /// The completeness guard and the model's conservation laws. Errors: failed.
  [[nodiscard]] virtual Result<void> check() const = 0;
  /// Writes the profile and the host's times that the configuration asks for. Errors: io.
  [[nodiscard]] virtual Result<void> write_profile() = 0;
  /// False when the system refused to pin a thread.
  [[nodiscard]] virtual bool pinned() const noexcept = 0;

 protected:
  Target() = default;
};

/// While one lives, what its thread does takes no simulated time. A native run ignores it.
class Unmeasured {
 public:
  Unmeasured() noexcept;
  ~Unmeasured();
  Unmeasured(const Unmeasured&) = delete;
  Unmeasured& operator=(const Unmeasured&) = delete;

 private:
  int before_ = 0;
};

/// One turn of waiting for the start of an operation: spins or yields, or lets virtual time pass.
void wait_a_turn(const Clock& clock, Ticks now, Ticks until) noexcept;

}  // namespace perdure::driver
