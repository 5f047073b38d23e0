#include "probe/figures.h"

#include <algorithm>

namespace perdure::probe {
namespace {

constexpr double gibibyte = 0x1p30;

}  // namespace

void take_latency(Outcome& outcome, const Histogram& histogram, std::uint64_t per_sample) {
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

void take_window(Outcome& outcome, const std::vector<Track>& made, double bytes_per_operation,
                 double ps_per_tick) {
  const Window window = common_window(made);
  double operations = 0;
  for (const Track& track : made) operations += operations_in(track, window);
  outcome.operations = static_cast<std::uint64_t>(operations + 0.5);
  outcome.seconds = static_cast<double>(window.end - window.begin) * ps_per_tick * 1e-12;
  if (outcome.seconds > 0)
    outcome.bandwidth_gib_s = operations * bytes_per_operation / outcome.seconds / gibibyte;
}

void take_lines(Outcome& outcome, const Track& track, std::uint64_t lines_per_operation,
                std::uint64_t per_sample, double ps_per_tick) {
  const Work work = work_of(track);
  const double ps = static_cast<double>(work.ticks) * ps_per_tick;
  const double lines = static_cast<double>(work.operations * lines_per_operation);
  outcome.operations = work.operations;
  outcome.seconds = ps * 1e-12;
  if (ps <= 0 || lines <= 0) return;
  outcome.bandwidth_gib_s = lines * 64 / outcome.seconds / gibibyte;
  Histogram histogram;
  add_latencies(track, {0, ~std::uint64_t{0}}, ps_per_tick,
                1.0 / static_cast<double>(lines_per_operation), histogram);
  take_latency(outcome, histogram, per_sample);
  if (outcome.latency_ns) outcome.latency_ns->mean = ps / lines / 1000;
}

void take_cached(Outcome& outcome, const std::vector<Track>& made, std::uint64_t lines,
                 double ps_per_tick) {
  std::uint64_t begin = ~std::uint64_t{0};
  std::uint64_t end = 0;
  Histogram histogram;
  for (const Track& track : made) {
    if (track.used() == 0) continue;
    begin = std::min(begin, track.time(0));
    end = std::max(end, track.time(track.used() - 1));
    add_latencies(track, {0, ~std::uint64_t{0}}, ps_per_tick, 1, histogram);
  }
  const double ps = end > begin ? static_cast<double>(end - begin) * ps_per_tick : 0;
  outcome.operations = lines;
  outcome.seconds = ps * 1e-12;
  if (ps > 0)
    outcome.bandwidth_gib_s = static_cast<double>(lines) * 64 / outcome.seconds / gibibyte;
  take_latency(outcome, histogram, 64);
  if (outcome.latency_ns)
    outcome.latency_ns->mean =
        ps / 1000 * static_cast<double>(made.size()) / static_cast<double>(lines);
}

}  // namespace perdure::probe
