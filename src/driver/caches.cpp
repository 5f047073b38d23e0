#include "driver/caches.h"

#include <unistd.h>

#include <array>

namespace perdure::driver {

std::vector<CacheLevel> cache_levels() {
  struct Name {
    unsigned level;
    int name;
    bool shared;
  };
  static constexpr std::array names = {Name{1, _SC_LEVEL1_DCACHE_SIZE, false},
                                       Name{2, _SC_LEVEL2_CACHE_SIZE, false},
                                       Name{3, _SC_LEVEL3_CACHE_SIZE, true}};
  std::vector<CacheLevel> levels;
  for (const Name& each : names)
    if (const long bytes = sysconf(each.name); bytes > 0)
      levels.push_back({each.level, static_cast<std::uint64_t>(bytes), each.shared});
  return levels;
}

// Streaming stores and flushed ones reach the memory however small the region is. A chase and the
// write buffer's probe flush before each pass (docs/probes.md), and I1 is about a cached region.
std::optional<CacheLevel> cache_that_answers(const probe::Point& point,
                                             const std::vector<CacheLevel>& levels) {
  using probe::Kind;
  using probe::Op;
  const bool flushes =
      point.kind == Kind::chase || point.kind == Kind::write_buffer || point.kind == Kind::cached;
  const bool stays = point.op == Op::load || point.op == Op::store || point.mix_reads > 0;
  if (flushes || !stays) return std::nullopt;
  for (const CacheLevel& level : levels)
    if (point.region_bytes <= level.bytes * (level.shared ? 1 : point.threads)) return level;
  return std::nullopt;
}

}  // namespace perdure::driver
