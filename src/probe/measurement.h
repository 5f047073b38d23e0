// Measurement: one point on its rig, and what the ways of measuring it share.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "probe/outcome.h"
#include "probe/point.h"
#include "probe/rig.h"
#include "probe/tracks.h"

namespace perdure::probe {

inline constexpr const char* never_met =
    "the threads never ran side by side: the cores have other work";

/// Takes what kernels return, so that no compiler removes their loads.
void keep(std::uint64_t value) noexcept;

struct Measurement {
  const Point& point;
  Rig& rig;
  std::uint64_t seed;

  [[nodiscard]] double ps_per_tick() const { return 1000.0 / rig.ticks_per_ns(); }

  /// Cache lines that all threads access in the measured part.
  [[nodiscard]] std::uint64_t lines() const {
    return point.operations != 0 ? point.operations * point.lines_per_operation()
                                 : rig.lines_per_point();
  }

  /// A track for each thread, with room for `marks`.
  [[nodiscard]] std::vector<Track> tracks(std::uint64_t marks) const;

  /// Runs `job` on the first thread.
  template <class Job>
  void run_alone(const Job& job) const {
    rig.run([&](unsigned thread) {
      if (thread == 0) job();
    });
  }

  /// The same, not modelled: preparing is no part of the measured program.
  template <class Job>
  void prepare_alone(const Job& job) const {
    rig.set_model(Rig::Model::off);
    run_alone(job);
    rig.set_model(Rig::Model::on);
  }

  /// Runs `body` and notes what the counters counted meanwhile.
  template <class Body>
  void with_counters(Outcome& outcome, const Body& body) const {
    const auto before = rig.counters();
    body();
    note_counters(outcome, before);
  }

  void note_counters(Outcome& outcome, const std::optional<CounterValues>& before) const;
};

// The kinds of points.
[[nodiscard]] Outcome measure_bandwidth(const Measurement& at);
[[nodiscard]] Outcome measure_latency(const Measurement& at);
[[nodiscard]] Outcome measure_loaded_latency(const Measurement& at);
[[nodiscard]] Outcome measure_chase(const Measurement& at);
[[nodiscard]] Outcome measure_write_buffer(const Measurement& at);
[[nodiscard]] Outcome measure_cached(const Measurement& at);

}  // namespace perdure::probe
