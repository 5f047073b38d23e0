#include "crash/ways.h"

#include <algorithm>
#include <tuple>

#include "pool/slab_heap.h"

namespace perdure::crash {
namespace {

/// Of pools that are to run full, in chunks besides those of the empty index.
constexpr unsigned most_room = 3;
constexpr std::size_t chunks_of_a_small_program = 6;
/// A stretch of the slab heap's is two chunks of 64 KiB from 128 chunks on.
constexpr std::size_t large_pool_bytes = std::size_t{9} << 20;

bool has_chosen(const Plan& plan, const std::string& option) {
  return std::ranges::find(plan.chosen.options, option) != plan.chosen.options.end();
}

/// Two ways that make the same plan count once.
auto shape_of(const Plan& plan) {
  std::string options;
  for (const auto& [name, value] : plan.subject.options.choices())
    options += name + "=" + std::to_string(value) + " ";
  return std::tuple(plan.threads, plan.long_programs, plan.cuts, plan.reuse, plan.keys,
                    plan.preload, plan.operations, plan.shape, plan.subject.pool_bytes,
                    std::move(options));
}

/// Large programs are recorded in full, but only some of their points are explored: many programs
/// find more than one that takes the whole budget.
void bound(const Way& way, Plan& plan) {
  const bool large = way.large_trees || way.room || way.large_pool || way.dense ||
                     way.shape != Shape::mixed || way.nodes == Nodes::fallback;
  if (way.cut) plan.cuts = large ? 1 : 2;
  if (plan.subject.is_queue() && way.threads > 1) {
    // What one operation does is soon explored; what another one sees of it takes many schedules.
    plan.schedules = 12;
    plan.bounds.product = std::min<std::uint64_t>(plan.bounds.product, 32);
    plan.bounds.lazy = std::min<std::uint64_t>(plan.bounds.lazy, 64);
    plan.bounds.deep_every = std::max(plan.bounds.deep_every, 8U);
    plan.bounds.recrash_states = std::min(plan.bounds.recrash_states, 16U);
    return;
  }
  if (way == Way{.threads = way.threads, .long_programs = true}) return;
  plan.schedules = large ? 2 : 3;
  plan.bounds.lazy = std::min<std::uint64_t>(plan.bounds.lazy, 64);
  if (!large) return;
  // In crowds the live instance shows most defects, and schedules show more than states.
  if (way.shape == Shape::crowded) plan.schedules = 6;
  plan.bounds.points = way.shape == Shape::crowded ? 12 : 48;
  plan.bounds.product = std::min<std::uint64_t>(plan.bounds.product, 16);
  plan.bounds.deep_every = std::max(plan.bounds.deep_every, 8U);
  plan.bounds.recrash_states = std::min(plan.bounds.recrash_states, 8U);
}

}  // namespace

// Many short programs and some long ones: the reuse of freed blocks needs many tries, a large leaf
// many operations. What a lock's release publishes too early only another thread can see; what a
// recovery forgets to make durable shows only after it. The heap's high-water mark matters to
// recovery only where one durable mark stands for several chunks. And a reorganisation takes
// another path when it finds no room.
std::vector<Share> ways_of(unsigned threads, HeapKind heap) {
  const unsigned t = threads;
  const bool several = t > 1;
  std::vector<Share> ways{
      {{.threads = t}, 0},
      {{.threads = t, .long_programs = true}, 12},
      {{.threads = t, .shape = Shape::growing}, 3},
  };
  if (several) ways.push_back({{.threads = t, .shape = Shape::crowded}, 6});
  // libpmemobj takes milliseconds to open a pool: few keys, and no program goes on after a cut.
  if (heap != HeapKind::slab) return ways;
  const auto add = [&](Way way, unsigned share) {
    way.threads = t;
    ways.push_back({way, share});
  };
  add({.long_programs = true, .cut = true}, 8);
  add({.cut = true, .dense = true}, 3);
  if (!several) add({.cut = true, .reuse = true}, 8);
  add({.cut = true, .shape = Shape::growing}, 4);
  add({.long_programs = true, .nodes = Nodes::least}, 2);
  add({.long_programs = true, .cut = true, .nodes = Nodes::least}, 2);
  add({.nodes = Nodes::fallback, .shape = Shape::growing}, 2);
  if (several) add({.nodes = Nodes::fallback, .shape = Shape::crowded}, 2);
  add({.large_trees = true}, 1);
  add({.cut = true, .large_trees = true}, 1);
  if (!several) add({.cut = true, .large_trees = true, .nodes = Nodes::fallback}, 1);
  for (const bool cut : {false, true})
    for (unsigned room = 0; room <= most_room; ++room) add({.cut = cut, .room = room}, 1);
  return ways;
}

namespace {

// A queue has no keys and no nodes that split: what differs is how much it holds, and what was cut
// before.
std::vector<Share> ways_of_a_queue(unsigned threads) {
  const unsigned t = threads;
  std::vector<Share> ways{
      {{.threads = t}, 0},
      {{.threads = t, .long_programs = true}, 12},
      {{.threads = t, .long_programs = true, .cut = true}, 8},
      {{.threads = t, .nodes = Nodes::least}, 2},
      {{.threads = t, .cut = true, .nodes = Nodes::least}, 2},
  };  // with as many slots as by default no pool of an explorable size holds it
  if (threads == 1) ways.push_back({{.threads = t, .room = 0}, 1});
  return ways;
}

}  // namespace

std::vector<Share> ways_of(unsigned threads, const Subject& subject) {
  return subject.is_queue() ? ways_of_a_queue(threads) : ways_of(threads, subject.heap);
}

Share large_pool_way(unsigned many) { return {{.threads = many, .large_pool = true}, 1}; }

const Subject& Planner::with_nodes(Nodes nodes) {
  const auto [at, is_new] = subjects_.try_emplace(nodes, plan_.subject);
  Subject& subject = at->second;
  if (!is_new || nodes == Nodes::small) return subject;
  for (const IndexOption& option : subject.declared()) {
    if (has_chosen(plan_, option.name)) continue;
    const bool size = is_about_nodes(option);
    if (nodes == Nodes::fallback) subject.options.set(option.name, option.fallback);
    if (nodes == Nodes::least && size) subject.options.set(option.name, option.least);
  }
  if (plan_.chosen.pool || subject.heap != HeapKind::slab) return subject;
  // A pool with some room for it.
  constexpr std::size_t most_bytes = std::size_t{8} << 20;
  constexpr std::size_t chunks = 8;
  subject.pool_bytes = std::max(subject.pool_bytes, most_bytes);
  const std::size_t least = least_pool_bytes(subject, plan_.key_kind);
  subject.pool_bytes = std::max(plan_.subject.pool_bytes, least + chunks * SlabHeap::chunk_bytes);
  return subject;
}

std::size_t Planner::least_bytes() {
  if (least_bytes_ == 0) least_bytes_ = least_pool_bytes(plan_.subject, plan_.key_kind);
  return least_bytes_;
}

Plan Planner::plan_in(const Way& way) {
  Plan changed = plan_;
  changed.threads = way.threads;
  changed.long_programs = way.long_programs;
  changed.reuse = way.reuse || way.room;
  changed.cuts = way.cut ? cuts_of_a_program : 0;
  changed.shape = way.shape;
  const Chosen& chosen = plan_.chosen;
  const auto enlarge = [&](std::uint16_t keys, unsigned preload, unsigned operations) {
    if (!chosen.keys) changed.keys = std::max(plan_.keys, keys);
    if (!chosen.preload) changed.preload = std::max(plan_.preload, preload);
    if (!chosen.operations) changed.operations = std::max(plan_.operations, operations);
  };
  const bool large_nodes = way.nodes == Nodes::fallback;
  if (way.dense) {
    if (!chosen.keys) changed.keys = static_cast<std::uint16_t>(std::min(plan_.keys * 2, 4096));
    if (!chosen.preload) changed.preload = std::max<unsigned>(plan_.preload, changed.keys * 3U / 4);
    if (!chosen.operations) changed.operations = std::min(plan_.operations, 16U);
  }
  if (way.large_trees) enlarge(600, 500, 120);
  if (way.shape == Shape::growing) enlarge(large_nodes ? 2400 : 600, 0, 16);
  if (way.shape == Shape::crowded && large_nodes) enlarge(1600, 1200, 300);
  if (way.shape == Shape::crowded && !large_nodes) enlarge(200, 100, 80);
  changed.subject = with_nodes(way.nodes);
  if (way.large_pool) {
    if (!chosen.pool) changed.subject.pool_bytes = large_pool_bytes;
    if (!chosen.preload) changed.preload = 0;  // it would take most of the chunks that are needed
  }
  // Work on a pool takes time in proportion to its size, and small programs leave it empty.
  const bool small =
      (way.cut || plan_.subject.is_queue()) && way.shape == Shape::mixed && !way.large_trees;
  if (small && way.nodes == Nodes::small && changed.subject.heap == HeapKind::slab && !chosen.pool)
    changed.subject.pool_bytes =
        std::min(plan_.subject.pool_bytes,
                 least_bytes() + chunks_of_a_small_program * SlabHeap::chunk_bytes);
  if (way.room) {
    enlarge(3000, 1200, 200);
    if (!chosen.pool)
      changed.subject.pool_bytes = least_bytes() + *way.room * SlabHeap::chunk_bytes;
  }
  return changed;
}

std::vector<Planner::Planned> Planner::all() {
  const Subject& subject = plan_.subject;
  const bool slab = subject.heap == HeapKind::slab;
  std::vector<Share> shares = ways_of(plan_.threads, subject);
  if (!plan_.chosen.threads && plan_.threads == 1 && slab) {
    constexpr unsigned many = 6;
    constexpr unsigned many_of_a_queue = 3;
    for (Share& share : shares) share.share *= 2;
    for (const Share& share : ways_of(2, subject)) shares.push_back(share);
    if (!subject.is_queue()) shares.push_back(large_pool_way(many));
    if (subject.is_queue())
      for (const Share& share : ways_of(many_of_a_queue, subject)) shares.push_back(share);
  } else if (plan_.threads > 1 && slab && !subject.is_queue()) {
    shares.push_back(large_pool_way(plan_.threads));
  }
  std::vector<Planned> planned;
  std::vector<decltype(shape_of(plan_))> known;
  for (const Share& share : shares) {
    if (share.share == 0) continue;
    Plan made = plan_in(share.way);
    bound(share.way, made);
    auto shape = shape_of(made);
    if (std::ranges::find(known, shape) != known.end()) continue;
    known.push_back(std::move(shape));
    planned.push_back({std::move(made), share.share});
  }
  return planned;
}

}  // namespace perdure::crash
