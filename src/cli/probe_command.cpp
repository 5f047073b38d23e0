#include <algorithm>
#include <cstdio>
#include <map>
#include <optional>
#include <utility>

#include "cli/commands.h"
#include "cli/probe_flags.h"
#include "cli/probe_table.h"
#include "core/output_file.h"
#include "core/units.h"
#include "driver/build_info.h"
#include "driver/caches.h"
#include "probe/document.h"

namespace perdure::cli {
namespace {

using probe::Json;

Json build_of() {
  const driver::BuildInfo& build = driver::build_info();
  return {{"version", build.version},   {"commit", build.commit}, {"dirty", build.dirty},
          {"compiler", build.compiler}, {"flags", build.flags},   {"type", build.type}};
}

// A probe none of whose points could be measured is skipped, with the first point's reason.
Json experiments_of(const ProbeRequest& request, const std::vector<probe::Point>& points,
                    const std::vector<probe::Outcome>& outcomes) {
  Json experiments = Json::array();
  for (const std::string& name : request.names) {
    std::size_t number = 0;
    std::size_t skipped = 0;
    Json reason = nullptr;
    for (std::size_t i = 0; i < points.size(); ++i) {
      if (points[i].experiment != name) continue;
      ++number;
      if (!outcomes[i].skipped) continue;
      if (skipped++ == 0) reason = *outcomes[i].skipped;
    }
    const auto& all = probe::probes();
    const auto found =
        std::ranges::find_if(all, [&](const probe::Probe& one) { return name == one.name; });
    experiments.push_back({{"name", name},
                           {"title", found == all.end() ? "" : found->title},
                           {"points", number},
                           {"points_skipped", skipped},
                           {"skipped", skipped == number ? reason : Json(nullptr)}});
  }
  return experiments;
}

// Natively only: a simulated document holds nothing of the host, and the model's own counters say
// what its caches answered.
void note_caches(const std::vector<probe::Point>& points, Json& document) {
  const auto levels = driver::cache_levels();
  for (std::size_t i = 0; i < points.size(); ++i) {
    Json& point = document["points"][i];
    point["cache"] = nullptr;
    if (!point["skipped"].is_null()) continue;
    if (const auto cache = driver::cache_that_answers(points[i], levels))
      point["cache"] = {{"level", cache->level}, {"bytes", cache->bytes}};
  }
}

/// A line for each level that answered in place of the memory.
void warn_of_caches(const Json& document) {
  std::map<std::uint64_t, std::pair<std::size_t, const Json*>> found;  // level -> points, the first
  for (const Json& point : document["points"]) {
    if (!point.contains("cache") || point["cache"].is_null()) continue;
    auto& [count, first] = found[point["cache"]["level"].get<std::uint64_t>()];
    if (count++ == 0) first = &point;
  }
  for (const auto& [level, points] : found)
    std::fprintf(
        stderr,
        "perdure: warning: %zu of %zu points measure the L%llu cache (%s each) and no memory: "
        "their region (%s) fits it; give a larger --region\n",
        points.first, document["points"].size(), static_cast<unsigned long long>(level),
        format_bytes((*points.second)["cache"]["bytes"].get<std::uint64_t>()).c_str(),
        format_bytes((*points.second)["inputs"]["region_bytes"].get<std::uint64_t>()).c_str());
}

Json document_of(const ProbeRequest& request, const driver::ProbeTarget& target,
                 const std::vector<probe::Point>& points,
                 const std::vector<probe::Outcome>& outcomes) {
  std::string probes;
  for (const std::string& name : request.names) probes += (probes.empty() ? "" : ",") + name;
  Json document;
  document["schema"] = probe::document_schema;
  document["probe"] = probes;
  document["target"] = request.options.target;
  document.update(target.facts());
  document["seed"] = request.options.seed;
  document["quick"] = request.options.quick;
  document["build"] = build_of();
  document["experiments"] = experiments_of(request, points, outcomes);
  document["points"] = Json::array();
  for (std::size_t i = 0; i < points.size(); ++i)
    document["points"].push_back(probe::json_of(points[i], outcomes[i]));
  if (request.options.target == "native") note_caches(points, document);
  probe::conclude(points, outcomes, document);
  return document;
}

int print_plan(const std::vector<probe::Point>& points, bool json) {
  Json plan = Json::array();
  for (const probe::Point& point : points)
    plan.push_back({{"experiment", point.experiment}, {"inputs", probe::json_of(point)}});
  if (json) return print_result(json_text(plan));
  std::string text;
  for (const Json& one : plan)
    text += one["experiment"].get<std::string>() + " " + one["inputs"].dump() + "\n";
  return print_result(text);
}

}  // namespace

int probe_command(const Arguments& arguments) {
  ProbeFlags flags;
  if (const auto code = flags.table.parse(arguments)) return *code;
  const auto request = resolve(flags);
  if (!request) return report(request.error());
  auto target = driver::open_probe_target(request->options);
  if (!target) return report(target.error());
  const auto points = points_of(*request, (*target)->defaults());
  if (!points) return report(points.error());
  if (flags.dry_run) return print_plan(*points, flags.json);
  std::optional<OutputFile> output;
  if (flags.output) {
    auto file = OutputFile::open(*flags.output);
    if (!file) return report(file.error());
    output.emplace(std::move(file).value());
  }

  const auto progress = [&](std::size_t done) {
    if (!flags.quiet) std::fprintf(stderr, "\rprobe: %zu of %zu points", done, points->size());
    if (!flags.quiet && done == points->size()) std::fputs("\n", stderr);
  };
  const auto outcomes = (*target)->measure(*points, progress);
  if (!outcomes) {
    if (!flags.quiet) std::fputs("\n", stderr);
    return report(outcomes.error());
  }
  const Json document = document_of(*request, **target, *points, *outcomes);
  // Paths and reasons may be any bytes.
  const std::string text = json_text(document);
  if (!flags.quiet) warn_of_caches(document);
  const int code = print_result(flags.json ? text : probe_table_of(document));
  if (!output) return code;
  Result<void> written = output->write(text);
  if (written) written = output->publish();
  return written ? code : report(written.error());
}

}  // namespace perdure::cli
