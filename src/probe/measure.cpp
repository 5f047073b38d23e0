#include "probe/measure.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <vector>

#include "core/rng.h"
#include "pm/pm.h"
#include "probe/kernels.h"
#include "probe/tracks.h"

namespace perdure::probe {
namespace {

constexpr std::uint64_t page_bytes = 4096;
constexpr std::uint64_t round_bytes = 6 * page_bytes;  // interleaved over six
constexpr std::uint64_t fewest_operations = 24;        // of a thread: fewer are all edge
constexpr double gibibyte = 0x1p30;
constexpr const char* never_met = "the threads never ran side by side: the cores have other work";

// What kernels return goes here, so that no compiler takes their loads for dead.
std::atomic<std::uint64_t> sink{0};
void keep(std::uint64_t value) noexcept { sink.fetch_xor(value, std::memory_order_relaxed); }

std::uint64_t round_down(std::uint64_t value, std::uint64_t unit) {
  return value >= unit ? value / unit * unit : value;
}

class Measurement {
 public:
  Measurement(const Point& point, Rig& rig, std::uint64_t seed)
      : point_(point), rig_(rig), seed_(seed) {}

  Outcome run() {
    switch (point_.kind) {
      case Kind::bandwidth:
        return bandwidth();
      case Kind::latency:
        return latency();
      case Kind::chase:
        return chase();
      case Kind::write_buffer:
        return write_buffer();
      case Kind::cached:
        return cached();
      case Kind::loaded_latency:
        return loaded_latency();
    }
    return {};
  }

 private:
  [[nodiscard]] double ps_per_tick() const { return 1000.0 / rig_.ticks_per_ns(); }
  [[nodiscard]] std::uint64_t lines() const {
    return point_.operations != 0 ? point_.operations * point_.lines_per_operation()
                                  : rig_.lines_per_point();
  }

  std::vector<Track> tracks(std::uint64_t marks) {
    std::vector<Track> made;
    made.reserve(point_.threads);
    for (unsigned t = 0; t < point_.threads; ++t)
      made.emplace_back(marks, rig_.clock(), rig_.spender());
    return made;
  }

  // Thread t's part of the region. `phase` sets warm-up and measured part apart; `before`
  // operations of this thread came earlier, and a sequential walk goes on behind them.
  [[nodiscard]] AccessLoop loop_of(unsigned thread, std::uint64_t operations, std::uint64_t phase,
                                   std::uint64_t before) const {
    AccessLoop loop;
    const std::uint64_t part = point_.region_bytes / point_.threads;
    // Whole rounds of six DIMMs or channels, so that every thread's slice lies alike over them.
    const std::uint64_t unit = part >= round_bytes  ? round_bytes
                               : part >= page_bytes ? page_bytes
                                                    : 64;
    loop.slice_bytes = std::max(round_down(part, unit), point_.access_bytes);
    loop.slice = rig_.region() + thread * loop.slice_bytes;
    loop.op = point_.op;
    loop.pattern = point_.pattern;
    loop.access_bytes = point_.access_bytes;
    loop.stride_bytes = point_.stride_bytes;
    loop.operations = operations;
    loop.operations_per_mark = std::min<std::uint64_t>(rig_.operations_per_mark(), operations);
    loop.fence_every = point_.fence_every;
    loop.cost_ps = static_cast<std::uint64_t>(point_.op_cost_ns * 1000 + 0.5);
    loop.cost_waits = !point_.op_cost_overlaps;
    loop.mix_reads = point_.mix_reads;
    loop.key = mix64(seed_ ^ mix64(thread + 1)) + 0x10000 * phase;
    // Threads that began on one DIMM would march over the DIMMs in step; those that began late in
    // their slice would soon go round, and a stride meets other banks then.
    const std::uint64_t pages = std::max<std::uint64_t>(loop.slice_bytes / page_bytes / 8, 1);
    const std::uint64_t start = mix64(seed_ + 77 * (thread + 1)) % pages * page_bytes;
    const std::uint64_t step =
        loop.pattern == Pattern::stride ? loop.stride_bytes : loop.access_bytes;
    loop.first =
        loop.pattern == Pattern::same ? slot_of_its_own(loop, thread) : start / step + before;
    return loop;
  }

