// EndChecks: what --verify and --check look at when the repetitions have ended: the whole index
// against its verifier, what a PiBench wrapper did against its interface, and invariants.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "driver/answers_file.h"
#include "driver/indexes.h"
#include "driver/records.h"
#include "driver/run_context.h"
#include "pibench/plugin_index.h"
#include "workload/verify.h"

namespace perdure::driver {

template <class Keys>
class EndChecks {
 public:
  EndChecks(const RunContext& run, Indexes<Keys>& indexes, AnswersFile& answers)
      : run_(run), config_(run.config), indexes_(indexes), answers_(answers) {}

  /// Warns of a wrapper's scans that handed out nothing: nothing shows that their rate is real.
  void note_unchecked_scans() {
    if (config_.plugin.empty() || !config_.workload.mix.has(workload::Operation::scan)) return;
    for (const Instance<Keys>& each : indexes_.all()) {
      const PluginViolations seen = plugin_violations(*each.index);
      if (seen.scans_without_records != 0)
        run_.result.warnings.push_back(std::to_string(seen.scans_without_records) +
                                       " scans handed out no records: they count by the number of "
                                       "records that the wrapper claims, and are not checked");
      if (seen.scans_of_nothing != 0)
        run_.result.warnings.push_back(std::to_string(seen.scans_of_nothing) +
                                       " scans handed out no records and claimed none: they count "
                                       "as failed; the wrapper may have no scan");
    }
  }

  /// Does the checks that the configuration asks for, while no worker runs.
  void check() {
    if (config_.verify)
      for (Instance<Keys>& each : indexes_.all()) check_whole_index(each);
    sum_up();
    for (Instance<Keys>& each : indexes_.all())
      if (config_.check && !run_.result.broken_invariant) check_invariants(*each.index);
  }

  /// Adds up what the verifiers have found so far; also in a run that was interrupted.
  void sum_up() {
    if (!config_.verify || run_.result.verification) return;
    workload::Verifier::Summary& sum = run_.result.verification.emplace();
    for (const Instance<Keys>& each : indexes_.all()) {
      if (!each.verifier) continue;
      const workload::Verifier::Summary summary = each.verifier->summary();
      sum.checked += summary.checked;
      sum.wrong += summary.wrong;
      for (const std::string& example : summary.examples)
        if (sum.examples.size() < workload::Verifier::most_examples)
          sum.examples.push_back(example);
    }
  }

 private:
  void check_whole_index(Instance<Keys>& instance) {
    OrderedIndex<Keys>& index = *instance.index;
    workload::Verifier& verifier = *instance.verifier;
    if (!config_.plugin.empty()) report_violations(index, verifier);
    if (!config_.index.ordered || !hands_out_scans(index)) return;
    run_.progress.show("verify all records", -1, 0);
    workload::FinalCheck check(verifier);
    for_each_record(index, [&](auto key, auto value) {
      check.accept(key, value);
      answers_.add_record(key, value);
    });
    static_cast<void>(check.finish());
    const std::uint64_t size = index.size();
    if (size != check.records())
      verifier.report("size() says " + std::to_string(size) + ", a full scan finds " +
                      std::to_string(check.records()) + " records");
  }

  // What a wrapper did against its interface is as wrong as a wrong answer.
  static void report_violations(OrderedIndex<Keys>& index, workload::Verifier& verifier) {
    const PluginViolations violations = plugin_violations(index);
    const auto report = [&](std::uint64_t count, const char* what) {
      if (count != 0) verifier.report(std::to_string(count) + what);
    };
    report(violations.overruns, " calls wrote outside the value buffer");
    report(violations.exceptions, " calls threw an exception");
    report(violations.impossible_scans, " scans returned what no scan may return");
  }

  // Some wrappers never hand out what they scanned, so their records cannot be walked.
  bool hands_out_scans(OrderedIndex<Keys>& index) {
    if (config_.plugin.empty()) return true;
    typename Keys::Scan scan;
    index.scan({}, 1, scan);
    const PluginViolations seen = plugin_violations(index);
    const bool handed_out = index.size() == 0 || scan.size() != 0 ||
                            (seen.scans_without_records == 0 && seen.scans_of_nothing == 0);
    if (!handed_out)
      run_.result.warnings.emplace_back(
          "the wrapper's scans hand out no records: what it holds at the end is not checked");
    return handed_out;
  }

  void check_invariants(OrderedIndex<Keys>& index) {
    run_.progress.show("check invariants", -1, 0);
    index.quiesce();
    auto checked = index.check_invariants();
    if (checked) return;
    Error error = checked.error();
    error.code = ErrorCode::failed;
    if (error.where.empty()) error.where = config_.index.name;
    run_.result.broken_invariant = std::move(error);
  }

  const RunContext& run_;
  const BenchConfig& config_;
  Indexes<Keys>& indexes_;
  AnswersFile& answers_;
};

}  // namespace perdure::driver
