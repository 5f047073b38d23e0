// The simulated half of target.h: a modelled machine, whose threads and clock are virtual.
//
// Everything here is a function of the configuration: host time decides only what the progress line
// shows and when.
#include <time.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "core/output_file.h"
#include "driver/interrupt.h"
#include "driver/progress.h"
#include "driver/target.h"
#include "platform/runtime/simulation.h"

namespace perdure::driver {
namespace {

using platform::Simulation;

constexpr Ticks ticks_per_second = 1'000'000'000'000;  // platform::Time counts picoseconds
constexpr double sample_seconds = 0.001;
constexpr double most_samples = 1000;

Simulation::Model model_for(Accounting accounting) noexcept {
  switch (accounting) {
    case Accounting::off:
      return Simulation::Model::off;
    case Accounting::tags:
      return Simulation::Model::tags_only;
    case Accounting::on:
      break;
  }
  return Simulation::Model::on;
}

// The model that the running simulation is set to, for `Unmeasured`.
Simulation::Model current_model = Simulation::Model::off;

void set_model(Simulation::Model model) noexcept {
  current_model = model;
  Simulation::current()->set_model(model);
}

/// The progress of one phase as a person sees it, by host time.
class HostProgress {
 public:
  HostProgress(const WatchedPhase& phase, Rounds& rounds, Progress& progress)
      : phase_(phase), rounds_(rounds), progress_(progress), shown_ns_(Clock::monotonic_ns()) {}

  /// Checks whether a signal came; shows progress every 0.1 s. `second`: virtual, of the phase.
  void look(double second) {
    Simulation::outside([this, second] { look_outside(second); });
  }

 private:
  void look_outside(double second) {
    constexpr std::uint64_t interval_ns = 100'000'000;
    if (interrupted()) rounds_.stop();
    const std::uint64_t now_ns = Clock::monotonic_ns();
    if (now_ns - shown_ns_ < interval_ns) return;
    const std::uint64_t operations = rounds_.operations();
    const double share = phase_.seconds > 0      ? second / phase_.seconds
                         : phase_.operations > 0 ? static_cast<double>(operations) /
                                                       static_cast<double>(phase_.operations)
                                                 : -1;
    progress_.show(phase_.name + " (simulated)", std::min(share, 1.0),
                   static_cast<double>(operations - operations_) /
                       (static_cast<double>(now_ns - shown_ns_) * 1e-9));
    shown_ns_ = now_ns;
    operations_ = operations;
  }

  const WatchedPhase& phase_;
  Rounds& rounds_;
  Progress& progress_;
  std::uint64_t shown_ns_;
  std::uint64_t operations_ = 0;
};

/// What happens at moments of virtual time while a phase runs: samples, and its end.
class Moments : public std::enable_shared_from_this<Moments> {
 public:
  Moments(Simulation& simulation, Rounds& rounds, HostProgress& host, const WatchedPhase& phase)
      : simulation_(simulation), rounds_(rounds), host_(host), start_(simulation.now()) {
    if (phase.seconds > 0)
      step_ = std::max(step_, static_cast<Ticks>(phase.seconds / most_samples *
                                                 static_cast<double>(ticks_per_second)));
  }

  void begin(double seconds) {
    if (seconds > 0)
      at(start_ + static_cast<Ticks>(seconds * static_cast<double>(ticks_per_second)),
         [this] { rounds_.stop(); });
    sample_later(start_ + step_);
  }

  /// Events that are still to come do nothing. The run may have gone on for what it left to
  /// threads in the background.
  std::vector<TimelinePoint> end() {
    over_ = true;
    const double end = second(start_ + rounds_.active());
    std::uint64_t left = rounds_.operations() - operations_;
    for (; !timeline_.empty() && timeline_.back().second > end; timeline_.pop_back())
      left += timeline_.back().operations;
    if (left != 0) timeline_.push_back({end, left});
    return std::move(timeline_);
  }

