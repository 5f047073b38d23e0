// The search: programs made from seeds, each under several schedules, within a budget.
#include <algorithm>
#include <functional>
#include <span>

#include "crash/clock.h"
#include "crash/growth.h"
#include "crash/ways.h"

namespace perdure::crash {
// One seed in eight explores the creation itself, one a bulk load. Half of the programs are long,
// so that large leaves split, run empty and are used again.
ProgramPlan program_plan(const Plan& plan, std::uint64_t seed) {
  ProgramPlan made{.key_kind = plan.key_kind,
                   .threads = plan.threads,
                   .operations = plan.operations,
                   .keys = plan.keys,
                   .preload = plan.preload,
                   .seed = seed,
                   .ordered = plan.subject.ordered(),
                   .replaces = plan.subject.replaces(),
                   .queue = plan.subject.is_queue()};
  made.reuse = plan.reuse || seed % 4 == 3;
  if (plan.reuse || (plan.long_programs && (seed % 4 == 1 || seed % 4 == 2))) {
    made.operations = made.operations * 5 / 2;
    made.preload = std::min<unsigned>(made.keys, made.preload * 5 / 2);
  }
  if (seed % 8 == 0) made.preload = 0;
  made.load = seed % 8 == 4;
  // Beside few operations others meet an empty queue, and a full one, more often.
  if (plan.subject.is_queue() && plan.threads > 1 && !plan.chosen.operations && seed % 2 == 0)
    made.operations = plan.operations / (seed % 4 == 0 ? 4 : 2);
  made.batch = plan.batch;
  made.crowded = plan.shape == Shape::crowded;
  return made;
}

namespace {

/// The threads whose transactions abort: half of the time none, else any.
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

// What things cost, in about microseconds of a common machine. The shares of ways follow this and
// no clock, so that the same seed gives the same programs everywhere.

double cost_of_pool(const Plan& plan) {
  constexpr double a_kilobyte = 1;
  return static_cast<double>(plan.subject.pool_bytes >> 10) * a_kilobyte;
}

double cost_of_events(std::size_t events) {
  constexpr double an_event = 0.3;
  return static_cast<double>(events) * an_event;
}

double cost_of(const Case& what, const Plan& plan, const Verdict& verdict) {
  constexpr double a_known_state = 2;
  constexpr double a_recovery = 20;
  constexpr double a_step = 0.01;
  const Coverage& coverage = verdict.coverage;
  const auto alike = static_cast<double>(coverage.alike);
  const auto recovered = static_cast<double>(coverage.states + coverage.recovery_cuts) - alike;
  return cost_of_pool(plan) * (what.cut != 0 ? 2 : 1) + cost_of_events(verdict.run.trace.size()) +
         alike * a_known_state + recovered * a_recovery +
         static_cast<double>(verdict.work) * a_step;
}

/// One budget, which programs are explored within.
class Search {
 public:
  Search(const Plan& budget, const Progress& progress)
      : seconds_(budget.seconds), most_states_(budget.most_states), progress_(progress) {}

  /// No run takes more than this of the time: variety finds more than depth.
  void bound_runs(double share) { share_ = share; }

  /// The program that the plan makes of the seed, under all its schedules. Returns the cost.
  double program(const Plan& plan, Workspace& workspace, std::uint64_t seed);

  [[nodiscard]] bool is_over() {
    summary_.seconds = now_seconds() - began_;
    // A mutant that no run meets gives no states.
    return summary_.violation || summary_.seconds >= seconds_ ||
           std::max(summary_.coverage.states, summary_.runs) >= most_states_;
  }
  [[nodiscard]] Summary end() {
    summary_.time_up = !summary_.violation && summary_.seconds >= seconds_;
    return std::move(summary_);
  }

 private:
  struct Draws {
    Rng schedules;
    Rng paths;   ///< elided or not
    Rng pauses;  ///< of threads that wait
    Rng stops;   ///< of threads for ever
  };
  struct Place {
    const Plan& plan;
    Workspace& workspace;
    Draws& draws;
  };
  Steps one(Case what, const Place& place);
  void some_schedules(Case what, const Steps& steps, unsigned of_each, const Place& place);
  void some_stops(Case what, const Steps& steps, const Place& place);
  void all_schedules(Case what, const Place& place);

