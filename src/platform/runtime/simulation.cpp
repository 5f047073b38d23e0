#include "platform/runtime/simulation.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "platform/runtime/arena.h"
#include "platform/runtime/engine.h"
#include "pm/thread.h"
#include "pm/transaction.h"

namespace perdure::platform {

using runtime::current;
using runtime::engine;

namespace {

std::unique_ptr<Simulation> instance;
std::unique_ptr<Machine> machine;

Error usage(std::string what, std::string where, std::string remedy) {
  return {ErrorCode::usage, std::move(what), std::move(where), std::move(remedy)};
}

Result<void> check_options(const SimulationOptions& options) {
  const unsigned cpus = options.platform.cpus();
  if (options.threads == 0 || options.threads > std::min(cpus, pm::max_workers))
    return usage(std::to_string(options.threads) + " threads on a platform of " +
                     std::to_string(cpus) + " hardware threads",
                 "--threads", "give 1 to " + std::to_string(std::min(cpus, pm::max_workers)));
  if (!options.cpus.empty() && options.cpus.size() < options.threads)
    return usage(std::to_string(options.cpus.size()) + " cpus for " +
                     std::to_string(options.threads) + " threads",
                 "--cpus", "give one for each thread");
  for (const unsigned cpu : options.cpus)
    if (cpu >= cpus)
      return usage("the platform has no cpu " + std::to_string(cpu), "--cpus",
                   "give numbers below " + std::to_string(cpus));
  const unsigned nodes = options.platform.cpu.sockets;
  if (options.dram_node >= nodes || options.pool_node >= nodes)
    return usage("the platform has no such node", "--pool-node",
                 "give a number below " + std::to_string(nodes));
  return {};
}

/// A cpu that no thread has, for one in the background: an idle core of a socket where others run,
/// a second hardware thread there, or any.
std::optional<unsigned> free_cpu(const CoreParameters& cpu, std::span<const unsigned> taken) {
  const unsigned cores = cpu.sockets * cpu.cores_per_socket;
  const auto is_busy = [&](unsigned socket) {
    return std::ranges::any_of(
        taken, [&](unsigned other) { return other % cores / cpu.cores_per_socket == socket; });
  };
  for (const bool near : {true, false})
    for (unsigned number = 0; number < cores * cpu.threads_per_core; ++number)
      if (std::ranges::find(taken, number) == taken.end() &&
          is_busy(number % cores / cpu.cores_per_socket) == near)
        return number;
  return std::nullopt;
}

}  // namespace

Result<Simulation*> Simulation::start(SimulationOptions options) {
  if (instance != nullptr)
    return usage("a simulation has been started already", "simulation", "start one per process");
  if (const auto valid = check_options(options); !valid) return valid.error();
  std::vector<unsigned> cpus = options.cpus;
  for (auto cpu = static_cast<unsigned>(cpus.size()); cpu < options.threads; ++cpu)
    cpus.push_back(cpu);
  unsigned background = 0;
  const unsigned most = std::min(options.background_threads, pm::max_workers - options.threads);
  for (; background < most; ++background) {
    if (options.threads + background < cpus.size()) continue;
    const auto cpu = free_cpu(options.platform.cpu, cpus);
    if (!cpu) break;
    cpus.push_back(*cpu);
  }
  runtime::use_arena_on_this_thread(true);
  machine = std::make_unique<Machine>(options.platform, cpus, options.ablation);
  instance = std::make_unique<Simulation>();
  engine.machine = machine.get();
  engine.space.start(
      machine.get(), {MemoryKind::dram, options.dram_node},
      {options.platform.pm.present ? MemoryKind::pm : MemoryKind::dram, options.pool_node});
  engine.scheduler.start(options.threads, background,
                         options.carrier == Carrier::fibers ? runtime::CarrierKind::fibers
                                                            : runtime::CarrierKind::threads);
  engine.background.start(background);
  for (const auto& thread : engine.scheduler.threads())
    thread->shares_caches = machine->shares_caches(thread->number);
  engine.transactions.start(options.threads + background, options.platform.cpu.l1,
                            options.platform.cpu.l2);
  engine.has_transactions = options.platform.cpu.hardware_transactions;
  engine.profiled = options.profile;
  engine.guarded = options.guard;
  engine.store_sizes = {};
  for (const auto& region : engine.space.regions()) engine.store_sizes.watch(region);
  engine.timed = true;
  if (options.guard)
    for (const auto& region : engine.space.regions())
      if (region.pool) engine.guard.add(region);
  // Asked for earlier, it could not be granted before the platform was known.
  pm::configure_transactions(pm::transaction_use());
  return instance.get();
}

Simulation* Simulation::current() noexcept { return instance.get(); }

void Simulation::add_pool(const void* base, std::uint64_t bytes, MemoryKind kind) {
  runtime::add_region({.base = static_cast<const std::byte*>(base),
                       .bytes = bytes,
                       .first_page = 0,
                       .home = {kind, runtime::AddressSpace::any_node},
                       .pool = true,
                       .foreign_writes = false});
}

void Simulation::add_region(const void* base, std::uint64_t bytes, MemoryKind kind, unsigned node) {
  const bool pool = kind == MemoryKind::pm;
  runtime::add_region({.base = static_cast<const std::byte*>(base),
                       .bytes = bytes,
                       .first_page = 0,
                       .home = {kind, pool ? runtime::AddressSpace::any_node : node},
                       .pool = pool,
                       .foreign_writes = false});
}

void Simulation::remove_pool(const void* base) { runtime::remove_region(base); }

// One way with and without a profile: another frame on the stack would move what lies above it.
void Simulation::run(const std::function<void(unsigned thread)>& job) {
  engine.scheduler.run([&job](unsigned thread) {
    if (thread >= engine.scheduler.foreground()) return engine.background.run(*runtime::current);
    if (engine.profiled) engine.profile.begin(*runtime::current);
    job(thread);
    if (engine.profiled) engine.profile.end(*runtime::current);
  });
}

void Simulation::set_model(Model model) noexcept {
  engine.machine->finish_touches();
  engine.timed = model == Model::on;
  engine.tags = model == Model::tags_only;
  engine.choose_hooks();
  engine.scheduler.reorder();
}

Time Simulation::now() const noexcept {
  if (runtime::current != nullptr) return runtime::current->clock;
  Time latest = 0;
  for (const auto& thread : engine.scheduler.threads()) latest = std::max(latest, thread->clock);
  return latest;
}

void Simulation::at(Time at, std::function<void()> event) {
  engine.scheduler.at(at, std::move(event));
}

void Simulation::outside(const std::function<void()>& work) {
  runtime::SimulatedThread* const thread = std::exchange(runtime::current, nullptr);
  const bool arena = runtime::use_arena_on_this_thread(false);
  work();
  runtime::use_arena_on_this_thread(arena);
  runtime::current = thread;
}

void Simulation::wait_until(Time time) {
  runtime::SimulatedThread* const thread = runtime::current;
  if (thread == nullptr || !engine.timed) return;
  engine.transactions.forbid(*thread, AbortCause::other);
  engine.machine->wait_until(thread->number, time);
  engine.read_clock(*thread);
  engine.order(*thread);
}

void Simulation::compute(Time duration) {
  runtime::SimulatedThread* const thread = runtime::current;
  if (thread == nullptr || !engine.timed) return;
  engine.machine->compute(thread->number, duration);
  engine.read_clock(*thread);
}

Counters Simulation::counters() const {
  Counters counters = engine.machine->counters();
  counters.stored = engine.store_sizes.stored();
  return counters;
}

TimeSplit Simulation::time_split() const {
  TimeSplit sum;
  for (unsigned thread = 0; thread < engine.scheduler.foreground(); ++thread) {
    const TimeSplit split = engine.machine->time_split(thread);
    sum.compute += split.compute;
    sum.l1 += split.l1;
    sum.l2 += split.l2;
    sum.llc += split.llc;
    sum.memory_queueing += split.memory_queueing;
    sum.media += split.media;
    sum.flush_fence += split.flush_fence;
    sum.lock_wait += split.lock_wait;
    sum.aborted_transactions += split.aborted_transactions;
  }
  sum.lock_wait -= engine.scheduler.background_time() * engine.scheduler.foreground();
  return sum;
}

Time Simulation::end_of_jobs() const noexcept { return engine.scheduler.foreground_end(); }

std::uint64_t Simulation::hooked_accesses() const noexcept {
  std::uint64_t sum = 0;
  for (const auto& thread : engine.scheduler.threads()) sum += thread->accesses;
  return sum;
}

Result<void> Simulation::check() const {
  if (engine.guarded)
    if (const std::string difference = engine.guard.check(); !difference.empty())
      return Error{ErrorCode::failed, difference, "completeness guard",
                   "announce the store through the pm:: facade"};
  return engine.machine->check_conservation();
}

std::string Simulation::folded_stacks() const { return engine.profile.folded(); }

}  // namespace perdure::platform
