// The target: this machine, or a simulated one with its CPUs, nodes and ablations.
#include <array>
#include <fstream>
#include <utility>

#include "cli/bench_steps.h"
#include "driver/target.h"
#include "platform/description/description.h"
#include "platform/description/placement.h"

namespace perdure::cli {
namespace {

using driver::BenchConfig;
using driver::SimulatedMachine;
using driver::Target;

Result<void> check_native(const BenchFlags& flags) {
  if (flags.target && flags.target->starts_with("sim"))
    return Error{ErrorCode::unsupported, "this program has no simulator",
                 "--target " + *flags.target, "run perdure-sim, or `./perdure bench`"};
  if (flags.target && *flags.target != "native") {
    const std::array<std::string, 1> targets = {"native"};
    return not_one_of(*flags.target, "--target", targets);
  }
  if (flags.table.given("--flamegraph"))
    return Error{ErrorCode::unsupported, "this program draws none", "--flamegraph",
                 "`./perdure bench --flamegraph out.svg` runs it under perf"};
  if (const auto flag = flags.table.first_given("Simulated runs"))
    return usage("is for simulated runs", *flag, "add --target sim:PLATFORM, or leave it out");
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

Result<void> check_node(const FlagTable& table, const char* flag, unsigned node, unsigned nodes,
                        const std::string& platform) {
  if (node < nodes) return {};
  return usage("there is no such node with memory of this kind", table.written(flag),
               platform + (nodes == 1 ? " has node 0 only" : " has nodes 0 and 1"));
}

pm::Durability durability_of(platform::PersistenceDomain domain) noexcept {
  switch (domain) {
    case platform::PersistenceDomain::adr:
      return pm::Durability::adr;
    case platform::PersistenceDomain::eadr:
      return pm::Durability::eadr;
    case platform::PersistenceDomain::none:
      break;
  }
  return pm::Durability::none;
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

Result<void> resolve_carrier(BenchFlags& flags) {
  using platform::Carrier;
  const bool pmdk = is_pmdk_pool(flags.config);
  Carrier& carrier = flags.config.simulated->carrier;
  if (!flags.table.given("--carrier")) carrier = pmdk ? Carrier::threads : Carrier::fibers;
  if (pmdk && carrier == Carrier::fibers)
    return usage("libpmemobj keeps state per thread of the system", "--carrier fibers",
                 "leave it out: heap pmdk takes threads by itself");
  return {};
}

// Threads on node 1, all memory on node 0.
Result<void> check_apart(const BenchFlags& flags) {
  const platform::Platform& platform = flags.machine.platform;
  for (const char* const flag : {"--cpus", "--pool-node", "--dram-node"})
    if (flags.table.given(flag))
      return usage("says where threads and memory are beside --parallel numa", flag,
                   "give one of the two");
  if (platform.cpu.sockets < 2)
    return usage(platform.name + " has one node", "--parallel numa", "take another platform");
  return {};
}

}  // namespace

Result<void> choose_target(BenchFlags& flags) {
  if (!Target::simulates) return check_native(flags);
  auto description = find_platform(flags);
  if (!description) return description.error();
  flags.machine.platform = description->platform;
  // What a native run finds out about this machine, a simulated one is told.
  flags.config.durability = durability_of(flags.machine.platform.domain);
  flags.config.simd = pm::SimdLevel::sse2;
  flags.config.repetitions = 1;
  return {};
}

Result<void> place_simulated(BenchFlags& flags) {
  if (!Target::simulates) return {};
  SimulatedMachine& machine = flags.machine;
  const platform::Platform& platform = machine.platform;
  machine.fingerprint = platform::fingerprint_of(platform);
  machine.cpus = platform::default_cpus(platform);
  const bool apart = flags.config.parallel == driver::Parallel::numa;
  if (apart)
    if (auto placed = check_apart(flags); !placed) return placed;
  if (flags.cpus || apart) {
    auto cpus = platform::parse_cpus(apart ? "node1" : *flags.cpus, platform);
    if (!cpus) return cpus.error();
    machine.cpus = std::move(cpus).value();
  }
  // As the kernel places it: where the threads run that touch it first.
  if (!flags.table.given("--dram-node"))
    machine.dram_node = apart ? 0 : platform::node_of(platform, machine.cpus.front());
  const unsigned sockets = platform.cpu.sockets;
  const unsigned with_pool = platform.pm.present ? platform.pm.sockets_with_dimms : sockets;
  if (auto there =
          check_node(flags.table, "--pool-node", machine.pool_node, with_pool, platform.name);
      !there)
    return there;
  if (auto there =
          check_node(flags.table, "--dram-node", machine.dram_node, sockets, platform.name);
      !there)
    return there;
  const auto ablation = platform::parse_ablations(flags.ablate);
  if (!ablation) return ablation.error();
  machine.ablation = *ablation;
  if (!machine.profile_path.empty() && !machine.profile_path.ends_with(".folded"))
    return usage("writes folded stacks, and no picture", flags.table.written("--flamegraph"),
                 "name a file that ends in .folded; `./perdure bench` draws .svg");
  flags.config.simulated = machine;
  return {};
}

Result<void> complete_simulated(BenchFlags& flags) {
  BenchConfig& config = flags.config;
  if (!config.simulated) return {};
  const std::string& platform = config.simulated->platform.name;
  if (!config.plugin.empty())
    return Error{ErrorCode::unsupported, "a wrapper is compiled without the simulator's hooks",
                 "--plugin " + config.plugin, "give --target native"};
  // memkind's allocator has no hooks, and nothing that it writes is there for a recovery.
  if (config.uses_pool() && config.heap == HeapKind::memkind) {
    if (flags.table.given("--guard"))
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
  if (flags.table.given("--pool-node") && config.options.node_pools() != 0)
    return usage("there is a pool on every node", flags.table.written("--pool-node"),
                 "leave it out, or give --option node_pools=0");
  if (config.uses_pool() && config.heap != HeapKind::dram && config.pool_path.empty() &&
      !config.reuse)
    config.scratch_pool = true;
  return resolve_carrier(flags);
}

}  // namespace perdure::cli
