#include "crash/shrink.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <optional>

#include "crash/probe.h"

namespace perdure::crash {
namespace {

/// Whether only an oracle that judges some of the states found it.
bool is_deep(const Violation& violation) {
  return !violation.recovery.empty() || !violation.continued.empty() ||
         info_of(violation.oracle).is_of_few;
}

/// The first operation that was in flight at the cut, or the one that had just returned. Exploring
/// begins where it is called, so a program of thousands of operations is judged at its end only.
std::optional<Operation> culprit_of(const Verdict& verdict) {
  const Violation& violation = *verdict.violation;
  const Trace& trace = verdict.run.trace;
  if (!violation.open.empty()) return verdict.run.operations[std::ranges::min(violation.open)];
  for (std::size_t i = std::min<std::size_t>(violation.event, trace.size()); i-- > 0;)
    if (trace[i].kind == Event::Kind::ret) return verdict.run.operations[trace[i].at];
  return std::nullopt;
}

/// Explores cases with a bounded effort and accepts one in which the same oracle objects.
class Trial {
 public:
  Trial(const Case& what, const Violation& violation, Workspace& workspace, Deadline end)
      : oracle_(violation.oracle),
        is_queue_(what.subject.is_queue()),
        deep_(is_deep(violation)),
        workspace_(workspace),
        end_(end) {}

  /// From now on states before this operation are passed over.
  void begin_at(std::optional<Operation> culprit) { culprit_ = culprit; }

  [[nodiscard]] bool fails(const Case& what, Verdict& verdict) {
    return fails_until(what, verdict, std::chrono::seconds(2));
  }
  /// As above, under the schedule of `what` or another one, or cut in another state first, which is
  /// then put there: what is left out of a program moves its steps, and preemptions and cuts with
  /// them.
  [[nodiscard]] bool fails_somehow(Case& what, Verdict& verdict) {
    if (fails(what, verdict)) return true;
    if (oracle_ == Oracle::progress) return fails_under_one(Preemption::stop, what, verdict);
    if (what.cut != 0 && fails_after_another_cut(what, verdict)) return true;
    if (what.program.threads == 1) return false;
    const bool lock_free = what.subject.progress() == perdure::Progress::lock_free;
    if (lock_free && fails_under_one(Preemption::demote, what, verdict)) return true;
    constexpr unsigned most_schedules = 200;
    constexpr auto most_time = std::chrono::seconds(1);
    const auto stop_at = std::chrono::steady_clock::now() + most_time;
    Case candidate = what;
    candidate.schedule = {.software = what.schedule.software, .pauses = what.schedule.pauses};
    Rng rng(1, 9);
    const Verdict undisturbed = record(candidate, workspace_);
    if (undisturbed.violation) return false;
    const unsigned bound = what.schedule.preemptions.size() > 1 ? 2 : 1;
    DepthFirst schedules(undisturbed.steps, what.program.threads, bound, rng);
    for (unsigned i = 0; i < most_schedules && !schedules.done(); ++i) {
      const auto left = stop_at - std::chrono::steady_clock::now();
      if (left.count() <= 0) return false;
      candidate.schedule = schedules.next();
      candidate.schedule.software = what.schedule.software;
      candidate.schedule.pauses = what.schedule.pauses;
      Steps steps;
      if (fails_until(candidate, verdict, left, &steps)) {
        what = candidate;
        return true;
      }
      schedules.ran(candidate.schedule, steps);
    }
    return false;
  }
  [[nodiscard]] bool time_up() const { return std::chrono::steady_clock::now() > end_; }
  /// The case itself does not fail where few states of a point are tried.
  void try_all_states() { needs_all_ = true; }

 private:
  /// The undisturbed run but for one stop, at each of its steps, or for one switch, beside each of
  /// its locked instructions.
  [[nodiscard]] bool fails_under_one(std::uint8_t disturbance, Case& what, Verdict& verdict) {
    constexpr std::size_t most_steps = 400;
    const Deadline stop_at = deadline_after(1);
    Case candidate = what;
    for (std::uint8_t first = 0; first < what.program.threads; ++first) {
      candidate.schedule = {.first = first, .software = what.schedule.software};
      const Verdict undisturbed = record(candidate, workspace_);
      if (undisturbed.violation) return false;
      std::vector<std::uint64_t> steps(disturbance == Preemption::stop ? undisturbed.steps.count
                                                                       : 0);
      std::iota(steps.begin(), steps.end(), std::uint64_t{1});
      if (steps.empty())
        for (const std::uint64_t step : undisturbed.steps.locks) steps.push_back(step + 1);
      if (steps.size() > most_steps) steps.resize(most_steps);
      for (const std::uint64_t step : steps) {
        const auto left = stop_at - std::chrono::steady_clock::now();
        if (left.count() <= 0) return false;
        candidate.schedule.preemptions = {{step, disturbance}};
        if (!fails_until(candidate, verdict, left)) continue;
        what = candidate;
        return true;
      }
    }
    return false;
  }