 private:
  void at(Ticks time, std::function<void()> event) {
    simulation_.at(time, [self = shared_from_this(), event = std::move(event)] {
      if (!self->over_) event();
    });
  }
  void sample_later(Ticks time) {
    at(time, [this, time] {
      const std::uint64_t operations = rounds_.operations();
      timeline_.push_back({second(time), operations - operations_});
      operations_ = operations;
      host_.look(second(time));
      sample_later(time + step_);
    });
  }
  [[nodiscard]] double second(Ticks time) const noexcept {
    return static_cast<double>(time - start_) / static_cast<double>(ticks_per_second);
  }

  Simulation& simulation_;
  Rounds& rounds_;
  HostProgress& host_;
  const Ticks start_;
  Ticks step_ = static_cast<Ticks>(sample_seconds * static_cast<double>(driver::ticks_per_second));
  bool over_ = false;
  std::uint64_t operations_ = 0;
  std::vector<TimelinePoint> timeline_;
};

platform::TimeSplit difference(const platform::TimeSplit& after,
                               const platform::TimeSplit& before) noexcept {
  platform::TimeSplit split;
  split.compute = after.compute - before.compute;
  split.l1 = after.l1 - before.l1;
  split.l2 = after.l2 - before.l2;
  split.llc = after.llc - before.llc;
  split.memory_queueing = after.memory_queueing - before.memory_queueing;
  split.media = after.media - before.media;
  split.flush_fence = after.flush_fence - before.flush_fence;
  split.lock_wait = after.lock_wait - before.lock_wait;
  split.aborted_transactions = after.aborted_transactions - before.aborted_transactions;
  return split;
}

/// What a phase cost the machine that simulates.
struct HostTime {
  std::string phase;
  Accounting accounting;
  double seconds;
  double cpu_seconds;
  std::uint64_t operations;
  std::uint64_t accesses;  ///< that the machine saw
};

double host_seconds(clockid_t clock) noexcept {
  timespec at{};
  clock_gettime(clock, &at);
  return static_cast<double>(at.tv_sec) + static_cast<double>(at.tv_nsec) * 1e-9;
}

const char* name_of(Accounting accounting) noexcept {
  switch (accounting) {
    case Accounting::off:
      return "off";
    case Accounting::tags:
      return "tags";
    case Accounting::on:
      break;
  }
  return "on";
}

/// A text that goes into a file of its own, if one was named.
class TextFile {
 public:
  [[nodiscard]] Result<void> open(const std::string& path) {
    if (path.empty()) return {};
    auto file = OutputFile::open(path);
    if (!file) return file.error();
    file_.emplace(std::move(file).value());
    return {};
  }
  [[nodiscard]] Result<void> write(const std::string& text) {
    if (!file_) return {};
    const Result<void> written = file_->write(text);
    return written ? file_->publish() : written;
  }

 private:
  std::optional<OutputFile> file_;
};

struct OutputFiles {
  TextFile profile;
  TextFile host_times;
};

class SimulatedTarget final : public Target {
 public:
  SimulatedTarget(Simulation& simulation, const SimulatedMachine& machine, OutputFiles files)
      : simulation_(simulation), machine_(machine), files_(std::move(files)) {
    set_model(Simulation::Model::off);
  }

  void add_pool(const Pool& pool) override {
    const auto kind =
        pool.heap_kind() == HeapKind::dram ? platform::MemoryKind::dram : platform::MemoryKind::pm;
    for (unsigned n = pool.parts(); n-- > 0;)  // the first part last: pointers count from there
      simulation_.add_pool(pool.part(n).data(), pool.part(n).size(), kind);
  }
  void remove_pool(const Pool& pool) override {
    for (unsigned n = 0; n < pool.parts(); ++n) simulation_.remove_pool(pool.part(n).data());
  }

  void run(Accounting accounting, const Job& job) override {
    set_model(model_for(accounting));
    if (accounting == Accounting::on) {
      const platform::Counters counters = simulation_.counters();
      const platform::TimeSplit time = simulation_.time_split();
      simulation_.run(job);
      last_run_ = {simulation_.counters().since(counters),
                   difference(simulation_.time_split(), time)};
    } else {
      simulation_.run(job);
    }
    set_model(Simulation::Model::off);
  }

  void run_alone(Accounting accounting, const std::function<void()>& step) override {
    run(accounting, [&](unsigned thread) {
      if (thread == 0) step();
    });
  }

