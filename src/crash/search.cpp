// The search: programs made from seeds, each under several schedules, within a budget.
#include <algorithm>
#include <chrono>

#include "crash/session.h"

namespace perdure::crash {
namespace {

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

// Now and then the creation itself is explored, with a bulk load every other time. Half of the
// programs are long, so that large leaves split, run empty and are used again.
ProgramPlan program_plan(const Plan& plan, std::uint64_t seed) {
  ProgramPlan made{.key_kind = plan.key_kind,
                   .threads = plan.threads,
                   .operations = plan.operations,
                   .keys = plan.keys,
                   .preload = plan.preload,
                   .seed = seed,
                   .ordered = plan.subject.info->ordered};
  made.reuse = plan.reuse || seed % 4 == 3;
  if (plan.reuse || (plan.long_programs && (seed % 4 == 1 || seed % 4 == 2))) {
    made.operations = made.operations * 5 / 2;
    made.preload = std::min<unsigned>(made.keys, made.preload * 5 / 2);
  }
  if (seed % 8 == 0) made.preload = 0;
  made.load = seed % 8 == 4;
  return made;
}

namespace {

/// Whose transactions abort: nobody's as often as not, then any.
std::uint8_t software_threads(const Plan& plan, Rng& rng) {
  return plan.transactions && rng.below(2) == 0 ? static_cast<std::uint8_t>(rng.below(256)) : 0;
}

void add(const Case& what, Verdict& verdict, Summary& summary) {
  summary.exploring_seconds += verdict.exploring_seconds;
  ++summary.runs;
  summary.coverage.add(verdict.coverage);
  summary.events += verdict.run.trace.size();
  summary.trace_digest = mix64(summary.trace_digest ^ verdict.trace_digest);
  summary.sites.insert(verdict.sites.begin(), verdict.sites.end());
  if (!verdict.violation) return;
  summary.failed = what;
  summary.violation = std::move(verdict.violation);
}

}  // namespace

Summary explore_many(const Plan& plan, Bench& bench,
                     const std::function<void(const Summary&)>& progress) {
  Summary summary;
  const double began = now_seconds();
  const double end = began + plan.seconds;
  // No run takes more than its share: variety finds more than depth.
  double run_end = end;
  const Stop stop = [&] { return now_seconds() > run_end; };
  const auto spent = [&] {
    summary.seconds = now_seconds() - began;
    // A mutant that no run meets gives no states.
    return summary.seconds >= plan.seconds ||
           std::max(summary.coverage.states, summary.runs) >= plan.most_states;
  };
  const auto one = [&](Case what) {
    if (plan.most_states == ~std::uint64_t{0})
      run_end = std::min(end, now_seconds() + plan.seconds / 8);
    else
      what.bounds.states = plan.most_states - summary.coverage.states;
    Verdict verdict = explore(what, bench, stop);
    add(what, verdict, summary);
    spent();
    progress(summary);
    return verdict.steps;
  };
  const auto some_schedules = [&](Case what, const Steps& steps, unsigned of_each, Rng& rng,
                                  Rng& paths) {
    for (unsigned i = 0; i < of_each && !summary.violation && !spent(); ++i) {
      const auto depth = static_cast<unsigned>(2 + rng.below(plan.depth - 1));
      what.schedule = draw_schedule(steps, plan.threads, depth, i % 2 == 0, rng);
      what.schedule.software = software_threads(plan, paths);
      one(what);
    }
    DepthFirst systematic(steps, plan.threads, plan.preemptions, rng);
    for (unsigned i = 0; i < of_each && !systematic.done(); ++i) {
      if (summary.violation || spent()) break;
      what.schedule = systematic.next();
      what.schedule.software = software_threads(plan, paths);
      systematic.ran(what.schedule, one(what));
    }
  };
  const auto all_schedules = [&](Case what, Rng& rng, Rng& paths) {
    what.schedule.software = software_threads(plan, paths);
    const Steps steps = one(what);
    if (plan.threads == 1) return;
    what.only_threads = !plan.transactions;
    // A mutant may be wrong only beside another thread's change that is interrupted.
    std::vector<Steps> places{steps};
    if (!steps.exposed.empty()) places.emplace_back(steps).exposed.clear();
    for (const Steps& at : places)
      some_schedules(what, at, plan.schedules / static_cast<unsigned>(places.size()), rng, paths);
  };
  for (std::uint64_t seed = plan.seed; !summary.violation && !spent(); ++seed) {
    Case what{plan.subject, {}, {}, plan.domain, plan.bounds, plan.mutation, plan.transactions};
    what.program = generate(program_plan(plan, seed));
    ++summary.programs;
    Rng rng(seed, 6);
    Rng paths(seed, 8);
    if (plan.cuts == 0) all_schedules(what, rng, paths);
    for (unsigned cut = 1; cut <= plan.cuts && !summary.violation && !spent(); ++cut) {
      what.cut = draw_cut_number(rng, cut);
      all_schedules(what, rng, paths);
    }
  }
  summary.time_up = !summary.violation && summary.seconds >= plan.seconds;
  return summary;
}

}  // namespace perdure::crash
