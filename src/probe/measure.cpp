#include "probe/measure.h"

#include <utility>

#include "probe/measurement.h"

namespace perdure::probe {

Result<Outcome> measure(const Point& point, Rig& rig, std::uint64_t seed) {
  Outcome outcome;
  if (auto reason = rig.lacks(point)) {
    outcome.skipped = std::move(reason);
    return outcome;
  }
  if (auto prepared = rig.prepare(point); !prepared) return prepared.error();
  rig.set_model(Rig::Model::on);
  const Measurement at{point, rig, seed};
  switch (point.kind) {
    case Kind::bandwidth:
      return measure_bandwidth(at);
    case Kind::latency:
      return measure_latency(at);
    case Kind::chase:
      return measure_chase(at);
    case Kind::write_buffer:
      return measure_write_buffer(at);
    case Kind::cached:
      return measure_cached(at);
    case Kind::loaded_latency:
      return measure_loaded_latency(at);
  }
  return outcome;
}

}  // namespace perdure::probe
