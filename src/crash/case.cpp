#include "crash/case.h"

#include <algorithm>

#include "crash/clock.h"

namespace perdure::crash {
namespace {

/// False when no cut of the run can show anything: the program did not go on after its first cut,
/// or the mutant behaves in this run as the original does.
bool is_worth_exploring(const Case& what, const Verdict& verdict) {
  const Recorded& run = verdict.run;
  if (run.trace.empty()) return false;
  if (what.mutation.kind == Mutation::Kind::none || run.hung) return true;
  if (!run.telling.empty())
    return std::find(run.telling.begin() + run.explored_from, run.telling.end(), true) !=
           run.telling.end();
  return verdict.sites.contains({what.mutation.pc, false}) ||
         verdict.sites.contains({what.mutation.pc, true});
}

/// Records the case and, unless its run was wrong already, asks an explorer of it.
template <class Ask>
Verdict examine(const Case& what, Workspace& workspace, Ask&& ask) {
  const std::uint64_t steps_before = workspace.watch().all_steps();
  Verdict verdict = record(what, workspace);
  if (verdict.violation || !is_worth_exploring(what, verdict)) return verdict;
  const double began = now_seconds();
  const Vocabulary vocabulary(what.program);
  workspace.watch().mutate(what.mutation);
  Explorer explorer(what.subject, vocabulary, workspace.image(), workspace.watch(), what.domain,
                    what.bounds);
  verdict.violation = ask(explorer, verdict.run);
  verdict.coverage = explorer.coverage();
  verdict.exploring_seconds = now_seconds() - began;
  verdict.work += workspace.watch().all_steps() - steps_before;
  return verdict;
}

}  // namespace

Verdict explore(const Case& what, Workspace& workspace, const Stop& stop) {
  return examine(what, workspace, [&](Explorer& explorer, const Recorded& run) {
    return explorer.explore(run, what.program.threads, stop);
  });
}

Verdict try_state(const Case& what, Workspace& workspace, std::uint32_t event,
                  const std::vector<LineState>& lines) {
  return examine(what, workspace, [&](Explorer& explorer, const Recorded& run) {
    return explorer.judge_one(run, what.program.threads, event, lines);
  });
}

}  // namespace perdure::crash
