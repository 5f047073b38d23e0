// `crash`: explores what a power cut may leave of an index, replays a finding, or tries the
// explorer on indexes whose flushes and fences are left out in turn.
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <vector>

#include "cli/commands.h"
#include "cli/crash_flags.h"
#include "cli/format.h"
#include "core/output_file.h"
#include "crash/mutation.h"
#include "crash/report.h"
#include "crash/shrink.h"
#include "crash/smells.h"
#include "pm/pm.h"

namespace perdure::cli {
namespace {

using crash::Json;

/// Flushes exist under either domain: the trace is the program's, the domain is the model's.
Result<void> configure(crash::Domain domain) {
  if (domain == crash::Domain::eadr) {
    pm::configure(pm::Durability::eadr);
    return {};
  }
  return pm::configure(pm::Durability::adr, pm::FlushInstruction::clwb);
}

/// The file that --out names, opened before the work; none where it names none.
Result<std::optional<OutputFile>> open_output(const std::string& path) {
  std::optional<OutputFile> output;
  if (path.empty()) return output;
  auto file = OutputFile::open(path);
  if (!file) return file.error();
  output.emplace(std::move(file).value());
  return output;
}

/// Writes to `output`, or to a file at `path` where there is none yet.
Result<void> write_file(std::optional<OutputFile>& output, const std::string& path,
                        const std::string& text) {
  if (!output) {
    auto opened = open_output(path);
    if (!opened) return opened.error();
    output = std::move(opened).value();
  }
  const Result<void> written = output->write(text);
  return written ? output->publish() : written;
}

double per_second(const crash::Summary& summary, std::uint64_t count) {
  return summary.exploring_seconds > 0 ? static_cast<double>(count) / summary.exploring_seconds : 0;
}
double states_per_second(const crash::Summary& summary) {
  return per_second(summary, summary.coverage.states + summary.coverage.recovery_cuts);
}
double recoveries_per_second(const crash::Summary& summary) {
  const crash::Coverage& coverage = summary.coverage;
  return per_second(summary, coverage.states + coverage.recovery_cuts - coverage.alike);
}

/// How many threads the programs have, most of them the first number.
std::vector<unsigned> thread_counts(const crash::Plan& plan) {
  const bool some_more = !plan.chosen.threads && plan.subject.heap == HeapKind::slab;
  if (!some_more) return {plan.threads};
  return {1, 2, plan.subject.is_queue() ? 3U : 6U};
}

std::string threads_text(const crash::Plan& plan) {
  const auto counts = thread_counts(plan);
  if (counts.size() == 1)
    return std::to_string(counts[0]) + (counts[0] == 1 ? " thread" : " threads");
  return print("%u, %u and %u threads", counts[0], counts[1], counts[2]);
}

std::string coverage_text(const crash::Plan& plan, const crash::Summary& summary) {
  const crash::Coverage& c = summary.coverage;
  const double share =
      c.points == 0 ? 0 : 100.0 * static_cast<double>(c.exhausted) / static_cast<double>(c.points);
  std::string text =
      plan.subject.full_name() + ", " + crash::name_of(plan.domain) + ", " +
      (plan.subject.is_queue() ? std::string()
                               : perdure::name_of(plan.key_kind) + std::string(" keys, ")) +
      perdure::name_of(plan.subject.heap) + " heap, " +
      (plan.transactions ? "transactions, " : "") + threads_text(plan) + ", seed " +
      std::to_string(plan.seed) + "\n";
  text += print("  programs %llu, runs (schedules) %llu\n",
                static_cast<unsigned long long>(summary.programs),
                static_cast<unsigned long long>(summary.runs));
  if (summary.stops > 0)
    text += print("  runs with a thread that is stopped for ever %llu\n",
                  static_cast<unsigned long long>(summary.stops));
  if (c.given_up > 0)
    text += print("  runs given up, as too many orders of their operations are possible, %llu\n",
                  static_cast<unsigned long long>(c.given_up));
  text += print("  crash points %llu, of these explored exhaustively %.1f %%, sampled %llu\n",
                static_cast<unsigned long long>(c.points), share,
                static_cast<unsigned long long>(c.sampled));
  text +=
      print("  states %llu (%llu repeats left out), %llu with continued workload and leak check\n",
            static_cast<unsigned long long>(c.states), static_cast<unsigned long long>(c.repeats),
            static_cast<unsigned long long>(c.deep));
  text += print("  cuts inside recovery %llu\n", static_cast<unsigned long long>(c.recovery_cuts));
  text += print("  of both, %llu differ from another only in what nothing reads\n",
                static_cast<unsigned long long>(c.alike));
  text += print("  %.0f states/s, %.0f recoveries/s, %.1f s\n", states_per_second(summary),
                recoveries_per_second(summary), summary.seconds);
  text += print("  trace digest %016llx\n", static_cast<unsigned long long>(summary.trace_digest));
  text +=
      std::string("  left out: ") +
      (plan.transactions ? "" : "hardware transactions (software paths only), ") +
      "schedules beyond few preemptions" +
      (plan.subject.heap == HeapKind::pmdk ? ", switches and reordering inside libpmemobj" : "") +
      (c.sampled > 0 ? ", combinations at the sampled points" : "") + "\n";
  return text;
}

Json json_of(const crash::Plan& plan, const crash::Summary& summary) {
  Json json = {
      {"index", plan.subject.full_name()},
      {"domain", crash::name_of(plan.domain)},
      {"key_kind", plan.subject.is_queue() ? Json(nullptr) : Json(perdure::name_of(plan.key_kind))},
      {"heap", perdure::name_of(plan.subject.heap)},
      {"transactions", plan.transactions},
      {"threads", plan.threads},
      {"thread_counts", thread_counts(plan)},
      {"seed", plan.seed},
      {"programs", summary.programs},
      {"runs", summary.runs},
      {"stopped_runs", summary.stops},
      {"coverage", crash::json_of(summary.coverage)},
      {"seconds", summary.seconds},
      {"states_per_second", states_per_second(summary)},
      {"recoveries_per_second", recoveries_per_second(summary)},
      {"trace_digest", print("%016llx", static_cast<unsigned long long>(summary.trace_digest))},
      {"violation", nullptr}};
  return json;
}

int found_violation(const CrashFlags& flags, const crash::Plan& plan, crash::Summary& summary,
                    crash::Workspace& bench, std::optional<OutputFile>& output) {
  crash::Places places;
  crash::Verdict verdict;
  verdict.violation = summary.violation;
  if (!flags.quiet) std::fprintf(stderr, "perdure: violation found, shrinking ...\n");
  crash::Case small = crash::shrink(*summary.failed, verdict, bench, 20);
  if (verdict.run.trace.empty()) {  // shrinking could not repeat it within its time
    const auto violation = verdict.violation;
    verdict = crash::record(small, bench);
    verdict.violation = violation;
  }
  const crash::Explanation why = crash::explain(small, verdict, bench, places, 15);
  const std::string path = flags.out.empty() ? "crash-" + plan.subject.full_name() + "-" +
                                                   crash::name_of(plan.domain) + "-" +
                                                   std::to_string(plan.seed) + ".json"
                                             : flags.out;
  std::string safe = path;
  if (flags.out.empty()) std::ranges::replace(safe, ':', '-');
  const auto written = write_file(output, safe, crash::write_replay(small, verdict).dump(2) + "\n");
  const std::string told = crash::tell(small, verdict, places, why);
  if (flags.json) {
    Json json = json_of(plan, summary);
    json["violation"] = {{"oracle", name_of(verdict.violation->oracle)},
                         {"what", verdict.violation->what},
                         {"without_loss", verdict.violation->fails_without_loss},
                         {"operations", crash::called_operations(verdict)},
                         {"threads", small.program.threads},
                         {"explanation", crash::name_of(why.kind)},
                         {"repair", why.text},
                         {"text", told},
                         {"replay", written ? Json(safe) : Json(nullptr)}};
    print_result(json_text(json));
  } else {
    print_result(coverage_text(plan, summary) + "\n" + told +
                 (written ? "\nreplay: " + safe + "\n" : "\n"));
  }
  if (!written) report(written.error());
  return exit_violation;
}

int explore(const CrashFlags& flags, const crash::Plan& plan) {
  auto output = open_output(flags.out);
  if (!output) return report(output.error());
  crash::Workspaces benches(plan.subject.heap);
  crash::Workspace& bench = benches.of(plan.subject.pool_bytes);
  if (!bench.ready()) return report(bench.ready().error());
  double told = 0;
  crash::Summary summary =
      crash::explore_in_all_ways(plan, benches, [&](const crash::Summary& now) {
        if (flags.quiet || now.seconds < told + 2) return;
        told = now.seconds;
        std::fprintf(stderr, "perdure: %.0f s, %llu programs, %llu points, %llu states\n",
                     now.seconds, static_cast<unsigned long long>(now.programs),
                     static_cast<unsigned long long>(now.coverage.points),
                     static_cast<unsigned long long>(now.coverage.states));
      });
  if (summary.violation)
    return found_violation(flags, plan, summary, benches.of(summary.failed->subject.pool_bytes),
                           *output);
  crash::Places places;
  const auto smells =
      flags.smells ? crash::find_smells(plan, bench, places) : std::vector<crash::Smell>{};
  if (flags.json) {
    Json json = json_of(plan, summary);
    if (flags.smells) json["smells"] = crash::json_of(smells);
    return print_result(json_text(json));
  }
  return print_result(coverage_text(plan, summary) + "  no violation\n" +
                      (flags.smells ? crash::tell(smells) : ""));
}

int mutate(const CrashFlags& flags, crash::Plan plan) {
  crash::Workspace bench(plan.subject.pool_bytes, plan.subject.heap);
  if (!bench.ready()) return report(bench.ready().error());
  crash::Places places;
  std::string text;
  const auto results =
      crash::mutate(plan, bench, places, flags.place, [&](const crash::MutantResult& result) {
        if (!flags.quiet) std::fprintf(stderr, "perdure: %s\n", crash::show(result).c_str());
      });
  if (results.empty())
    return report({ErrorCode::usage, "no run meets a flush or fence at such a place",
                   "--place " + flags.place, "give a part of FILE:LINE in FUNCTION"});
  unsigned killed = 0;
  unsigned equivalent = 0;
  Json list = Json::array();
  for (const crash::MutantResult& result : results) {
    killed += result.killed ? 1 : 0;
    equivalent += result.equivalent.empty() ? 0 : 1;
    text += crash::show(result) + "\n";
    list.push_back({{"kind", crash::name_of(result.mutation.kind)},
                    {"site", result.place.show()},
                    {"fence", result.is_fence},
                    {"verdict", result.killed               ? "killed"
                                : result.equivalent.empty() ? "survived"
                                                            : "equivalent"},
                    {"why", result.killed ? result.killed_by : result.equivalent}});
  }
  const auto all = static_cast<unsigned>(results.size());
  const unsigned relevant = all - equivalent;
  text += print("%u mutants: %u killed, %u survived, %u equivalent; %.1f %% of the others killed\n",
                all, killed, relevant - killed, equivalent,
                relevant == 0 ? 100.0 : 100.0 * killed / relevant);
  if (flags.json)
    return print_result(Json{{"index", plan.subject.full_name()},
                             {"mutants", list},
                             {"killed", killed},
                             {"survived", relevant - killed},
                             {"equivalent", equivalent}}
                            .dump(2) +
                        "\n");
  return print_result(text);
}

int replay(const CrashFlags& flags) {
  std::ifstream file(flags.replay);
  std::stringstream text;
  text << file.rdbuf();
  if (!file.good())
    return report({ErrorCode::not_found, "cannot be read", flags.replay, "give a replay file"});
  const auto read = crash::read_replay(text.str(), flags.replay);
  if (!read) return report(read.error());
  if (const auto ready = configure(read->what.domain); !ready) return report(ready.error());
  crash::Workspace bench(read->what.subject.pool_bytes, read->what.subject.heap);
  if (!bench.ready()) return report(bench.ready().error());
  crash::Places places;
  crash::Verdict verdict = crash::try_state(read->what, bench, read->event, read->lines);
  if (verdict.trace_digest != read->trace_digest)
    std::fprintf(stderr, "perdure: %s: the trace differs: the code has changed since\n",
                 flags.replay.c_str());
  // The answers of the run itself, and hangs, show without a cut.
  if (!verdict.violation) verdict = crash::explore(read->what, bench, [] { return false; });
  const bool violated = verdict.violation.has_value();
  const crash::Explanation why = crash::explain(read->what, verdict, bench, places, 15);
  std::string told = crash::tell_steps(read->what, verdict, places);
  told +=
      violated ? "\n" + crash::tell(read->what, verdict, places, why) : "no violation: mended\n";
  if (flags.json)
    print_result(Json{{"violation",
                       violated ? Json(crash::name_of(verdict.violation->oracle)) : Json(nullptr)},
                      {"what", violated ? verdict.violation->what : ""},
                      {"same_trace", verdict.trace_digest == read->trace_digest},
                      {"text", told}}
                     .dump(2) +
                 "\n");
  else
    print_result(told);
  return violated ? exit_violation : exit_ok;
}

}  // namespace

int crash_command(const Arguments& arguments) {
  CrashFlags flags;
  if (const auto code = flags.table.read(arguments)) return *code;
  if (!flags.replay.empty()) return replay(flags);
  const auto plan = plan_of(flags);
  if (!plan) return report(plan.error());
  if (const auto ready = configure(plan->domain); !ready) return report(ready.error());
  return flags.mutate.empty() ? explore(flags, *plan) : mutate(flags, *plan);
}

nlohmann::ordered_json crash_flags() { return CrashFlags().table.json(); }

}  // namespace perdure::cli
