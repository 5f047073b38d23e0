#include "probe/outcome.h"

namespace perdure::probe {
namespace {

std::optional<double> quotient(std::uint64_t a, std::uint64_t b) {
  if (b == 0) return std::nullopt;
  return static_cast<double>(a) / static_cast<double>(b);
}

}  // namespace

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