  std::vector<TimelinePoint> run_phase(Accounting accounting, Rounds& rounds,
                                       const WatchedPhase& phase, Progress& progress,
                                       const Job& job) override {
    HostProgress host(phase, rounds, progress);
    const auto moments = std::make_shared<Moments>(simulation_, rounds, host, phase);
    if (accounting == Accounting::on) moments->begin(phase.seconds);
    rounds.begin_alone([&host, &rounds] { host.look(Clock::get().to_seconds(rounds.active())); });
    const double started = host_seconds(CLOCK_MONOTONIC);
    const double cpu_started = host_seconds(CLOCK_PROCESS_CPUTIME_ID);
    const std::uint64_t accesses = simulation_.hooked_accesses();
    run(accounting, job);
    rounds.end_alone(simulation_.end_of_jobs());
    Simulation::outside([&] {
      host_times_.push_back({phase.name, accounting, host_seconds(CLOCK_MONOTONIC) - started,
                             host_seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu_started,
                             rounds.operations(), simulation_.hooked_accesses() - accesses});
    });
    return moments->end();
  }

  Filling filling() const noexcept override { return Filling::alone; }
  std::optional<SimulatedPhase> last_run() const override { return last_run_; }
  Result<void> check() const override { return simulation_.check(); }

  Result<void> write_profile() override {
    if (!machine_.profile_path.empty())
      if (auto written = files_.profile.write(simulation_.folded_stacks()); !written)
        return written;
    return files_.host_times.write(host_times());
  }

  bool pinned() const noexcept override { return true; }

 private:
  [[nodiscard]] std::string host_times() const {
    nlohmann::ordered_json phases = nlohmann::ordered_json::array();
    for (const HostTime& time : host_times_)
      phases.push_back({{"phase", time.phase},
                        {"model", name_of(time.accounting)},
                        {"seconds", time.seconds},
                        {"cpu_seconds", time.cpu_seconds},
                        {"operations", time.operations},
                        {"accesses", time.accesses}});
    return phases.dump(2) + "\n";
  }

  Simulation& simulation_;
  const SimulatedMachine& machine_;
  SimulatedPhase last_run_;
  std::vector<HostTime> host_times_;
  OutputFiles files_;
};

}  // namespace

const bool Target::simulates = true;
const std::size_t Target::smaller_blocks = 32;

Result<std::unique_ptr<Target>> Target::start(const BenchConfig& config) {
  const SimulatedMachine& machine = *config.simulated;
  platform::SimulationOptions options;
  options.platform = machine.platform;
  options.ablation = machine.ablation;
  options.threads = config.threads;
  options.background_threads = config.background_threads();
  options.cpus = machine.cpus;
  options.pool_node = machine.pool_node;
  options.dram_node = machine.dram_node;
  options.carrier = machine.carrier;
  options.guard = machine.guard;
  options.profile = !machine.profile_path.empty();
  // Before the work, so that a wrong path fails at once; and before the simulation, which would see
  // what it allocates after them at other addresses.
  OutputFiles files;
  auto opened = files.profile.open(machine.profile_path);
  if (opened) opened = files.host_times.open(machine.host_times_path);
  if (!opened) return opened.error();
  auto simulation = Simulation::start(std::move(options));
  if (!simulation) return simulation.error();
  return std::unique_ptr<Target>(
      std::make_unique<SimulatedTarget>(**simulation, machine, std::move(files)));
}

Unmeasured::Unmeasured() noexcept : before_(static_cast<int>(current_model)) {
  if (current_model != Simulation::Model::off) set_model(Simulation::Model::off);
}

Unmeasured::~Unmeasured() {
  const auto before = static_cast<Simulation::Model>(before_);
  if (before != current_model) set_model(before);
}

void wait_a_turn(const Clock&, Ticks now, Ticks until) noexcept {
  // In short steps: a phase may be stopped meanwhile, and must not end long after its limit.
  constexpr Ticks longest = 10 * platform::us;
  Simulation::current()->wait_until(std::min(until, now + longest));
}

Clock Clock::of_target() {
  return Clock([] { return Ticks{Simulation::current()->now()}; },
               static_cast<double>(driver::ticks_per_second));
}

}  // namespace perdure::driver