  // Threads that wrote the first slots of their slices over and over would share a DRAM bank.
  [[nodiscard]] std::uint64_t slot_of_its_own(const AccessLoop& loop, unsigned thread) const {
    const std::uint64_t slots = std::max<std::uint64_t>(loop.slice_bytes / loop.access_bytes, 1);
    return thread == 0 ? 0 : mix64(seed_ + 77 * (thread + 1)) % slots;
  }

  std::vector<Track> run_loops(std::uint64_t operations, std::uint64_t phase,
                               std::uint64_t before) {
    const std::uint64_t per_mark =
        std::max<std::uint64_t>(std::min(rig_.operations_per_mark(), operations), 1);
    auto made = tracks(operations / per_mark + 2);
    rig_.run([&](unsigned thread) {
      keep(run_accesses(loop_of(thread, operations, phase, before), made[thread].lane()));
    });
    return made;
  }

  // Operations of one thread in the measured part.
  std::uint64_t operations_per_thread() {
    const double seconds = rig_.seconds_per_point();
    if (point_.operations == 0 && seconds > 0) {
      const std::uint64_t trial = std::max<std::uint64_t>(16384 / point_.access_bytes, 64);
      const auto made = run_loops(trial, 9, 0);
      double slowest = 0;
      for (const Track& track : made) {
        const Work work = work_of(track);
        const double took = static_cast<double>(work.ticks) * ps_per_tick() * 1e-12;
        slowest = std::max(slowest,
                           took / static_cast<double>(std::max<std::uint64_t>(work.operations, 1)));
      }
      const double fitting = slowest > 0 ? seconds / slowest : 1e6;
      return std::clamp<std::uint64_t>(static_cast<std::uint64_t>(fitting), fewest_operations,
                                       20'000'000);
    }
    return std::max(lines() / point_.lines_per_operation() / point_.threads,
                    point_.operations == 0 ? fewest_operations : 1);
  }

  // Fills what a longer run would have filled: caches with dirty lines, buffers, queues; a region
  // that fits the caches is walked once. Returns the operations of a thread so far.
  std::uint64_t warm_up(std::uint64_t operations) {
    const std::uint64_t caches = rig_.cache_bytes();
    const std::uint64_t bytes = point_.access_bytes * point_.threads;
    std::uint64_t done = 0;
    if (point_.op == Op::store && point_.pattern != Pattern::same && caches != 0) {
      const std::uint64_t filling = std::min(caches + caches / 2, point_.region_bytes) / bytes + 1;
      rig_.set_model(Rig::Model::tags_only);
      run_loops(filling, 1, 0);
      rig_.set_model(Rig::Model::on);
      done += filling;
    }
    std::uint64_t warm = std::max<std::uint64_t>(operations / 5, 1);
    if (point_.region_bytes <= 2 * caches) warm = std::max(warm, point_.region_bytes / bytes);
    run_loops(warm, 2, done);
    return done + warm;
  }

  template <class Body>
  void with_counters(Outcome& outcome, const Body& body) {
    const auto before = rig_.counters();
    body();
    const auto after = rig_.counters();
    outcome.counters_missing = rig_.counters_missing();
    if (!before || !after) return;
    outcome.counters.emplace();
    for (const auto& [name, value] : *after) {
      const auto old = before->find(name);
      (*outcome.counters)[name] = value - (old == before->end() ? 0 : old->second);
    }
  }

  void take_latency(Outcome& outcome, const Histogram& histogram, std::uint64_t per_sample) const {
    const std::uint64_t total = histogram.total();
    if (total == 0) return;
    const auto ns = [](std::uint64_t ps) { return static_cast<double>(ps) / 1000; };
    outcome.latency_ns =
        Latency{.mean = static_cast<double>(histogram.sum()) / static_cast<double>(total) / 1000,
                .p50 = ns(histogram.quantile(0.5)),
                .p90 = ns(histogram.quantile(0.9)),
                .p99 = ns(histogram.quantile(0.99)),
                .p999 = ns(histogram.quantile(0.999)),
                .max = ns(histogram.max())};
    outcome.operations_per_sample = per_sample;
  }