  /// The first cut is drawn from the program, so what is left out of it moves the cut elsewhere.
  [[nodiscard]] bool fails_after_another_cut(Case& what, Verdict& verdict) {
    constexpr unsigned most_cuts = 24;
    const Deadline stop_at = deadline_after(1);
    Case candidate = what;
    Rng rng(what.cut, 16);
    for (unsigned i = 0; i < most_cuts; ++i) {
      const auto left = stop_at - std::chrono::steady_clock::now();
      if (left.count() <= 0) return false;
      candidate.cut = draw_cut_number(rng, i);
      if (!fails_until(candidate, verdict, left)) continue;
      what = candidate;
      return true;
    }
    return false;
  }

  /// `steps`: becomes what the run met.
  [[nodiscard]] bool fails_until(const Case& what, Verdict& verdict, Deadline::duration most,
                                 Steps* steps = nullptr) {
    const Deadline stop_at = std::min(end_, std::chrono::steady_clock::now() + most);
    Verdict tried = record(what, workspace_);
    Case bounded = what;
    // What recovery has not flushed is open from there to the end: few lines at a point tell.
    if (what.cut != 0 && !needs_all_) {
      bounded.bounds.product = std::min<std::uint64_t>(what.bounds.product, 8);
      bounded.bounds.lazy = 0;
      bounded.bounds.recrash_states = std::min(what.bounds.recrash_states, 4U);
    }
    const bool explores = oracle_ != Oracle::progress;
    if (explores && !tried.violation && !tried.run.trace.empty() && starts_at_culprit(tried.run))
      tried.violation = Probe(bounded, workspace_, stop_at, true).judge_all(tried.run, deep_);
    if (steps != nullptr) *steps = tried.steps;
    if (!tried.violation || !is_of_the_same(tried.violation->oracle)) return false;
    verdict = std::move(tried);
    return true;
  }

  /// Of a queue, what the continued workload shows a smaller case may show at once.
  [[nodiscard]] bool is_of_the_same(Oracle oracle) const {
    const bool at_once = is_queue_ && oracle_ == Oracle::continued;
    return oracle == oracle_ || (at_once && oracle == Oracle::linearizability);
  }

  /// False where the operation is not called.
  [[nodiscard]] bool starts_at_culprit(Recorded& run) const {
    if (!culprit_) return true;
    for (std::uint32_t i = 0; i < run.trace.size(); ++i)
      if (run.trace[i].kind == Event::Kind::call && is_culprit(run.operations[run.trace[i].at])) {
        run.explored_from = std::max(run.explored_from, i);
        return true;
      }
    return false;
  }
  /// Of whichever thread: operations move to others when threads are dropped.
  [[nodiscard]] bool is_culprit(Operation operation) const {
    operation.thread = culprit_->thread;
    return operation == *culprit_;
  }

