#include "platform/model/testing/bench_loop.h"

#include <algorithm>

#include "core/rng.h"

namespace perdure::platform::testing {
namespace {

constexpr std::uint64_t pm_base = std::uint64_t{1} << 42;

struct Agent {
  Agent(const BenchSetup& setup, unsigned number)
      : rng(setup.seed, number),
        base((setup.memory == MemoryKind::pm ? pm_base : std::uint64_t{1} << 30) +
             number * (setup.region_bytes + 4096)) {
    // Threads of a real run are never in step.
    next = rng.below(setup.region_bytes / setup.access_bytes) * setup.access_bytes;
  }
  Rng rng;
  PhysicalAddress base;
  PhysicalAddress at = 0;  ///< of the operation under way
  std::uint64_t next = 0;  ///< offset of the next sequential one
  unsigned done_in_op = 0;
  bool flushing = false;
  std::uint64_t since_fence = 0;
  std::uint64_t bytes = 0;
};

/// One cache line of work, so that agents interleave line by line.
void step(Machine& machine, const BenchSetup& setup, unsigned core, Agent& agent) {
  if (agent.done_in_op == 0 && !agent.flushing) {
    const std::uint64_t blocks = setup.region_bytes / setup.access_bytes;
    const std::uint64_t offset = setup.pattern == BenchPattern::random
                                     ? agent.rng.below(blocks) * setup.access_bytes
                                     : agent.next;
    agent.next = agent.next + 2 * setup.access_bytes > setup.region_bytes
                     ? 0
                     : agent.next + setup.access_bytes;
    agent.at = agent.base + offset;
  }
  const PhysicalAddress address = agent.at + agent.done_in_op;
  switch (setup.op) {
    case BenchOp::load:
      machine.load(core, address, 64, 0);
      break;
    case BenchOp::ntstore:
      machine.stream(core, address, 64);
      break;
    case BenchOp::store:
      machine.store(core, address, 64);
      break;
    case BenchOp::store_clwb:
      if (!agent.flushing) {
        machine.store(core, address, 64);
        if (setup.flush_after_op ? agent.done_in_op + 64 < setup.access_bytes : false) break;
        if (!setup.flush_after_op) {
          machine.flush(core, address, FlushKind::clwb);
          break;
        }
        agent.flushing = true;
        agent.done_in_op = 0;
        return;
      }
      machine.flush(core, address, FlushKind::clwb);
      break;
  }
  agent.done_in_op += 64;
  if (agent.done_in_op < setup.access_bytes) return;
  agent.done_in_op = 0;
  agent.flushing = false;
  agent.bytes += setup.access_bytes;
  agent.since_fence += setup.access_bytes;
  if (setup.fence_bytes != 0 && agent.since_fence >= setup.fence_bytes) {
    machine.store_fence(core);
    agent.since_fence = 0;
  }
  if (setup.op_cost_ns > 0) {
    machine.drain(core);
    machine.compute(core, static_cast<Time>(setup.op_cost_ns * 1000));
  }
  if (setup.op_compute_ns > 0) machine.compute(core, static_cast<Time>(setup.op_compute_ns * 1000));
}

struct Run {
  explicit Run(const BenchSetup& with)
      : setup(with), machine(with.platform, cpus(with), with.ablation) {
    for (unsigned i = 0; i < setup.threads; ++i) {
      agents.emplace_back(setup, i);
      const std::uint64_t first = agents[i].base >> 12;
      for (std::uint64_t page = 0; page <= setup.region_bytes >> 12; ++page)
        machine.place_page(first + page, {setup.memory, setup.memory_node});
    }
  }
  static std::vector<unsigned> cpus(const BenchSetup& setup) {
    std::vector<unsigned> result;
    for (unsigned i = 0; i < setup.threads; ++i)
      result.push_back(setup.cpu_node * setup.platform.cpu.cores_per_socket + i);
    return result;
  }
  void until(Time end) {
    for (;;) {
      unsigned first = 0;
      for (unsigned i = 1; i < setup.threads; ++i)
        if (machine.now(i) < machine.now(first)) first = i;
      if (machine.now(first) >= end) return;
      step(machine, setup, first, agents[first]);
    }
  }
  [[nodiscard]] std::uint64_t bytes() const {
    std::uint64_t sum = 0;
    for (const Agent& agent : agents) sum += agent.bytes;
    return sum;
  }
  const BenchSetup& setup;
  Machine machine;
  std::vector<Agent> agents;
};

/// Plain stores reach memory only once the caches are full of dirty lines.
void fill_caches(Run& run) {
  const CoreParameters& cpu = run.setup.platform.cpu;
  const std::uint64_t lines =
      (cpu.llc_per_core.bytes * cpu.cores_per_socket + cpu.l2.bytes * run.setup.threads) * 9 / 4 /
      64;
  for (std::uint64_t i = 0; i < lines / run.setup.threads; i += run.setup.access_bytes / 64)
    for (unsigned core = 0; core < run.setup.threads; ++core) {
      Agent& agent = run.agents[core];
      const std::uint64_t blocks = run.setup.region_bytes / run.setup.access_bytes;
      const std::uint64_t offset = run.setup.pattern == BenchPattern::random
                                       ? agent.rng.below(blocks) * run.setup.access_bytes
                                       : agent.next;
      agent.next = agent.next + 2 * run.setup.access_bytes > run.setup.region_bytes
                       ? 0
                       : agent.next + run.setup.access_bytes;
      run.machine.touch(core, agent.base + offset, run.setup.access_bytes, true);
    }
  run.machine.finish_touches();
}

}  // namespace

BenchResult run_bench(const BenchSetup& setup) {
  Run run(setup);
  if (setup.op == BenchOp::store) fill_caches(run);
  const Time warm = static_cast<Time>(setup.warm_us * 1e6);
  const Time end = warm + static_cast<Time>(setup.measured_us * 1e6);
  run.until(warm);
  const Counters before = run.machine.counters();
  const std::uint64_t bytes_before = run.bytes();
  run.until(end);
  BenchResult result;
  result.counters = run.machine.counters().since(before);
  const MemoryCounters& memory =
      setup.memory == MemoryKind::pm ? result.counters.pm : result.counters.dram;
  const auto ratio = [](std::uint64_t a, std::uint64_t b) {
    return b == 0 ? 0.0 : static_cast<double>(a) / static_cast<double>(b);
  };
  result.mib_per_s =
      static_cast<double>(run.bytes() - bytes_before) / 1048576.0 / (setup.measured_us * 1e-6);
  result.ewr = ratio(memory.controller_write_bytes, memory.media_write_bytes);
  result.err = ratio(memory.controller_read_bytes, memory.media_read_bytes);
  result.read_hit_ratio =
      ratio(memory.buffer_read_hits, memory.buffer_read_hits + memory.buffer_read_misses);
  result.accesses =
      result.counters.loads + result.counters.stores + result.counters.streaming_stores;
  result.split = run.machine.time_split(0);
  return result;
}

}  // namespace perdure::platform::testing