  void take_window(Outcome& outcome, const std::vector<Track>& made,
                   double bytes_per_operation) const {
    const Window window = common_window(made);
    double operations = 0;
    for (const Track& track : made) operations += operations_in(track, window);
    outcome.operations = static_cast<std::uint64_t>(operations + 0.5);
    outcome.seconds = static_cast<double>(window.end - window.begin) * ps_per_tick() * 1e-12;
    if (outcome.seconds > 0)
      outcome.bandwidth_gib_s = operations * bytes_per_operation / outcome.seconds / gibibyte;
  }

  // On a machine whose cores have other work, threads may start far apart; then the window says
  // little or nothing. The longest of a few tries is taken.
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

  Outcome bandwidth() {
    Outcome outcome;
    const std::uint64_t operations = operations_per_thread();
    const std::uint64_t before = warm_up(operations);
    std::vector<Track> made;
    with_counters(outcome, [&] {
      made = rig_.seconds_per_point() > 0
                 ? overlapping([&] { return run_loops(operations, 3, before); })
                 : run_loops(operations, 3, before);
    });
    take_window(outcome, made, static_cast<double>(point_.access_bytes));
    if (outcome.operations == 0) {
      outcome.skipped = never_met;
      return outcome;
    }
    Histogram histogram;
    const Window window = common_window(made);
    for (const Track& track : made) add_latencies(track, window, ps_per_tick(), 1, histogram);
    take_latency(outcome, histogram, std::min(rig_.operations_per_mark(), operations));
    return outcome;
  }

  Outcome latency() {
    Outcome outcome;
    const std::uint64_t operations = std::max<std::uint64_t>(lines() / 10, fewest_operations);
    const auto pass = [&](std::uint64_t count, std::uint64_t phase, std::uint64_t before,
                          bool empty) {
      auto made = tracks(2 * count + 2);
      rig_.run([&](unsigned thread) {
        AccessLoop loop = loop_of(thread, count, phase, before);
        keep(single_accesses(loop, empty, made[thread].lane()));
      });
      Histogram histogram;
      for (const Track& track : made)
        add_latencies(track, {0, ~std::uint64_t{0}}, ps_per_tick(), 1, histogram);
      return histogram;
    };
    const std::uint64_t warm = operations / 10 + 1;
    pass(warm, 1, 0, false);
    const double empty_ns = static_cast<double>(pass(warm, 2, warm, true).quantile(0.5)) / 1000;
    Histogram histogram;
    with_counters(outcome, [&] { histogram = pass(operations, 3, 2 * warm, false); });
    outcome.operations = operations * point_.threads;
    outcome.seconds = static_cast<double>(histogram.sum()) * 1e-12 / point_.threads;
    take_latency(outcome, histogram, 1);
    if (outcome.latency_ns) {
      Latency& l = *outcome.latency_ns;
      for (double* value : {&l.mean, &l.p50, &l.p90, &l.p99, &l.p999, &l.max})
        *value = std::max(*value - empty_ns, 0.0);
    }
    return outcome;
  }

  Outcome chase() {
    Outcome outcome;
    const std::uint64_t per_block = point_.lines_per_operation();
    const std::uint64_t budget = std::max<std::uint64_t>(lines() / per_block, 16);
    Chain chain;
    chain.base = rig_.region();
    chain.block_bytes = point_.access_bytes;
    chain.blocks = std::max<std::uint64_t>(point_.region_bytes / chain.block_bytes, 1);
    chain.key = seed_;
    // A ring too long to be walked twice is a part of the region: every block of it is met once.
    const bool whole = chain.blocks <= 10 * budget;
    chain.links = whole ? chain.blocks : budget + budget / 5 + 1;
    const std::uint64_t links_per_pass = std::min(chain.links, whole ? budget : chain.links);
    const std::uint64_t passes =
        std::max<std::uint64_t>((whole ? budget : links_per_pass) / links_per_pass, 1);
    const std::uint64_t warm = whole ? (chain.links + links_per_pass - 1) / links_per_pass : 0;
    const std::uint64_t per_mark = std::clamp<std::uint64_t>(links_per_pass / 4, 1, 64);
    const bool flush_first = point_.op == Op::load && point_.region_bytes <= 2 * rig_.cache_bytes();
    if (point_.op == Op::load) {
      rig_.set_model(Rig::Model::off);
      rig_.run([&](unsigned thread) {
        if (thread == 0) link_chain(chain);
      });
      rig_.set_model(Rig::Model::on);
    }
    const auto walk = [&](std::uint64_t count, std::vector<Track>& made) {
      rig_.run([&](unsigned thread) {
        if (thread != 0) return;
        const Lane lane = made[0].lane();
        const Chain own = chain;  // on this thread's stack: the kernel's reads of it are measured
        if (point_.op == Op::load)
          keep(chase_loads(own, count, links_per_pass, per_mark, flush_first, lane));
        else
          chase_streams(own, count, links_per_pass, per_mark, lane);
      });
    };
    const std::uint64_t marks = links_per_pass / per_mark + 3;
    if (warm != 0) {
      auto made = tracks(warm * marks);
      walk(warm, made);
    }
    auto made = tracks(passes * marks);
    with_counters(outcome, [&] { walk(passes, made); });
    take_lines(outcome, made[0], per_block, per_mark);
    return outcome;
  }

