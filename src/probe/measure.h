// Measuring one point on a rig: warm up, run, and take figures from a window in which all threads
// were at work.
#pragma once

#include <cstdint>

#include "core/result.h"
#include "probe/outcome.h"
#include "probe/point.h"
#include "probe/rig.h"

namespace perdure::probe {

/// Measures `point` on a fresh rig. Errors: those of the rig's memory; a point that the rig cannot
/// measure is no error but has a reason in `skipped`.
[[nodiscard]] Result<Outcome> measure(const Point& point, Rig& rig, std::uint64_t seed);

}  // namespace perdure::probe
