#include "cli/probe_table.h"

#include <algorithm>
#include <map>
#include <set>

#include "cli/format.h"
#include "core/units.h"

namespace perdure::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string figure(const Json& value, const char* format) {
  return value.is_number() ? print(format, value.get<double>()) : "-";
}

std::string column(const std::string& text, std::size_t width) {
  return std::string(width > text.size() ? width - text.size() : 0, ' ') + text;
}

std::string left(std::string text, std::size_t width) {
  if (text.size() < width) text.resize(width, ' ');
  return text;
}

// What tells this point from its neighbours besides the columns.
std::string detail_of(const Json& point) {
  const Json& inputs = point["inputs"];
  std::string text;
  const auto add = [&text](const std::string& more) { text += (text.empty() ? "" : " ") + more; };
  if (inputs["node"] == "remote") add("remote");
  if (inputs["hit_ratio"].is_number()) add("hits " + figure(inputs["hit_ratio"], "%.2g"));
  if (inputs["variant"].is_string()) add(inputs["variant"].get<std::string>());
  if (inputs["flush"].is_string()) add(inputs["flush"].get<std::string>());
  if (inputs["fence"] != "none") add("fence " + inputs["fence"].get<std::string>());
  if (inputs["mix_reads"] != 0) add("reads " + figure(inputs["mix_reads"], "%.2g"));
  if (inputs["readers"] != 0) add("readers " + inputs["readers"].dump());
  if (inputs["align_bytes"] != 0) add("align " + inputs["align_bytes"].dump());
  if (inputs["stride_bytes"] != 0) add("stride " + inputs["stride_bytes"].dump());
  if (inputs["op_cost_ns"] != 0) add("+" + figure(inputs["op_cost_ns"], "%g") + " ns");
  if (inputs["op_state"] == "stored") add("state stored");
  if (point.contains("cache") && !point["cache"].is_null())
    add("in the L" + point["cache"]["level"].dump() + " cache (" +
        format_bytes(point["cache"]["bytes"].get<std::uint64_t>()) + ")");
  return text;
}

std::string heading() {
  return left("memory", 7) + left("op", 11) + left("pattern", 8) + column("size", 8) +
         column("threads", 8) + column("region", 9) + column("GiB/s", 9) + column("mean ns", 10) +
         column("p50", 9) + column("p99", 9) + column("EWR", 7) + column("ERR", 7) +
         column("hits", 7) + "\n";
}

std::string line_of(const Json& point) {
  const Json& inputs = point["inputs"];
  std::string text = left(inputs["memory"].get<std::string>(), 7) +
                     left(inputs["op"].get<std::string>(), 11) +
                     left(inputs["pattern"].get<std::string>(), 8) +
                     column(format_bytes(inputs["access_size"].get<std::uint64_t>()), 8) +
                     column(inputs["threads"].dump(), 8) +
                     column(format_bytes(inputs["region_bytes"].get<std::uint64_t>()), 9);
  if (point["skipped"].is_string())
    return text + "  skipped: " + point["skipped"].get<std::string>() + "\n";
  const Json& latency = point["latency_ns"];
  const auto of = [&](const char* name) {
    return latency.is_null() ? std::string("-") : figure(latency[name], "%.1f");
  };
  text += column(figure(point["bandwidth_gib_s"], "%.3f"), 9) + column(of("mean"), 10) +
          column(of("p50"), 9) + column(of("p99"), 9) + column(figure(point["ewr"], "%.3f"), 7) +
          column(figure(point["err"], "%.3f"), 7) +
          column(figure(point["buffer_hit_ratio"], "%.3f"), 7);
  return text + "  " + detail_of(point) + "\n";
}

// Threads down, sizes across, for each memory and pattern.
std::string grids_of(const Json& document, const std::string& experiment) {
  std::map<std::string, std::map<std::uint64_t, std::map<std::uint64_t, double>>> grids;
  std::string quantity;
  for (const Json& one : document["derived"]) {
    if (one["experiment"] != experiment || !one["value"].is_number()) continue;
    const Json& inputs = one["inputs"];
    quantity = one["quantity"].get<std::string>();
    grids[inputs["memory"].get<std::string>() + " " + inputs["pattern"].get<std::string>()]
         [inputs["threads"].get<std::uint64_t>()][inputs["access_size"].get<std::uint64_t>()] =
             one["value"].get<double>();
  }
  std::string text;
  for (const auto& [name, rows] : grids) {
    std::set<std::uint64_t> sizes;
    for (const auto& [threads, row] : rows)
      for (const auto& [size, value] : row) sizes.insert(size);
    text += "\n" + left(quantity + ", " + name, 40) + "\n" + left("threads", 9);
    for (const std::uint64_t size : sizes) text += column(format_bytes(size), 9);
    text += "\n";
    for (const auto& [threads, row] : rows) {
      text += left(std::to_string(threads), 9);
      for (const std::uint64_t size : sizes) {
        const auto found = row.find(size);
        text += column(found == row.end() ? "-" : print("%.1f", found->second), 9);
      }
      text += "\n";
    }
  }
  return text;
}

std::string peaks_of(const Json& document, const std::string& experiment) {
  std::string text;
  for (const Json& peak : document["peaks"]) {
    if (peak["experiment"] != experiment || peak["points_after"] == 0) continue;
    const Json& inputs = peak["inputs"];
    text += "peak: " + inputs["memory"].get<std::string>() + " " + inputs["op"].get<std::string>() +
            " " + inputs["pattern"].get<std::string>() + " " +
            format_bytes(inputs["access_size"].get<std::uint64_t>()) + " at " +
            peak["threads"].dump() + " threads, " + figure(peak["bandwidth_gib_s"], "%.2f GiB/s") +
            "; the last point has " + figure(peak["last_over_peak"], "%.2f") + " of it\n";
  }
  return text;
}

}  // namespace

std::string probe_table_of(const Json& document) {
  std::string text = "target " + document["target"].get<std::string>() + "\n";
  for (const Json& experiment : document["experiments"]) {
    const auto name = experiment["name"].get<std::string>();
    text += "\n" + name + ": " + experiment["title"].get<std::string>() + "\n" + heading();
    for (const Json& point : document["points"])
      if (point["experiment"] == name) text += line_of(point);
    if (name == "I4" || name == "I5") text += grids_of(document, name);
    if (const std::string peaks = peaks_of(document, name); !peaks.empty()) text += "\n" + peaks;
  }
  return text;
}

}  // namespace perdure::cli