  // Latency per line and bandwidth from one thread's marks, the unmarked time left out.
  void take_lines(Outcome& outcome, const Track& track, std::uint64_t lines_per_operation,
                  std::uint64_t per_sample) const {
    const Work work = work_of(track);
    const double ps = static_cast<double>(work.ticks) * ps_per_tick();
    const double lines = static_cast<double>(work.operations * lines_per_operation);
    outcome.operations = work.operations;
    outcome.seconds = ps * 1e-12;
    if (ps <= 0 || lines <= 0) return;
    outcome.bandwidth_gib_s = lines * 64 / outcome.seconds / gibibyte;
    Histogram histogram;
    add_latencies(track, {0, ~std::uint64_t{0}}, ps_per_tick(),
                  1.0 / static_cast<double>(lines_per_operation), histogram);
    take_latency(outcome, histogram, per_sample);
    if (outcome.latency_ns) outcome.latency_ns->mean = ps / lines / 1000;
  }

  Outcome write_buffer() {
    Outcome outcome;
    const std::uint64_t xplines =
        std::max<std::uint64_t>(point_.region_bytes / pm::media_block_bytes, 1);
    const std::uint64_t rounds =
        std::max<std::uint64_t>(lines() / (xplines * pm::media_block_bytes / 64), 2);
    const auto write = [&](std::uint64_t count) {
      auto made = tracks(count + 2);
      rig_.run([&](unsigned thread) {
        if (thread == 0) write_halves(rig_.region(), xplines, count, made[0].lane());
      });
      return made;
    };
    write(std::max<std::uint64_t>(rounds / 5, 1));
    std::vector<Track> made;
    with_counters(outcome, [&] { made = write(rounds); });
    take_lines(outcome, made[0], 2, 2 * xplines);
    return outcome;
  }

  Outcome cached() {
    Outcome outcome;
    CachedLoop loop;
    loop.base = rig_.region();
    loop.lines = std::max<std::uint64_t>(point_.region_bytes / 64, point_.threads);
    loop.threads = point_.threads;
    loop.op = point_.op;
    loop.variant = point_.variant;
    loop.cost_ps = static_cast<std::uint64_t>(point_.op_cost_ns * 1000 + 0.5);
    const auto alone = [&](auto&& job) {
      rig_.run([&](unsigned thread) {
        if (thread == 0) job();
      });
    };
    if (loop.variant == Variant::dependent) {
      rig_.set_model(Rig::Model::off);
      alone([&] { link_cached(loop); });
      rig_.set_model(Rig::Model::on);
    }
    alone([&] { flush_region(loop.base, loop.lines * 64); });
    const auto primed =
        static_cast<std::uint64_t>(static_cast<double>(loop.lines) * *point_.hit_ratio + 0.5);
    alone([&] { keep(prime(loop.base, primed)); });
    auto made = tracks(loop.lines / 64 / loop.threads + 3);
    with_counters(outcome, [&] {
      rig_.run([&](unsigned thread) {
        CachedLoop own = loop;
        own.thread = thread;
        keep(run_cached(own, made[thread].lane()));
      });
    });
    take_cached(outcome, made, loop.lines);
    return outcome;
  }

