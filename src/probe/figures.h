// Figures: what the marks of a point's threads say about latency and bandwidth.
#pragma once

#include <cstdint>
#include <vector>

#include "core/histogram.h"
#include "probe/outcome.h"
#include "probe/tracks.h"

namespace perdure::probe {

/// Sets the latencies, unless there are no samples. `histogram`: in ps, each sample the mean of
/// `per_sample` operations.
void take_latency(Outcome& outcome, const Histogram& histogram, std::uint64_t per_sample);

/// Sets operations, seconds and bandwidth of the window in which all threads were at work.
void take_window(Outcome& outcome, const std::vector<Track>& made, double bytes_per_operation,
                 double ps_per_tick);

/// Sets latency per line and bandwidth from one thread's marks, the unmarked time left out.
void take_lines(Outcome& outcome, const Track& track, std::uint64_t lines_per_operation,
                std::uint64_t per_sample, double ps_per_tick);

/// Sets the figures of I1 as published: the time from the first start to the last end, divided by
/// the lines of one thread.
void take_cached(Outcome& outcome, const std::vector<Track>& made, std::uint64_t lines,
                 double ps_per_tick);

}  // namespace perdure::probe
