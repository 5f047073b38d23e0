#include "probe/measurement.h"

#include <atomic>

namespace perdure::probe {
namespace {

std::atomic<std::uint64_t> sink{0};

}  // namespace

void keep(std::uint64_t value) noexcept { sink.fetch_xor(value, std::memory_order_relaxed); }

std::vector<Track> Measurement::tracks(std::uint64_t marks) const {
  std::vector<Track> made;
  made.reserve(point.threads);
  for (unsigned t = 0; t < point.threads; ++t) made.emplace_back(marks, rig.clock(), rig.spender());
  return made;
}

void Measurement::note_counters(Outcome& outcome,
                                const std::optional<CounterValues>& before) const {
  const auto after = rig.counters();
  outcome.counters_missing = rig.counters_missing();
  if (!before || !after) return;
  outcome.counters.emplace();
  for (const auto& [name, value] : *after) {
    const auto old = before->find(name);
    (*outcome.counters)[name] = value - (old == before->end() ? 0 : old->second);
  }
}

}  // namespace perdure::probe
