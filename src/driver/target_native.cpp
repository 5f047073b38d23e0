// The native half of target.h: this machine.
#include <thread>

#include "driver/target.h"
#include "driver/topology.h"
#include "driver/watch.h"
#include "driver/worker_team.h"
#include "pm/hints.h"

namespace perdure::driver {
namespace {

class NativeTarget final : public Target {
 public:
  explicit NativeTarget(const BenchConfig& config)
      : clock_(Clock::get()),
        team_(config.threads,
              config.plugin.empty() ? WorkerTeam::Carrier::threads : WorkerTeam::Carrier::openmp,
              config.pin ? pinning_order(usable_cores()) : std::vector<unsigned>{}) {}

  void add_pool(const Pool&) override {}
  void remove_pool(const Pool&) override {}
  void run(Accounting, const Job& job) override { team_.run(job); }
  // An index that is opened here may start threads of its own: they count as the workers do.
  void run_alone(Accounting, const std::function<void()>& step) override {
    const Confined confined(team_.cpus());
    step();
  }
  std::vector<TimelinePoint> run_phase(Accounting, Rounds& rounds, const WatchedPhase& phase,
                                       Progress& progress, const Job& job) override {
    team_.start(job);
    return watch(team_, rounds, clock_, phase, progress);
  }
  Filling filling() const noexcept override { return Filling::together; }
  std::optional<SimulatedPhase> last_run() const override { return std::nullopt; }
  Result<void> check() const override { return {}; }
  Result<void> write_profile() const override { return {}; }
  bool pinned() const noexcept override { return team_.pinned(); }

 private:
  const Clock& clock_;
  WorkerTeam team_;
};

}  // namespace

const bool Target::simulates = false;
const std::size_t Target::smaller_blocks = 1;

Result<std::unique_ptr<Target>> Target::start(const BenchConfig& config) {
  return std::unique_ptr<Target>(std::make_unique<NativeTarget>(config));
}

Unmeasured::Unmeasured() noexcept = default;
Unmeasured::~Unmeasured() { static_cast<void>(before_); }

void wait_a_turn(const Clock& clock, Ticks now, Ticks until) noexcept {
  constexpr double long_wait_seconds = 50e-6;
  if (clock.to_seconds(until - now) > long_wait_seconds)
    std::this_thread::yield();
  else
    pm::pause();
}

Clock Clock::of_target() { return Clock(has_invariant_counter()); }

}  // namespace perdure::driver