  // As published: from the first start to the last end, divided by the lines of one thread.
  void take_cached(Outcome& outcome, const std::vector<Track>& made, std::uint64_t lines) const {
    std::uint64_t begin = ~std::uint64_t{0};
    std::uint64_t end = 0;
    Histogram histogram;
    for (const Track& track : made) {
      if (track.used() == 0) continue;
      begin = std::min(begin, track.time(0));
      end = std::max(end, track.time(track.used() - 1));
      add_latencies(track, {0, ~std::uint64_t{0}}, ps_per_tick(), 1, histogram);
    }
    const double ps = end > begin ? static_cast<double>(end - begin) * ps_per_tick() : 0;
    outcome.operations = lines;
    outcome.seconds = ps * 1e-12;
    if (ps > 0)
      outcome.bandwidth_gib_s = static_cast<double>(lines) * 64 / outcome.seconds / gibibyte;
    take_latency(outcome, histogram, 64);
    if (outcome.latency_ns)
      outcome.latency_ns->mean = ps / 1000 * point_.threads / static_cast<double>(lines);
  }

  Outcome loaded_latency() {
    Outcome outcome;
    const AccessLoop chaser = loop_of(0, 1, 3, 0);
    Chain chain;
    chain.base = chaser.slice;
    chain.blocks = chaser.slice_bytes / 64;
    chain.key = seed_;
    chain.links = std::clamp<std::uint64_t>(lines() / 40, 16, chain.blocks);
    rig_.set_model(Rig::Model::off);
    rig_.run([&](unsigned thread) {
      if (thread == 0) link_chain(chain);
    });
    rig_.set_model(Rig::Model::on);
    // Twice what a thread would do alone: the window ends with the chaser or the first generator.
    const std::uint64_t operations = point_.threads > 1 ? 2 * operations_per_thread() : 0;
    auto made = tracks(std::max(chain.links, operations) + 4);
    with_counters(outcome, [&] {
      rig_.run([&](unsigned thread) {
        const Chain own = chain;
        if (thread == 0)
          keep(chase_singly(own, own.links, made[0].lane()));
        else
          keep(run_accesses(loop_of(thread, operations, 3, 0), made[thread].lane()));
      });
    });
    // A latency while nothing loads the memory, or a load while nobody measures, is no answer.
    Histogram histogram;
    add_latencies(made[0], common_window(made), ps_per_tick(), 1, histogram);
    if (histogram.total() == 0) {
      outcome.skipped = never_met;
      return outcome;
    }
    take_window(outcome, made, static_cast<double>(point_.access_bytes));
    take_latency(outcome, histogram, 1);
    return outcome;
  }

  const Point& point_;
  Rig& rig_;
  std::uint64_t seed_;
};

std::optional<double> quotient(std::uint64_t a, std::uint64_t b) {
  if (b == 0) return std::nullopt;
  return static_cast<double>(a) / static_cast<double>(b);
}

}  // namespace

Result<Outcome> measure(const Point& point, Rig& rig, std::uint64_t seed) {
  Outcome outcome;
  if (auto reason = rig.lacks(point)) {
    outcome.skipped = std::move(reason);
    return outcome;
  }
  if (auto prepared = rig.prepare(point); !prepared) return prepared.error();
  rig.set_model(Rig::Model::on);
  return Measurement(point, rig, seed).run();
}

Ratios ratios_of(const Point& point, const Outcome& outcome) {
  Ratios ratios;
  if (!outcome.counters) return ratios;
  const auto value = [&](const char* name) {
    const auto found = outcome.counters->find(name);
    return found == outcome.counters->end() ? 0 : found->second;
  };
  const std::uint64_t controller_read = value("controller_read_bytes");
  const std::uint64_t controller_write = value("controller_write_bytes");
  const std::uint64_t media_read = value("media_read_bytes");
  const std::uint64_t media_write = value("media_write_bytes");
  ratios.ewr = quotient(controller_write, media_write);
  ratios.err = quotient(controller_read, media_read);
  ratios.rwr = quotient(media_read, media_write);
  ratios.write_amplification = quotient(media_write, controller_write);
  const char* const hits = point.reads() ? "buffer_read_hits" : "buffer_write_hits";
  const char* const misses = point.reads() ? "buffer_read_misses" : "buffer_write_misses";
  ratios.buffer_hit_ratio = quotient(value(hits), value(hits) + value(misses));
  return ratios;
}

}  // namespace perdure::probe
