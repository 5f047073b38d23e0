// The native half of target.h: this machine.
#include <optional>
#include <thread>
#include <utility>

#include "driver/numa.h"
#include "driver/target.h"
#include "driver/topology.h"
#include "driver/watch.h"
#include "driver/worker_team.h"
#include "pm/hints.h"

namespace perdure::driver {
namespace {

class NativeTarget final : public Target {
 public:
  /// `cpus`: those of the threads; empty: any. `apart`: no memory may lie on their node.
  NativeTarget(const BenchConfig& config, const std::vector<unsigned>& cpus,
               std::optional<NodesApart> apart)
      : clock_(Clock::get()),
        apart_(std::move(apart)),
        team_(config.threads,
              config.plugin.empty() ? WorkerTeam::Carrier::threads : WorkerTeam::Carrier::openmp,
              cpus) {}

  void add_pool(const Pool& pool) override {
    if (!apart_ || node_of_page(pool.base()) != apart_->threads.number) return;
    misplaced_ = Error{ErrorCode::unsupported, "lies on the node that the threads run on",
                       pool.path(), "give a --pool on node " + std::to_string(apart_->memory)};
  }
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
  Result<void> check() const override { return misplaced_; }
  Result<void> write_profile() override { return {}; }
  bool pinned() const noexcept override { return team_.pinned(); }

 private:
  const Clock& clock_;
  const std::optional<NodesApart> apart_;
  Result<void> misplaced_;
  WorkerTeam team_;
};

}  // namespace

const bool Target::simulates = false;
const std::size_t Target::smaller_blocks = 1;

Result<std::unique_ptr<Target>> Target::start(const BenchConfig& config) {
  std::vector<unsigned> cpus = config.pin ? pinning_order(usable_cores()) : std::vector<unsigned>{};
  std::optional<NodesApart> apart;
  if (config.parallel == Parallel::numa) {
    apart = nodes_apart();
    if (!apart || !take_memory_from(apart->memory))  // before a thread is there that would inherit
      return Error{ErrorCode::unsupported, "the system places no memory", "--parallel numa",
                   "run it where set_mempolicy is allowed, or give --target sim:PLATFORM"};
    cpus = apart->threads.cpus;
  }
  return std::unique_ptr<Target>(std::make_unique<NativeTarget>(config, cpus, std::move(apart)));
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