  double seconds_;
  std::uint64_t most_states_;
  const Progress& progress_;
  double share_ = 1.0 / 8;
  double began_ = now_seconds();
  double cost_ = 0;  ///< of the program
  Summary summary_;
};

Steps Search::one(Case what, const Place& place) {
  double run_end = began_ + seconds_;
  if (most_states_ == ~std::uint64_t{0})
    run_end = std::min(run_end, now_seconds() + seconds_ * share_);
  else
    what.bounds.states = std::min(what.bounds.states, most_states_ - summary_.coverage.states);
  Verdict verdict = explore(what, place.workspace, [&] { return now_seconds() > run_end; });
  cost_ += cost_of(what, place.plan, verdict);
  add(what, verdict, summary_);
  static_cast<void>(is_over());
  progress_(summary_);
  return verdict.steps;
}

void Search::some_schedules(Case what, const Steps& steps, unsigned of_each, const Place& place) {
  const Plan& plan = place.plan;
  Draws& draws = place.draws;
  const auto run = [&](const Schedule& schedule) {
    what.schedule = schedule;
    what.schedule.software = software_threads(plan, draws.paths);
    what.schedule.pauses = draw_pauses(draws.pauses);
    return one(what, place);
  };
  static constexpr Near among_locks[] = {Near::flushes, Near::locks, Near::flushes, Near::anything};
  // Without locks the updated words are where operations take effect.
  static constexpr Near without[] = {Near::locks, Near::flushes, Near::locks, Near::locks};
  const bool lock_free = plan.subject.progress() == perdure::Progress::lock_free;
  const std::span<const Near, 4> turns = lock_free ? without : among_locks;
  for (unsigned i = 0; i < of_each && !is_over(); ++i) {
    const auto depth = static_cast<unsigned>(2 + draws.schedules.below(plan.depth - 1));
    // In a crowd, threads meet beside changes of structure, wherever these have flushed.
    const Near near = plan.shape == Shape::crowded && i == 0 ? Near::locks : turns[i % 4];
    run(draw_schedule(steps, plan.threads, depth, near, draws.schedules));
  }
  DepthFirst systematic(steps, plan.threads, plan.preemptions, draws.schedules);
  for (unsigned i = 0; i < of_each && !systematic.done() && !is_over(); ++i) {
    const Schedule schedule = systematic.next();
    const Steps met = run(schedule);
    systematic.ran(schedule, met);
  }
}

// Each thread at each of its steps, or as many of these as there is time for, evenly spread: once
// with nothing else disturbed, once among other switches.
void Search::some_stops(Case what, const Steps& steps, const Place& place) {
  constexpr std::uint64_t stops = 8;
  constexpr unsigned points = 2;  // states are explored under other schedules
  what.bounds.points = points;
  Rng& rng = place.draws.stops;
  const std::uint64_t apart = std::max<std::uint64_t>(1, steps.count / stops);
  for (std::uint64_t step = 1; step <= steps.count && !is_over(); step += apart)
    for (const bool disturbed : {false, true}) {
      Schedule schedule{.first = static_cast<std::uint8_t>(rng.below(place.plan.threads))};
      if (disturbed) schedule = draw_schedule(steps, place.plan.threads, 2, Near::anything, rng);
      what.schedule = with_stop(std::move(schedule), step + rng.below(apart));
      one(what, place);
      ++summary_.stops;
      if (is_over()) return;
    }
}

void Search::all_schedules(Case what, const Place& place) {
  const Plan& plan = place.plan;
  what.schedule.software = software_threads(plan, place.draws.paths);
  const Steps steps = one(what, place);
  if (plan.threads == 1) return;
  what.only_threads = !plan.transactions;
  const bool is_mutant = what.mutation.kind != Mutation::Kind::none;
  if (plan.subject.progress() == perdure::Progress::lock_free && !is_mutant)
    some_stops(what, steps, place);
  // A mutant may be wrong only beside another thread's change that is interrupted.
  std::vector<Steps> places{steps};
  if (!steps.exposed.empty()) places.emplace_back(steps).exposed.clear();
  for (const Steps& at : places)
    some_schedules(what, at, plan.schedules / static_cast<unsigned>(places.size()), place);
}

double Search::program(const Plan& plan, Workspace& workspace, std::uint64_t seed) {
  cost_ = 0;
  Case what{plan.subject, {}, {}, plan.domain, plan.bounds, plan.mutation, plan.transactions};
  if (plan.shape == Shape::growing) {
    std::size_t events = 0;
    what.program = draw_growth(plan, seed, workspace, events);
    make_batches(what.program, plan.batch);
    cost_ += cost_of_pool(plan) + cost_of_events(events);
  } else {
    what.program = generate(program_plan(plan, seed));
  }
  ++summary_.programs;
  Draws draws{Rng(seed, 6), Rng(seed, 8), Rng(seed, 15), Rng(seed, 19)};
  const Place place{plan, workspace, draws};
  if (plan.cuts == 0) all_schedules(what, place);
  for (unsigned cut = 1; cut <= plan.cuts && !is_over(); ++cut) {
    what.cut = draw_cut_number(draws.schedules, cut);
    all_schedules(what, place);
  }
  return cost_;
}

}  // namespace

Summary explore_many(const Plan& plan, Workspace& workspace, const Progress& progress) {
  Search search(plan, progress);
  for (std::uint64_t seed = plan.seed; !search.is_over(); ++seed)
    static_cast<void>(search.program(plan, workspace, seed));
  return search.end();
}

// The next program belongs to the way that has used least of its share. The plan's own way begins
// with a few programs, because most defects show there at once; the others follow, those with large
// shares first. Which of those with small shares comes first depends on the seed, because a short
// budget does not reach them all.
Summary explore_in_all_ways(const Plan& plan, Workspaces& workspaces, const Progress& progress) {
  struct State {
    Plan plan;
    double share;
    std::uint64_t seed;
    double spent;
  };
  constexpr double before_the_second = 150'000;  // of cost
  constexpr double before_each_other = 50'000;
  std::vector<State> ways;
  Planner planner(plan);
  for (Planner::Planned& each : planner.all())
    ways.push_back({std::move(each.plan), static_cast<double>(each.share), plan.seed, 0});
  std::ranges::stable_sort(ways, std::greater<>(), &State::share);
  const auto small = std::ranges::find_if(
      ways, [&](const State& way) { return way.share <= ways.front().share / 12; });
  if (small != ways.end())
    std::rotate(small,
                small + static_cast<std::ptrdiff_t>(plan.seed %
                                                    static_cast<std::uint64_t>(ways.end() - small)),
                ways.end());
  for (std::size_t i = 1; i < ways.size(); ++i)
    ways[i].spent =
        (before_the_second + before_each_other * static_cast<double>(i - 1)) / ways.front().share;
  Search search(plan, progress);
  while (!search.is_over()) {
    State& next = *std::ranges::min_element(ways, {}, &State::spent);
    search.bound_runs(&next == &ways.front() ? 1.0 / 8 : 1.0 / 24);
    const double cost =
        search.program(next.plan, workspaces.of(next.plan.subject.pool_bytes), next.seed++);
    next.spent += cost / next.share;
  }
  return search.end();
}

}  // namespace perdure::crash
