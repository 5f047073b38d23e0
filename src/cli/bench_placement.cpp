// --placement: which parts of an index lie near to the threads, and which far away.
#include <algorithm>

#include "cli/bench_steps.h"
#include "cli/values.h"
#include "driver/numa.h"
#include "platform/description/placement.h"

namespace perdure::cli {
namespace {

using driver::BenchConfig;
using driver::Placement;

/// Where near and far are.
struct Sides {
  unsigned near = 0;
  unsigned far = 0;
  bool near_in_dram = false;
};

Result<Sides> simulated_sides(const BenchFlags& flags) {
  const driver::SimulatedMachine& machine = *flags.config.simulated;
  const platform::Platform& platform = machine.platform;
  Sides sides;
  sides.near = platform::node_of(platform, machine.cpus.front());
  sides.near_in_dram = flags.near_in_dram;
  if (sides.near_in_dram) {
    if (!platform.pm.present)
      return usage(platform.name + " has only DRAM, which nothing is farther than", "--near dram",
                   "take another platform, or leave it out");
    sides.far = sides.near;
    return sides;
  }
  const unsigned with_pool =
      platform.pm.present ? platform.pm.sockets_with_dimms : platform.cpu.sockets;
  if (with_pool < 2 || sides.near >= with_pool)
    return usage(platform.name + " has no second node whose memory holds pools", "--placement",
                 "take another platform, or give --near dram");
  sides.far = sides.near == 0 ? 1 : 0;
  return sides;
}

Result<Sides> native_sides(const BenchFlags& flags) {
  if (flags.near_in_dram)
    return usage("is for simulated runs", "--near dram", "natively --pool says which memory it is");
  const auto nodes = driver::numa_nodes();
  const auto memory_only = driver::memory_nodes();
  Sides sides;
  sides.near = nodes.front().number;
  if (!memory_only.empty())
    sides.far = memory_only.front().number;  // as CXL memory is shown
  else if (nodes.size() > 1)
    sides.far = nodes[1].number;
  else
    return Error{ErrorCode::unsupported, "this machine has one node with memory", "--placement",
                 "simulate one: --target sim:optane100-8280l-2s"};
  return sides;
}

}  // namespace

Result<void> resolve_placement(BenchFlags& flags) {
  BenchConfig& config = flags.config;
  if (!flags.placement) {
    if (flags.near_in_dram)
      return usage("says where --placement has the near parts", "--near dram",
                   "give --placement, too");
    return {};
  }
  const std::string& text = *flags.placement;
  const std::vector<std::string>& parts = config.index.parts;
  if (parts.empty())
    return usage(config.index.name + " has no parts that could lie apart", "--placement",
                 "take --index engine");
  if (config.heap != HeapKind::slab)
    return usage("takes a pool of several parts, which only --heap slab has", "--placement",
                 "leave --heap out");
  if (config.simulated && flags.table.given("--pool-node"))
    return usage("says where the pool lies", "--pool-node", "give --placement alone");
  if (text != "both" && text != "none" && std::ranges::find(parts, text) == parts.end()) {
    std::string names = "both";
    for (const std::string& part : parts) names += ", " + part;
    return usage("'" + text + "' is no part", "--placement", "use " + names + " or none");
  }
  const Result<Sides> sides = config.simulated ? simulated_sides(flags) : native_sides(flags);
  if (!sides) return sides.error();
  Placement placement{.near = text, .parts = parts, .nodes = {}, .in_dram = {}};
  for (unsigned part = 0; part < parts.size(); ++part) {
    const bool near = text == "both" || text == parts[part];
    placement.nodes.push_back(near ? sides->near : sides->far);
    if (near && sides->near_in_dram) placement.in_dram.push_back(part);
  }
  config.placement = std::move(placement);
  return {};
}

}  // namespace perdure::cli
