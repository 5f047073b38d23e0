// Points whose threads run access loops over slices of the region.
#include <algorithm>
#include <utility>
#include <vector>

#include "core/rng.h"
#include "probe/figures.h"
#include "probe/kernels.h"
#include "probe/measurement.h"

namespace perdure::probe {
namespace {

constexpr std::uint64_t page_bytes = 4096;
constexpr std::uint64_t round_bytes = 6 * page_bytes;  // memory is interleaved over six
constexpr std::uint64_t fewest_operations = 24;        // of a thread: fewer are all edge

std::uint64_t round_down(std::uint64_t value, std::uint64_t unit) {
  return value >= unit ? value / unit * unit : value;
}

// Threads that wrote the first slots of their slices over and over would share a DRAM bank.
std::uint64_t slot_of_its_own(const Measurement& at, const AccessLoop& loop, unsigned thread) {
  const std::uint64_t slots = std::max<std::uint64_t>(loop.slice_bytes / loop.access_bytes, 1);
  return thread == 0 ? 0 : mix64(at.seed + 77 * (thread + 1)) % slots;
}

// The loop of thread t over its part of the region. `phase` tells warm-up and measured part apart;
// `before` operations of this thread came earlier, and a sequential walk goes on after them.
AccessLoop loop_of(const Measurement& at, unsigned thread, std::uint64_t operations,
                   std::uint64_t phase, std::uint64_t before) {
  AccessLoop loop;
  const std::uint64_t part = at.point.region_bytes / at.point.threads;
  // Whole rounds of six DIMMs or channels, so that every thread's slice lies alike over them.
  const std::uint64_t unit = part >= round_bytes  ? round_bytes
                             : part >= page_bytes ? page_bytes
                                                  : 64;
  loop.slice_bytes = std::max(round_down(part, unit), at.point.access_bytes);
  loop.slice = at.rig.region() + thread * loop.slice_bytes;
  loop.op = thread < at.point.readers ? Op::load : at.point.op;
  loop.pattern = at.point.pattern;
  loop.access_bytes = at.point.access_bytes;
  loop.stride_bytes = at.point.stride_bytes;
  loop.align_bytes = at.point.align_bytes == 0 ? loop.access_bytes : at.point.align_bytes;
  loop.operations = operations;
  loop.operations_per_mark = std::min<std::uint64_t>(at.rig.operations_per_mark(), operations);
  loop.fence_every = at.point.fence_every;
  loop.cost_ps = static_cast<std::uint64_t>(at.point.op_cost_ns * 1000 + 0.5);
  loop.cost_waits = !at.point.op_cost_overlaps;
  loop.state = at.point.op_state;
  loop.mix_reads = at.point.mix_reads;
  loop.key = mix64(at.seed ^ mix64(thread + 1)) + 0x10000 * phase;
  // Threads that began on one DIMM would march over the DIMMs in step; those that began late in
  // their slice would soon go round, and a stride meets other banks then.
  const std::uint64_t pages = std::max<std::uint64_t>(loop.slice_bytes / page_bytes / 8, 1);
  const std::uint64_t start = mix64(at.seed + 77 * (thread + 1)) % pages * page_bytes;
  const std::uint64_t step =
      loop.pattern == Pattern::stride ? loop.stride_bytes : loop.access_bytes;
  loop.first =
      loop.pattern == Pattern::same ? slot_of_its_own(at, loop, thread) : start / step + before;
  return loop;
}

std::vector<Track> run_loops(const Measurement& at, std::uint64_t operations, std::uint64_t phase,
                             std::uint64_t before) {
  const std::uint64_t per_mark =
      std::max<std::uint64_t>(std::min(at.rig.operations_per_mark(), operations), 1);
  auto made = at.tracks(operations / per_mark + 2);
  at.rig.run([&](unsigned thread) {
    keep(run_accesses(loop_of(at, thread, operations, phase, before), made[thread].lane()));
  });
  return made;
}

// How many operations each thread does in the measured part; natively found by a trial.
std::uint64_t operations_per_thread(const Measurement& at) {
  const double seconds = at.rig.seconds_per_point();
  if (at.point.operations == 0 && seconds > 0) {
    const std::uint64_t trial = std::max<std::uint64_t>(16384 / at.point.access_bytes, 64);
    const auto made = run_loops(at, trial, 9, 0);
    double slowest = 0;
    for (const Track& track : made) {
      const Work work = work_of(track);
      const double took = static_cast<double>(work.ticks) * at.ps_per_tick() * 1e-12;
      slowest = std::max(slowest,
                         took / static_cast<double>(std::max<std::uint64_t>(work.operations, 1)));
    }
    const double fitting = slowest > 0 ? seconds / slowest : 1e6;
    return std::clamp<std::uint64_t>(static_cast<std::uint64_t>(fitting), fewest_operations,
                                     20'000'000);
  }
  return std::max(at.lines() / at.point.lines_per_operation() / at.point.threads,
                  at.point.operations == 0 ? fewest_operations : 1);
}

// Fills what a longer run would have filled: caches with dirty lines, buffers, queues; walks a
// region that fits the caches once. Returns the operations of a thread so far.
std::uint64_t warm_up(const Measurement& at, std::uint64_t operations) {
  const std::uint64_t caches = at.rig.cache_bytes();
  const std::uint64_t bytes = at.point.access_bytes * at.point.threads;
  std::uint64_t done = 0;
  if (at.point.op == Op::store && at.point.pattern != Pattern::same && caches != 0) {
    const std::uint64_t filling = std::min(caches + caches / 2, at.point.region_bytes) / bytes + 1;
    at.rig.set_model(Rig::Model::tags_only);
    run_loops(at, filling, 1, 0);
    at.rig.set_model(Rig::Model::on);
    done += filling;
  }
  std::uint64_t warm = std::max<std::uint64_t>(operations / 5, 1);
  if (at.point.region_bytes <= 2 * caches) warm = std::max(warm, at.point.region_bytes / bytes);
  run_loops(at, warm, 2, done);
  return done + warm;
}

// On a machine whose cores have other work, threads may start far apart, and the window in which
// all of them run is short or empty. Takes the try with the longest window.
template <class Run>
std::vector<Track> overlapping(const Run& measured_run) {
  constexpr int most_tries = 5;
  std::vector<Track> best;
  std::uint64_t longest = 0;
  for (int i = 0; i < most_tries; ++i) {
    std::vector<Track> made = measured_run();
    const Window window = common_window(made);
    std::uint64_t whole = 0;
    for (const Track& track : made)
      if (track.used() > 1) whole = std::max(whole, track.time(track.used() - 1) - track.time(0));
    if (best.empty() || window.end - window.begin > longest) {
      longest = window.end - window.begin;
      best = std::move(made);
    }
    if (2 * longest >= whole) break;
  }
  return best;
}

}  // namespace

Outcome measure_bandwidth(const Measurement& at) {
  Outcome outcome;
  const std::uint64_t operations = operations_per_thread(at);
  const std::uint64_t before = warm_up(at, operations);
  std::vector<Track> made;
  at.with_counters(outcome, [&] {
    made = at.rig.seconds_per_point() > 0
               ? overlapping([&] { return run_loops(at, operations, 3, before); })
               : run_loops(at, operations, 3, before);
  });
  take_window(outcome, made, static_cast<double>(at.point.access_bytes), at.ps_per_tick());
  if (outcome.operations == 0) {
    outcome.skipped = never_met;
    return outcome;
  }
  Histogram histogram;
  const Window window = common_window(made);
  for (const Track& track : made) add_latencies(track, window, at.ps_per_tick(), 1, histogram);
  take_latency(outcome, histogram, std::min(at.rig.operations_per_mark(), operations));
  return outcome;
}

Outcome measure_latency(const Measurement& at) {
  Outcome outcome;
  const std::uint64_t operations = std::max<std::uint64_t>(at.lines() / 10, fewest_operations);
  const auto pass = [&](std::uint64_t count, std::uint64_t phase, std::uint64_t before,
                        bool empty) {
    auto made = at.tracks(2 * count + 2);
    at.rig.run([&](unsigned thread) {
      AccessLoop loop = loop_of(at, thread, count, phase, before);
      keep(single_accesses(loop, empty, made[thread].lane()));
    });
    Histogram histogram;
    for (const Track& track : made)
      add_latencies(track, {0, ~std::uint64_t{0}}, at.ps_per_tick(), 1, histogram);
    return histogram;
  };
  const std::uint64_t warm = operations / 10 + 1;
  pass(warm, 1, 0, false);
  const double empty_ns = static_cast<double>(pass(warm, 2, warm, true).quantile(0.5)) / 1000;
  Histogram histogram;
  at.with_counters(outcome, [&] { histogram = pass(operations, 3, 2 * warm, false); });
  outcome.operations = operations * at.point.threads;
  outcome.seconds = static_cast<double>(histogram.sum()) * 1e-12 / at.point.threads;
  take_latency(outcome, histogram, 1);
  if (outcome.latency_ns) {
    Latency& l = *outcome.latency_ns;
    for (double* value : {&l.mean, &l.p50, &l.p90, &l.p99, &l.p999, &l.max})
      *value = std::max(*value - empty_ns, 0.0);
  }
  return outcome;
}

Outcome measure_loaded_latency(const Measurement& at) {
  Outcome outcome;
  const AccessLoop chaser = loop_of(at, 0, 1, 3, 0);
  Chain chain;
  chain.base = chaser.slice;
  chain.blocks = chaser.slice_bytes / 64;
  chain.key = at.seed;
  chain.links = std::clamp<std::uint64_t>(at.lines() / 40, 16, chain.blocks);
  at.prepare_alone([&] { link_chain(chain); });
  // Twice what a thread would do alone: the window ends with the chaser or the first generator.
  const std::uint64_t operations = at.point.threads > 1 ? 2 * operations_per_thread(at) : 0;
  auto made = at.tracks(std::max(chain.links, operations) + 4);
  at.with_counters(outcome, [&] {
    at.rig.run([&](unsigned thread) {
      const Chain own = chain;
      if (thread == 0)
        keep(chase_singly(own, own.links, made[0].lane()));
      else
        keep(run_accesses(loop_of(at, thread, operations, 3, 0), made[thread].lane()));
    });
  });
  // Without an overlap, the latency was that of an idle memory.
  Histogram histogram;
  add_latencies(made[0], common_window(made), at.ps_per_tick(), 1, histogram);
  if (histogram.total() == 0) {
    outcome.skipped = never_met;
    return outcome;
  }
  take_window(outcome, made, static_cast<double>(at.point.access_bytes), at.ps_per_tick());
  take_latency(outcome, histogram, 1);
  return outcome;
}

}  // namespace perdure::probe
