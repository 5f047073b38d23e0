#include "probe/document.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace perdure::probe {
namespace {

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

struct LatencyField {
  const char* name;
  double Latency::*member;
};
constexpr LatencyField latency_fields[] = {{"mean", &Latency::mean},  {"p50", &Latency::p50},
                                           {"p90", &Latency::p90},    {"p99", &Latency::p99},
                                           {"p99.9", &Latency::p999}, {"max", &Latency::max}};

Json json_of_latency(const std::optional<Latency>& latency) {
  if (!latency) return nullptr;
  Json json;
  for (const LatencyField& field : latency_fields) json[field.name] = (*latency).*field.member;
  return json;
}

}  // namespace

std::string text_of_fence(FenceInterval every) {
  if (every == 0) return "none";
  return every == 1 ? "each" : "every=" + std::to_string(every);
}

Json json_of(const Point& point) {
  Json json;
  json["memory"] = text_of(memories, point.memory);
  json["op"] = text_of(ops, point.op);
  json["pattern"] = text_of(patterns, point.pattern);
  json["access_size"] = point.access_bytes;
  json["threads"] = point.threads;
  json["dimms"] = or_null(point.dimms);
  json["node"] = text_of(nodes, point.node);
  json["prefetch"] = or_null(point.prefetch);
  json["fence"] = text_of_fence(point.fence_every);
  json["stride_bytes"] = point.stride_bytes;
  json["mix_reads"] = point.mix_reads;
  json["readers"] = point.readers;
  json["align_bytes"] = point.align_bytes;
  json["region_bytes"] = point.region_bytes;
  json["op_cost_ns"] = point.op_cost_ns;
  json["op_cost"] = point.op_cost_overlaps ? "overlaps" : "waits";
  json["op_state"] = point.op_state ? "stored" : "kept";
  json["hit_ratio"] = or_null(point.hit_ratio);
  json["variant"] =
      point.variant == Variant::none ? Json(nullptr) : Json(text_of(variants, point.variant));
  json["durability"] = point.durability ? Json(pm::name_of(*point.durability)) : Json(nullptr);
  json["flush"] = point.flush ? Json(pm::name_of(*point.flush)) : Json(nullptr);
  return json;
}

Json json_of(const Outcome& outcome) {
  Json json;
  json["skipped"] = or_null(outcome.skipped);
  json["operations"] = outcome.operations;
  json["seconds"] = outcome.seconds;
  json["bandwidth_gib_s"] = or_null(outcome.bandwidth_gib_s);
  json["latency_ns"] = json_of_latency(outcome.latency_ns);
  json["operations_per_sample"] = outcome.operations_per_sample;
  json["counters"] = outcome.counters ? Json(*outcome.counters) : Json(nullptr);
  json["counters_missing"] =
      outcome.counters_missing.empty() ? Json(nullptr) : Json(outcome.counters_missing);
  return json;
}

Result<Outcome> outcome_of(const Json& json) {
  try {
    Outcome outcome;
    if (!json.at("skipped").is_null()) outcome.skipped = json.at("skipped").get<std::string>();
    outcome.operations = json.at("operations").get<std::uint64_t>();
    outcome.seconds = json.at("seconds").get<double>();
    if (const Json& bandwidth = json.at("bandwidth_gib_s"); !bandwidth.is_null())
      outcome.bandwidth_gib_s = bandwidth.get<double>();
    if (const Json& latency = json.at("latency_ns"); !latency.is_null()) {
      outcome.latency_ns.emplace();
      for (const LatencyField& field : latency_fields)
        (*outcome.latency_ns).*field.member = latency.at(field.name).get<double>();
    }
    outcome.operations_per_sample = json.at("operations_per_sample").get<std::uint64_t>();
    if (const Json& counters = json.at("counters"); !counters.is_null())
      outcome.counters = counters.get<CounterValues>();
    if (const Json& missing = json.at("counters_missing"); !missing.is_null())
      outcome.counters_missing = missing.get<std::string>();
    return outcome;
  } catch (const nlohmann::json::exception& failure) {
    return Error{ErrorCode::bad_input, failure.what(), "a point's outcome", ""};
  }
}

Json json_of(const Point& point, const Outcome& outcome) {
  const Ratios ratios = ratios_of(point, outcome);
  Json json;
  json["experiment"] = point.experiment;
  json["inputs"] = json_of(point);
  const Json measured = json_of(outcome);
  json["skipped"] = measured["skipped"];
  json["operations"] = measured["operations"];
  json["seconds"] = measured["seconds"];
  json["bandwidth_gib_s"] = measured["bandwidth_gib_s"];
  json["ebr"] = nullptr;
  json["ewr"] = or_null(ratios.ewr);
  json["err"] = or_null(ratios.err);
  json["rwr"] = or_null(ratios.rwr);
  json["buffer_hit_ratio"] = or_null(ratios.buffer_hit_ratio);
  json["write_amplification"] = or_null(ratios.write_amplification);
  json["latency_ns"] = measured["latency_ns"];
  json["operations_per_sample"] = measured["operations_per_sample"];
  json["counters"] = measured["counters"];
  json["counters_missing"] = measured["counters_missing"];
  return json;
}