  Oracle oracle_;
  bool is_queue_;
  bool deep_;
  Workspace& workspace_;
  Deadline end_;
  std::optional<Operation> culprit_;
  bool needs_all_ = false;
};

/// Removes ever smaller runs of elements while the case still fails.
template <class Element>
void drop_elements(Case& best, Verdict& verdict, std::vector<Element> Program::*list,
                   Trial& trial) {
  for (std::size_t run = std::max<std::size_t>(1, (best.program.*list).size() / 2); run >= 1;
       run /= 2) {
    for (std::size_t at = 0; at < (best.program.*list).size() && !trial.time_up();) {
      Case candidate = best;
      auto& elements = candidate.program.*list;
      const std::size_t end = std::min(elements.size(), at + run);
      elements.erase(elements.begin() + static_cast<std::ptrdiff_t>(at),
                     elements.begin() + static_cast<std::ptrdiff_t>(end));
      if (trial.fails_somehow(candidate, verdict))
        best = std::move(candidate);
      else
        at += run;
    }
    if (run == 1) break;
  }
}

void drop_threads(Case& best, Verdict& verdict, Trial& trial) {
  for (unsigned threads = 1; threads < best.program.threads && !trial.time_up(); ++threads) {
    Case candidate = best;
    candidate.program.threads = threads;
    candidate.schedule.first = 0;
    std::erase_if(candidate.schedule.order,
                  [threads](std::uint8_t thread) { return thread >= threads; });
    for (Operation& operation : candidate.program.operations)
      operation.thread = static_cast<std::uint8_t>(operation.thread % threads);
    if (trial.fails_somehow(candidate, verdict)) {
      best = std::move(candidate);
      return;
    }
  }
}

void drop_preemptions(Case& best, Verdict& verdict, Trial& trial) {
  for (std::size_t i = 0; i < best.schedule.preemptions.size() && !trial.time_up();) {
    Case candidate = best;
    candidate.schedule.preemptions.erase(candidate.schedule.preemptions.begin() +
                                         static_cast<std::ptrdiff_t>(i));
    if (trial.fails(candidate, verdict))
      best = std::move(candidate);
    else
      ++i;
  }
}

void drop_cut(Case& best, Verdict& verdict, Trial& trial) {
  if (best.cut == 0 || trial.time_up()) return;
  Case candidate = best;
  candidate.cut = 0;
  if (trial.fails_somehow(candidate, verdict)) best = std::move(candidate);
}

/// Leaves out what is called after the cut.
void drop_the_rest(Case& best, Verdict& verdict, Trial& trial) {
  Case candidate = best;
  std::vector<bool> called(verdict.run.operations.size(), false);
  for (const std::uint32_t number : called_in(verdict.run.trace, 0, verdict.violation->event))
    called[number] = true;
  std::size_t number = 1 + best.program.preload.size();
  std::erase_if(candidate.program.operations, [&](const Operation&) { return !called[number++]; });
  if (candidate.program.operations.size() == best.program.operations.size()) return;
  if (trial.fails_somehow(candidate, verdict)) best = std::move(candidate);
}

/// Brings lost lines and stores back while the same state still violates.
void drop_lines(const Case& best, Verdict& verdict, Workspace& workspace, double seconds) {
  const Recorded& run = verdict.run;
  Violation& violation = *verdict.violation;
  Probe probe(best, workspace, deadline_after(seconds), !violation.recovery.empty());
  if (run.trace.empty()) return;
  if (const Events lost = lost_in(violation.lines); !lost.empty()) {
    const Events fewer = probe.fewest(run, violation.event, lost);
    auto smaller = probe.judge(run, violation.event, fewer);
    if (smaller) violation = std::move(*smaller);
  }
  if (violation.recovery.empty()) return;
  std::uint32_t event = 0;
  Events lost;
  const Recorded recovery = probe.recovery_of(run, violation, event, lost);
  const std::uint32_t told = event - violation.recovery_event;
  auto smaller = probe.judge(recovery, event, probe.fewest(recovery, event, lost));
  if (!smaller || !smaller->recovery.empty()) return;
  for (LineState& line : smaller->lines)
    for (Events* const events : {&line.lost, &line.kept})
      for (std::uint32_t& each : *events) each -= told;
  violation.recovery_lines = std::move(smaller->lines);
}

}  // namespace

Case shrink(const Case& failed, Verdict& verdict, Workspace& workspace, double seconds) {
  Case best = failed;
  if (!verdict.violation) return best;
  Trial trial(best, *verdict.violation, workspace, deadline_after(seconds));
  // The state that was found, without exploring; it may be of a large program.
  const Violation found = *verdict.violation;
  Verdict first = try_state(best, workspace, found.event, found.lines);
  const bool repeated = first.violation.has_value();
  if (repeated)
    verdict = std::move(first);
  else if (!trial.fails(best, verdict)) {
    trial.try_all_states();
    if (!trial.fails(best, verdict)) return best;
  }
  trial.begin_at(culprit_of(verdict));
  drop_the_rest(best, verdict, trial);
  for (bool smaller = true; smaller && !trial.time_up();) {
    const auto size = [&] {
      return best.program.operations.size() + best.program.preload.size() +
             best.schedule.preemptions.size() + best.program.threads + (best.cut != 0 ? 1 : 0);
    };
    const std::size_t before = size();
    drop_cut(best, verdict, trial);
    drop_threads(best, verdict, trial);
    drop_elements(best, verdict, &Program::operations, trial);
    drop_elements(best, verdict, &Program::preload, trial);
    drop_preemptions(best, verdict, trial);
    smaller = size() < before;
  }
  drop_lines(best, verdict, workspace, seconds);
  return best;
}

}  // namespace perdure::crash
