#include "probe/catalogue.h"

#include <algorithm>

namespace perdure::probe {
namespace {

constexpr std::uint64_t kibibyte = 1024;
constexpr std::uint64_t mebibyte = 1024 * kibibyte;
/// fio's own time per operation on the published server (docs/probes.md). One cost serves both
/// patterns: random operations also wait for the miss, which comes from the memory.
constexpr double fio_cost_ns = 190;
/// I1's own loop as it was compiled: 106 ns a line when DRAM and PM both hit the cache, of which
/// the cache takes about 26.
constexpr double cached_load_cost_ns = 80;
// pmem_memcpy_persist of 256 B, beyond its stores and fence: 0.3 to 0.9 ns measured.
constexpr double libpmem_call_ns = 0.6;

template <class T>
std::vector<T> either(const std::vector<T>& given, std::vector<T> otherwise) {
  return given.empty() ? otherwise : given;
}

// The published numbers of threads, up to what this target has.
std::vector<unsigned> fitting(const std::vector<unsigned>& threads, const Settings& s) {
  std::vector<unsigned> fit;
  for (const unsigned count : threads) {
    const unsigned possible = std::min(count, std::max(s.most_threads, 1U));
    if (fit.empty() || fit.back() != possible) fit.push_back(possible);
  }
  return fit;
}

Point point_of(const char* experiment, Kind kind, const Settings& s) {
  Point point;
  point.experiment = experiment;
  point.kind = kind;
  point.region_bytes = s.regions.empty() ? s.region_bytes : s.regions.front();
  point.fence_every = s.fence_every.value_or(0);
  point.op_cost_ns = s.op_cost_ns.value_or(0);
  point.op_cost_overlaps = s.op_cost_overlaps.value_or(false);
  point.op_state = s.op_state.value_or(false);
  point.node = s.node.value_or(Node::local);
  point.dimms = s.dimms;
  point.prefetch = s.prefetch;
  point.durability = s.durability;
  point.readers = s.readers.value_or(0);
  point.align_bytes = s.align_bytes.value_or(0);
  point.operations = s.operations.value_or(0);
  point.stride_bytes = s.stride_bytes.value_or(0);
  return point;
}

/// The loops that all sweeps share: memory, op, pattern, size, threads, outermost first.
struct Grid {
  std::vector<Memory> memories;
  std::vector<Op> ops;
  std::vector<Pattern> patterns;
  std::vector<std::uint64_t> sizes;
  std::vector<unsigned> threads;
};

Grid grid_of(const Settings& s, Grid otherwise) {
  return {either(s.memories, otherwise.memories), either(s.ops, otherwise.ops),
          either(s.patterns, otherwise.patterns), either(s.sizes, otherwise.sizes),
          either(s.threads, fitting(otherwise.threads, s))};
}

template <class Change>
void sweep(std::vector<Point>& points, const Point& base, const Grid& grid, const Change& change) {
  for (const Memory memory : grid.memories)
    for (const Op op : grid.ops)
      for (const Pattern pattern : grid.patterns)
        for (const std::uint64_t size : grid.sizes)
          for (const unsigned threads : grid.threads) {
            Point point = base;
            point.memory = memory;
            point.op = op;
            point.pattern = pattern;
            point.access_bytes = size;
            point.threads = threads;
            change(point);
            points.push_back(point);
          }
}

void sweep(std::vector<Point>& points, const Point& base, const Grid& grid) {
  sweep(points, base, grid, [](Point&) {});
}

const std::vector<std::uint64_t> published_sizes = {64, 128, 256, 512, 1024, 2048, 4096};
const std::vector<unsigned> published_threads = {1, 2, 4, 8, 16, 28};
const std::vector<std::uint64_t> coarse_sizes = {64, 256, 1024, 4096};
const std::vector<unsigned> coarse_threads = {1, 4, 8, 16, 28};

std::vector<Point> published(const char* experiment, const Settings& s, const Grid& grid) {
  std::vector<Point> points;
  Point base = point_of(experiment, Kind::bandwidth, s);
  base.op_cost_ns = s.op_cost_ns.value_or(fio_cost_ns);
  sweep(points, base, grid);
  return points;
}

std::vector<Point> i1(const Settings& s) {
  std::vector<double> ratios = s.hit_ratios;
  if (ratios.empty())
    for (unsigned tenth = 0; tenth <= 10; tenth += s.full ? 1 : 2) ratios.push_back(tenth / 10.0);
  Point base = point_of("I1", Kind::cached, s);
  base.region_bytes = s.regions.empty() ? s.cached_region_bytes : s.regions.front();
  if (!s.prefetch && s.prefetch_switch) base.prefetch = false;  // as published
  std::vector<Variant> variants = {Variant::as_published, Variant::corrected, Variant::dependent};
  if (s.variant) variants = {*s.variant};
  const Grid grid = grid_of(
      s, {{Memory::pm, Memory::dram}, {Op::load, Op::store_flush}, {Pattern::seq}, {64}, {8}});
  std::vector<Point> points;
  for (const Variant variant : variants)
    for (const double ratio : ratios)
      sweep(points, base, grid, [&](Point& point) {
        point.variant = variant;
        point.hit_ratio = ratio;
        point.access_bytes = 64;
        if (!s.op_cost_ns && variant == Variant::as_published && point.op == Op::load)
          point.op_cost_ns = cached_load_cost_ns;
      });
  // A load that flushes nothing has one loop for both flushing variants; a store chases nothing.
  std::erase_if(points, [&](const Point& point) {
    return !s.variant && ((point.op == Op::load && point.variant == Variant::corrected) ||
                          (point.op != Op::load && point.variant == Variant::dependent));
  });
  return points;
}

std::vector<Point> i2(const Settings& s) {
  std::vector<Point> points;
  for (const Memory memory : either(s.memories, {Memory::pm, Memory::dram}))
    for (const Op op : either(s.ops, {Op::load, Op::store_flush, Op::ntstore})) {
      // PM writes at the 8 threads of their published peak, everything else at 28.
      const std::vector<unsigned> threads = {memory == Memory::pm && op != Op::load ? 8U : 28U};
      auto some = published("I2", s,
                            {{memory},
                             {op},
                             either(s.patterns, {Pattern::seq}),
                             either(s.sizes, published_sizes),
                             either(s.threads, fitting(threads, s))});
      points.insert(points.end(), some.begin(), some.end());
    }
  return points;
}

std::vector<Point> i4(const Settings& s) {
  const Grid grid = grid_of(s, {{Memory::pm, Memory::dram},
                                {Op::store_flush},
                                {Pattern::seq, Pattern::rand},
                                s.full ? published_sizes : coarse_sizes,
                                s.full ? published_threads : coarse_threads});
  std::vector<Point> points;
  for (const Node node : {Node::local, Node::remote}) {
    if (s.node && *s.node != node) continue;
    Settings at = s;
    at.node = node;
    auto some = published("I4", at, grid);
    points.insert(points.end(), some.begin(), some.end());
  }
  return points;
}

std::vector<Point> i5(const Settings& s) {
  return published("I5", s,
                   grid_of(s, {{Memory::pm, Memory::dram},
                               {Op::store_flush, Op::store},
                               {Pattern::seq, Pattern::rand},
                               s.full ? published_sizes : coarse_sizes,
                               s.full ? published_threads : coarse_threads}));
}

std::vector<Point> i7(const Settings& s) {
  std::vector<Point> points;
  Point base = point_of("I7", Kind::bandwidth, s);
  base.fence_every = s.fence_every.value_or(1);
  base.op_cost_ns = s.op_cost_ns.value_or(libpmem_call_ns);
  base.region_bytes = s.regions.empty() ? mebibyte : s.regions.front();
  sweep(points, base, grid_of(s, {{Memory::pm}, {Op::ntstore}, {Pattern::same}, {256}, {1}}));
  return points;
}

std::vector<Point> free_bandwidth(const Settings& s) {
  std::vector<Point> points;
  for (const double share : either(s.mix_reads, {0.0})) {
    Point base = point_of("bandwidth", Kind::bandwidth, s);
    base.mix_reads = share;
    for (const std::uint64_t region : either(s.regions, {s.region_bytes})) {
      base.region_bytes = region;
      sweep(points, base,
            grid_of(s, {{Memory::pm}, {Op::load}, {Pattern::seq}, coarse_sizes, {1}}));
    }
  }
  return points;
}

std::vector<Point> idle_latency(const Settings& s) {
  std::vector<Point> points;
  const Point base = point_of("latency", Kind::latency, s);
  const std::vector<Memory> memories = either(s.memories, {Memory::pm, Memory::dram});
  for (const Op op : either(s.ops, {Op::load, Op::ntstore, Op::store_flush}))
    sweep(points, base,
          {memories,
           {op},
           either(s.patterns, {Pattern::seq, Pattern::rand}),
           either(s.sizes, {op == Op::load ? std::uint64_t{8} : 64}),
           either(s.threads, {1})});
  return points;
}

std::vector<Point> chase(const Settings& s) {
  std::vector<Point> points;
  Point base = point_of("chase", Kind::chase, s);
  for (const std::uint64_t region :
       either(s.regions, {4 * kibibyte, 16 * kibibyte, 64 * kibibyte, 256 * kibibyte, mebibyte,
                          4 * mebibyte, 16 * mebibyte, 64 * mebibyte, 256 * mebibyte}))
    for (const std::uint64_t block : either(s.sizes, {64, 256, 4096})) {
      if (block > region) continue;
      base.region_bytes = region;
      sweep(points, base,
            {either(s.memories, {Memory::pm}),
             either(s.ops, {Op::load, Op::ntstore}),
             {Pattern::rand},
             {block},
             {1}});
    }
  return points;
}

std::vector<Point> write_buffer(const Settings& s) {
  std::vector<Point> points;
  Point base = point_of("write-buffer", Kind::write_buffer, s);
  for (const std::uint64_t region :
       either(s.regions, {256, 1024, 4096, 8192, 16384, 18432, 20480, 24576, 28672, 32768, 40960,
                          49152, 65536, 131072, 524288, 2097152})) {
    base.region_bytes = region;
    sweep(points, base,
          {either(s.memories, {Memory::pm}), {Op::ntstore}, {Pattern::seq}, {128}, {1}});
  }
  return points;
}

// The load depends on how long the generators wait between two operations.
std::vector<Point> loaded_latency(const Settings& s) {
  std::vector<Point> points;
  const unsigned threads = std::max(std::min(16U, s.most_threads), 2U);
  std::vector<double> waits_ns = {10000, 3000, 1000, 500, 300, 200, 100, 50, 0};
  if (s.op_cost_ns) waits_ns = {*s.op_cost_ns};
  std::vector<Op> writes = either(s.ops, {Op::ntstore});
  std::erase(writes, Op::load);
  for (const double share : either(s.mix_reads, {1.0, 0.67, 0.5, 0.0}))
    for (const double wait_ns : waits_ns) {
      Point base = point_of("loaded-latency", Kind::loaded_latency, s);
      base.op_cost_ns = wait_ns;
      base.mix_reads = share < 1 ? share : 0;
      sweep(points, base,
            {either(s.memories, {Memory::pm}), share < 1 ? writes : std::vector{Op::load},
             either(s.patterns, {Pattern::rand}), either(s.sizes, {std::uint64_t{64}}),
             either(s.threads, {threads})});
    }
  return points;
}

// A region that stays in the first-level cache, so that the instruction's own cost is seen: the
// price of the flush with a fence each time, and with a fence for eight.
std::vector<Point> instructions(const Settings& s) {
  std::vector<Point> points;
  for (const FenceInterval every : {FenceInterval{1}, FenceInterval{8}}) {
    Point base = point_of("instructions", Kind::bandwidth, s);
    base.fence_every = s.fence_every.value_or(every);
    base.region_bytes = s.regions.empty() ? 16 * kibibyte : s.regions.front();
    const std::vector<Memory> memories = either(s.memories, {Memory::pm, Memory::dram});
    const Grid flushing = {
        memories, {Op::store_flush}, {Pattern::seq}, {64}, either(s.threads, {1})};
    for (const auto flush : {pm::FlushInstruction::clflush, pm::FlushInstruction::clflushopt,
                             pm::FlushInstruction::clwb})
      sweep(points, base, flushing, [&](Point& point) { point.flush = flush; });
    Grid streaming = flushing;
    streaming.ops = {Op::ntstore};
    sweep(points, base, streaming);
    if (s.fence_every) break;
  }
  return points;
}

}  // namespace

const std::vector<Probe>& probes() {
  static const std::vector<Probe> all = {
      {"I1", "cached load and p-store latency over the cache's hit ratio"},
      {"I2", "load and p-store bandwidth, sequential"},
      {"I3", "small writes, sequential and random: bandwidth and EWR"},
      {"I4", "p-stores to local and remote memory"},
      {"I5", "stores and p-stores"},
      {"I6", "sequential and random reads, hits of the internal buffer"},
      {"I7", "full-line streaming stores to one XPLine: EWR and RWR"},
      {"latency", "idle latency of single accesses"},
      {"chase", "pointer chase by region and block"},
      {"write-buffer", "write amplification over the region: the write buffer's size"},
      {"loaded-latency", "latency over bandwidth, by share of reads"},
      {"instructions", "cost of clflush, clflushopt, clwb and streaming stores"},
      {"bandwidth", "free sweep: bandwidth by operation, pattern, size and threads"}};
  return all;
}

std::vector<Point> points_of(std::string_view name, const Settings& s) {
  if (name == "I1") return i1(s);
  if (name == "I2") return i2(s);
  if (name == "I3")
    return published("I3", s,
                     grid_of(s, {{Memory::pm},
                                 {Op::ntstore},
                                 {Pattern::seq, Pattern::rand},
                                 {64, 128, 256, 512},
                                 {16}}));
  if (name == "I4") return i4(s);
  if (name == "I5") return i5(s);
  if (name == "I6")
    return published("I6", s,
                     grid_of(s, {{Memory::pm, Memory::dram},
                                 {Op::load},
                                 {Pattern::seq, Pattern::rand},
                                 published_sizes,
                                 {16}}));
  if (name == "I7") return i7(s);
  if (name == "latency") return idle_latency(s);
  if (name == "chase") return chase(s);
  if (name == "write-buffer") return write_buffer(s);
  if (name == "loaded-latency") return loaded_latency(s);
  if (name == "instructions") return instructions(s);
  if (name == "bandwidth") return free_bandwidth(s);
  return {};
}

}  // namespace perdure::probe