namespace {

/// The inputs that a comparison holds equal: all but the one that differs.
std::string key_of(const Point& point, const char* leave_out) {
  Json json = json_of(point);
  json.erase(leave_out);
  return point.experiment + json.dump();
}

struct Comparison {
  const char* experiment;
  const char* quantity;
  const char* differs;  ///< the input that the two points differ in
  const char* base;
  const char* other;
  enum class Form : std::uint8_t { percent_loss, ratio, latency_ratio } form;
};

// percent_loss: (base - other) / base * 100; ratio: base / other.
constexpr Comparison comparisons[] = {
    {"I1", "pstore_over_load", "op", "store+clwb", "load", Comparison::Form::latency_ratio},
    {"I3", "pct_loss_rand_vs_seq", "pattern", "seq", "rand", Comparison::Form::percent_loss},
    {"I4", "pct_loss_remote_vs_local", "node", "local", "remote", Comparison::Form::percent_loss},
    {"I5", "pct_loss_store_vs_pstore", "op", "store+clwb", "store", Comparison::Form::percent_loss},
    {"I6", "seq_over_rand", "pattern", "seq", "rand", Comparison::Form::ratio}};

std::optional<double> value_of(const Comparison& comparison, const Outcome& base,
                               const Outcome& other) {
  if (comparison.form == Comparison::Form::latency_ratio) {
    if (!base.latency_ns || !other.latency_ns || other.latency_ns->mean <= 0) return std::nullopt;
    return base.latency_ns->mean / other.latency_ns->mean;
  }
  if (!base.bandwidth_gib_s || !other.bandwidth_gib_s) return std::nullopt;
  const double a = *base.bandwidth_gib_s;
  const double b = *other.bandwidth_gib_s;
  if (comparison.form == Comparison::Form::ratio)
    return b > 0 ? std::optional(a / b) : std::nullopt;
  return a > 0 ? std::optional((a - b) / a * 100) : std::nullopt;
}

Json derived_of(const std::vector<Point>& points, const std::vector<Outcome>& outcomes) {
  Json derived = Json::array();
  for (const Comparison& comparison : comparisons) {
    std::map<std::string, std::size_t> others;
    for (std::size_t i = 0; i < points.size(); ++i)
      if (points[i].experiment == comparison.experiment &&
          json_of(points[i])[comparison.differs] == comparison.other)
        others[key_of(points[i], comparison.differs)] = i;
    for (std::size_t i = 0; i < points.size(); ++i) {
      if (points[i].experiment != comparison.experiment ||
          json_of(points[i])[comparison.differs] != comparison.base)
        continue;
      const auto other = others.find(key_of(points[i], comparison.differs));
      if (other == others.end()) continue;
      const auto value = value_of(comparison, outcomes[i], outcomes[other->second]);
      Json inputs = json_of(points[i]);
      inputs.erase(comparison.differs);
      derived.push_back({{"experiment", comparison.experiment},
                         {"quantity", comparison.quantity},
                         {"inputs", std::move(inputs)},
                         {"value", or_null(value)}});
    }
  }
  return derived;
}

// A series is what differs in the number of threads only.
Json peaks_of(const std::vector<Point>& points, const std::vector<Outcome>& outcomes) {
  std::map<std::string, std::vector<std::size_t>> series;
  std::vector<std::string> order;
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (!outcomes[i].bandwidth_gib_s || points[i].kind != Kind::bandwidth) continue;
    const std::string key = key_of(points[i], "threads");
    if (!series.contains(key)) order.push_back(key);
    series[key].push_back(i);
  }
  Json peaks = Json::array();
  for (const std::string& key : order) {
    std::vector<std::size_t>& members = series[key];
    if (members.size() < 2) continue;
    std::ranges::stable_sort(members, {}, [&](std::size_t i) { return points[i].threads; });
    const auto bandwidth = [&](std::size_t i) { return *outcomes[i].bandwidth_gib_s; };
    const auto peak = std::ranges::max_element(members, {}, bandwidth);
    Json inputs = json_of(points[*peak]);
    inputs.erase("threads");
    peaks.push_back({{"experiment", points[*peak].experiment},
                     {"inputs", std::move(inputs)},
                     {"threads", points[*peak].threads},
                     {"bandwidth_gib_s", bandwidth(*peak)},
                     {"points_before", peak - members.begin()},
                     {"points_after", members.end() - peak - 1},
                     {"last_over_peak", bandwidth(*peak) > 0
                                            ? Json(bandwidth(members.back()) / bandwidth(*peak))
                                            : Json(nullptr)}});
  }
  return peaks;
}

}  // namespace

void conclude(const std::vector<Point>& points, const std::vector<Outcome>& outcomes,
              Json& document) {
  std::map<std::pair<Memory, bool>, double> best;
  for (std::size_t i = 0; i < points.size(); ++i)
    if (outcomes[i].bandwidth_gib_s) {
      double& largest = best[{points[i].memory, points[i].writes()}];
      largest = std::max(largest, *outcomes[i].bandwidth_gib_s);
    }
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (!outcomes[i].bandwidth_gib_s) continue;
    const double largest = best[{points[i].memory, points[i].writes()}];
    if (largest > 0) document["points"][i]["ebr"] = *outcomes[i].bandwidth_gib_s / largest;
  }
  document["derived"] = derived_of(points, outcomes);
  document["peaks"] = peaks_of(points, outcomes);
}

}  // namespace perdure::probe
