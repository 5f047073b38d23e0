// The JSON of a probe, form perdure-probe/1: schema/probe.schema.json, explained in docs/probes.md.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "probe/measure.h"
#include "probe/point.h"

namespace perdure::probe {

inline constexpr const char* document_schema = "perdure-probe/1";

using Json = nlohmann::ordered_json;

/// The inputs of a point.
[[nodiscard]] Json json_of(const Point& point);

/// An outcome alone, for another process, and back. Errors: bad_input.
[[nodiscard]] Json json_of(const Outcome& outcome);
[[nodiscard]] Result<Outcome> outcome_of(const Json& json);

/// One entry of `points`: experiment, inputs, and every quantity, null where it is not known.
[[nodiscard]] Json json_of(const Point& point, const Outcome& outcome);

/// What follows from several points: `derived` (differences and ratios) and `peaks`; and `ebr`,
/// each point's bandwidth over the largest of its memory and direction, is put into the points.
void conclude(const std::vector<Point>& points, const std::vector<Outcome>& outcomes,
              Json& document);

}  // namespace perdure::probe
