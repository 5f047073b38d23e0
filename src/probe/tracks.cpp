#include "probe/tracks.h"

#include <algorithm>

namespace perdure::probe {

Track::Track(std::uint64_t marks, Rig::Clock clock, Rig::Spender spender)
    // Written once here, so that no page is touched for the first time in the measured part.
    : memory_(std::make_unique<std::uint64_t[]>(2 * marks)),
      time_(memory_.get()),
      count_(memory_.get() + marks),
      capacity_(marks),
      clock_(clock),
      spender_(spender) {}

Lane Track::lane() noexcept { return {.self = this, .done = &Track::done, .spend = &Track::spend}; }

__attribute__((no_sanitize("thread"))) void Track::done(void* self, std::uint64_t count) noexcept {
  auto& track = *static_cast<Track*>(self);
  if (track.used_ == track.capacity_) return;
  track.time_[track.used_] = track.clock_();
  track.count_[track.used_++] = count;
}

__attribute__((no_sanitize("thread"))) void Track::spend(void* self, std::uint64_t ps) noexcept {
  static_cast<Track*>(self)->spender_(ps);
}

Window common_window(const std::vector<Track>& tracks) noexcept {
  Window window{0, ~std::uint64_t{0}};
  for (const Track& track : tracks) {
    if (track.used() == 0) continue;
    window.begin = std::max(window.begin, track.time(0));
    window.end = std::min(window.end, track.time(track.used() - 1));
  }
  if (window.end < window.begin || window.end == ~std::uint64_t{0}) window.end = window.begin;
  return window;
}

double operations_in(const Track& track, Window window) noexcept {
  double sum = 0;
  for (std::uint64_t i = 1; i < track.used(); ++i) {
    if (track.count(i) == 0) continue;
    const std::uint64_t from = track.time(i - 1);
    const std::uint64_t to = track.time(i);
    const std::uint64_t inside_from = std::max(from, window.begin);
    const std::uint64_t inside_to = std::min(to, window.end);
    const auto count = static_cast<double>(track.count(i));
    if (to <= from)
      sum += to > window.begin && to <= window.end ? count : 0;
    else if (inside_to > inside_from)
      sum += count * static_cast<double>(inside_to - inside_from) / static_cast<double>(to - from);
  }
  return sum;
}

void add_latencies(const Track& track, Window window, double ps_per_tick, double scale,
                   Histogram& histogram) noexcept {
  for (std::uint64_t i = 1; i < track.used(); ++i) {
    if (track.count(i) == 0 || track.time(i - 1) < window.begin || track.time(i) > window.end)
      continue;
    const auto ticks = static_cast<double>(track.time(i) - track.time(i - 1));
    histogram.record(static_cast<std::uint64_t>(
        ticks * ps_per_tick * scale / static_cast<double>(track.count(i)) + 0.5));
  }
}

Work work_of(const Track& track) noexcept {
  Work work;
  for (std::uint64_t i = 1; i < track.used(); ++i) {
    if (track.count(i) == 0) continue;
    work.ticks += track.time(i) - track.time(i - 1);
    work.operations += track.count(i);
  }
  return work;
}

}  // namespace perdure::probe
