#include "cli/simulated_flags.h"

#include <array>
#include <cstring>
#include <fstream>
#include <utility>

#include "cli/flags.h"
#include "cli/format.h"
#include "core/assert.h"
#include "core/units.h"
#include "driver/target.h"
#include "platform/description/description.h"
#include "platform/description/placement.h"

namespace perdure::cli {
namespace {

using driver::BenchConfig;
using driver::SimulatedMachine;
using driver::Target;

// The flags that say something about a simulated machine only; the first that was given.
const char* flag_of_simulation(const BenchFlags& flags) {
  if (flags.cpus) return "--cpus";
  if (flags.pool_node) return "--pool-node";
  if (flags.dram_node) return "--dram-node";
  if (flags.warm) return *flags.warm ? "--warm" : "--no-warm";
  if (flags.carrier) return "--carrier";
  if (!flags.ablate.empty()) return "--ablate";
  if (flags.guard) return *flags.guard ? "--guard" : "--no-guard";
  if (flags.host_times) return "--host-times";
  return nullptr;
}

Result<void> check_native(const BenchFlags& flags) {
  if (flags.target && flags.target->starts_with("sim"))
    return Error{ErrorCode::unsupported, "this program has no simulator",
                 "--target " + *flags.target, "run perdure-sim, or `./perdure bench`"};
  if (flags.target && *flags.target != "native") {
    const std::array<std::string, 1> targets = {"native"};
    return not_one_of(*flags.target, "--target", targets);
  }
  if (const char* const flag = flag_of_simulation(flags))
    return usage("is for simulated runs", flag, "add --target sim:PLATFORM, or leave it out");
  if (flags.flamegraph)
    return Error{ErrorCode::unsupported, "this program draws none", "--flamegraph",
                 "`./perdure bench --flamegraph out.svg` runs it under perf"};
  return {};
}

Result<platform::PlatformDescription> find_platform(const BenchFlags& flags) {
  constexpr std::string_view prefix = "sim:";
  const std::string all = "give --target sim:PLATFORM; `perdure list platforms` shows them";
  if (!flags.target) return usage("a platform is missing", "--target", all);
  if (*flags.target == "native")
    return Error{ErrorCode::unsupported, "this program only simulates", "--target native",
                 "run perdure-native, or `./perdure bench`"};
  if (!flags.target->starts_with(prefix) || flags.target->size() == prefix.size())
    return usage("'" + *flags.target + "' is no target", "--target", all);
  auto description = platform::load_platform(flags.target->substr(prefix.size()));
  if (description || description.error().code != ErrorCode::not_found) return description;
  Error error = description.error();
  error.where = "--target " + *flags.target;
  return error;
}

Result<unsigned> node(const BenchFlags::Text& text, const char* flag, unsigned fallback,
                      unsigned nodes, const std::string& platform) {
  if (!text) return fallback;
  const auto number = parse_count(*text, flag);
  if (!number) return number.error();
  if (*number < nodes) return static_cast<unsigned>(*number);
  return usage("there is no such node with memory of this kind", std::string(flag) + " " + *text,
               platform + (nodes == 1 ? " has node 0 only" : " has nodes 0 and 1"));
}

// A pool of libpmemobj, which keeps state per thread of the system.
bool is_pmdk_pool(const BenchConfig& config) {
  if (!config.uses_pool()) return false;
  if (!config.reuse) return config.heap == HeapKind::pmdk;
  constexpr std::string_view magic = "PMEMOBJ";
  std::array<char, 8> head{};
  std::ifstream(Pool::part_path(config.pool_path, 0), std::ios::binary)
      .read(head.data(), head.size());
  return std::string_view(head.data(), magic.size()) == magic;
}

Result<void> resolve_carrier(const BenchFlags& flags, BenchConfig& config) {
  using platform::Carrier;
  const bool pmdk = is_pmdk_pool(config);
  config.simulated->carrier = pmdk ? Carrier::threads : Carrier::fibers;
  if (!flags.carrier) return {};
  if (*flags.carrier == "threads") {
    config.simulated->carrier = Carrier::threads;
  } else if (*flags.carrier == "fibers") {
    if (pmdk)
      return usage("libpmemobj keeps state per thread of the system", "--carrier fibers",
                   "leave it out: heap pmdk takes threads by itself");
    config.simulated->carrier = Carrier::fibers;
  } else {
    const std::array<std::string, 2> carriers = {"fibers", "threads"};
    return not_one_of(*flags.carrier, "--carrier", carriers);
  }
  return {};
}

// Threads on node 1, all memory on node 0.
Result<void> check_apart(const BenchFlags& flags, const platform::Platform& platform) {
  for (const auto& [given, flag] :
       {std::pair{flags.cpus, "--cpus"}, std::pair{flags.pool_node, "--pool-node"},
        std::pair{flags.dram_node, "--dram-node"}})
    if (given)
      return usage("says where threads and memory are beside --parallel numa", flag,
                   "give one of the two");
  if (platform.cpu.sockets < 2)
    return usage(platform.name + " has one node", "--parallel numa", "take another platform");
  return {};
}

}  // namespace

Result<std::optional<SimulatedMachine>> resolve_simulated_machine(const BenchFlags& flags) {
  if (!Target::simulates) {
    if (auto checked = check_native(flags); !checked) return checked.error();
    return std::optional<SimulatedMachine>();
  }
  auto description = find_platform(flags);
  if (!description) return description.error();
  SimulatedMachine machine;
  machine.platform = description->platform;
  machine.fingerprint = platform::fingerprint_of(machine.platform);
  machine.cpus = platform::default_cpus(machine.platform);
  const bool apart = flags.parallel == "numa";
  if (apart)
    if (auto placed = check_apart(flags, machine.platform); !placed) return placed.error();
  if (flags.cpus || apart) {
    auto cpus = platform::parse_cpus(apart ? "node1" : *flags.cpus, machine.platform);
    if (!cpus) return cpus.error();
    machine.cpus = std::move(cpus).value();
  }
  const unsigned sockets = machine.platform.cpu.sockets;
  const unsigned with_pool =
      machine.platform.pm.present ? machine.platform.pm.sockets_with_dimms : sockets;
  const auto pool = node(flags.pool_node, "--pool-node", 0, with_pool, machine.platform.name);
  if (!pool) return pool.error();
  machine.pool_node = *pool;
  // As the kernel places it: where the threads run that touch it first.
  const unsigned first_touch =
      apart ? 0 : platform::node_of(machine.platform, machine.cpus.front());
  const auto dram =
      node(flags.dram_node, "--dram-node", first_touch, sockets, machine.platform.name);
  if (!dram) return dram.error();
  machine.dram_node = *dram;
  const auto ablation = platform::parse_ablations(flags.ablate);
  if (!ablation) return ablation.error();
  machine.ablation = *ablation;
  machine.warm = flags.warm.value_or(true);
  machine.guard = flags.guard.value_or(checked_build);
  machine.host_times_path = flags.host_times.value_or("");
  machine.profile_path = flags.flamegraph.value_or("");
  if (flags.flamegraph && !flags.flamegraph->ends_with(".folded"))
    return usage("writes folded stacks, and no picture", "--flamegraph " + *flags.flamegraph,
                 "name a file that ends in .folded; `./perdure bench` draws .svg");
  return std::optional(std::move(machine));
}

Result<void> complete_simulated(const BenchFlags& flags, BenchConfig& config) {
  if (!config.simulated) return {};
  const std::string& platform = config.simulated->platform.name;
  if (!config.plugin.empty())
    return Error{ErrorCode::unsupported, "a wrapper is compiled without the simulator's hooks",
                 "--plugin " + config.plugin, "give --target native"};
  // memkind's allocator has no hooks, and nothing that it writes is there for a recovery.
  if (config.uses_pool() && config.heap == HeapKind::memkind) {
    if (flags.guard.value_or(false))
      return usage("memkind keeps its own books in the pool, unseen", "--guard", "leave it out");
    config.simulated->guard = false;
  }
  if (!config.pin)
    return usage("a simulated thread runs where --cpus says", "--no-pin", "leave it out");
  if (config.threads > config.simulated->cpus.size())
    return usage("the threads outnumber the CPUs", "--threads " + std::to_string(config.threads),
                 (flags.cpus ? "--cpus " + *flags.cpus + " names " : platform + " has ") +
                     std::to_string(config.simulated->cpus.size()) + ": give that many or fewer");
  config.simulated->cpus.resize(config.threads);
  if (flags.pool_node && config.options.node_pools() != 0)
    return usage("there is a pool on every node", "--pool-node " + *flags.pool_node,
                 "leave it out, or give --option node_pools=0");
  if (config.uses_pool() && config.heap != HeapKind::dram && config.pool_path.empty() &&
      !config.reuse)
    config.scratch_pool = true;
  return resolve_carrier(flags, config);
}

}  // namespace perdure::cli
