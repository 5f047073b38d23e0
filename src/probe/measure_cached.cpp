// I1: a region that is in the last-level cache to a given share.
#include <algorithm>
#include <vector>

#include "probe/figures.h"
#include "probe/kernels.h"
#include "probe/measurement.h"

namespace perdure::probe {

Outcome measure_cached(const Measurement& at) {
  Outcome outcome;
  CachedLoop loop;
  loop.base = at.rig.region();
  loop.lines = std::max<std::uint64_t>(at.point.region_bytes / 64, at.point.threads);
  loop.threads = at.point.threads;
  loop.op = at.point.op;
  loop.variant = at.point.variant;
  loop.cost_ps = static_cast<std::uint64_t>(at.point.op_cost_ns * 1000 + 0.5);
  if (loop.variant == Variant::dependent) at.prepare_alone([&] { link_cached(loop); });
  at.run_alone([&] { flush_region(loop.base, loop.lines * 64); });
  const auto primed =
      static_cast<std::uint64_t>(static_cast<double>(loop.lines) * *at.point.hit_ratio + 0.5);
  at.run_alone([&] { keep(prime(loop.base, primed)); });
  auto made = at.tracks(loop.lines / 64 / loop.threads + 3);
  at.with_counters(outcome, [&] {
    at.rig.run([&](unsigned thread) {
      CachedLoop own = loop;
      own.thread = thread;
      keep(run_cached(own, made[thread].lane()));
    });
  });
  take_cached(outcome, made, loop.lines, at.ps_per_tick());
  return outcome;
}

}  // namespace perdure::probe
