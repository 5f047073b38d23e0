// Points that one thread measures in passes over its region.
#include <algorithm>
#include <vector>

#include "pm/pm.h"
#include "probe/figures.h"
#include "probe/kernels.h"
#include "probe/measurement.h"

namespace perdure::probe {

Outcome measure_chase(const Measurement& at) {
  Outcome outcome;
  const std::uint64_t per_block = at.point.lines_per_operation();
  const std::uint64_t budget = std::max<std::uint64_t>(at.lines() / per_block, 16);
  Chain chain;
  chain.base = at.rig.region();
  chain.block_bytes = at.point.access_bytes;
  chain.blocks = std::max<std::uint64_t>(at.point.region_bytes / chain.block_bytes, 1);
  chain.key = at.seed;
  // Where the region is too large to be walked twice, the ring covers a part of it, and every block
  // is visited once.
  const bool whole = chain.blocks <= 10 * budget;
  chain.links = whole ? chain.blocks : budget + budget / 5 + 1;
  const std::uint64_t links_per_pass = std::min(chain.links, whole ? budget : chain.links);
  const std::uint64_t passes =
      std::max<std::uint64_t>((whole ? budget : links_per_pass) / links_per_pass, 1);
  const std::uint64_t warm = whole ? (chain.links + links_per_pass - 1) / links_per_pass : 0;
  const std::uint64_t per_mark = std::clamp<std::uint64_t>(links_per_pass / 4, 1, 64);
  const bool flush_first =
      at.point.op == Op::load && at.point.region_bytes <= 2 * at.rig.cache_bytes();
  if (at.point.op == Op::load) at.prepare_alone([&] { link_chain(chain); });
  const auto walk = [&](std::uint64_t count, std::vector<Track>& made) {
    at.run_alone([&] {
      const Lane lane = made[0].lane();
      const Chain own = chain;  // on this thread's stack: the kernel's reads of it are measured
      if (at.point.op == Op::load)
        keep(chase_loads(own, count, links_per_pass, per_mark, flush_first, lane));
      else
        chase_streams(own, count, links_per_pass, per_mark, lane);
    });
  };
  const std::uint64_t marks = links_per_pass / per_mark + 3;
  if (warm != 0) {
    auto made = at.tracks(warm * marks);
    walk(warm, made);
  }
  auto made = at.tracks(passes * marks);
  at.with_counters(outcome, [&] { walk(passes, made); });
  take_lines(outcome, made[0], per_block, per_mark, at.ps_per_tick());
  return outcome;
}

Outcome measure_write_buffer(const Measurement& at) {
  Outcome outcome;
  const std::uint64_t xplines =
      std::max<std::uint64_t>(at.point.region_bytes / pm::media_block_bytes, 1);
  const std::uint64_t rounds =
      std::max<std::uint64_t>(at.lines() / (xplines * pm::media_block_bytes / 64), 2);
  const auto write = [&](std::uint64_t count) {
    auto made = at.tracks(count + 2);
    at.run_alone([&] { write_halves(at.rig.region(), xplines, count, made[0].lane()); });
    return made;
  };
  write(std::max<std::uint64_t>(rounds / 5, 1));
  std::vector<Track> made;
  at.with_counters(outcome, [&] { made = write(rounds); });
  take_lines(outcome, made[0], 2, 2 * xplines, at.ps_per_tick());
  return outcome;
}

}  // namespace perdure::probe
