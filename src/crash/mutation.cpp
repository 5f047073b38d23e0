#include "crash/mutation.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "crash/ways.h"

namespace perdure::crash {

const char* name_of(Mutation::Kind kind) noexcept {
  static constexpr const char* names[] = {"none", "drop", "retarget", "late"};
  return names[static_cast<std::size_t>(kind)];
}

namespace {

constexpr Mutation::Kind kinds[] = {Mutation::Kind::drop, Mutation::Kind::retarget,
                                    Mutation::Kind::late};

/// What the sound runs show about one site, for arguments that hold for every crash state.
struct Evidence {
  bool met = false;
  bool locked_follows = true;  ///< E1
  bool same_line = true;       ///< E2
  bool nothing_waits = true;   ///< E3
};

// E1  after the fence the same thread executes a locked instruction or another fence before it
//     stores or returns: that raises the same floors, with nothing in between that could be cut.
bool locked_follows(const Trace& trace, std::size_t fence) {
  for (std::size_t i = fence + 1; i < trace.size(); ++i) {
    const Event& event = trace[i];
    if (event.kind == Event::Kind::run) return false;
    if (is_fence(event)) return true;
    if (is_store(event) || event.kind == Event::Kind::ret) return false;
  }
  return false;
}

/// The fence that a flush waits for, if it is the thread's first to raise a floor; a fence's own.
/// What is stored in between, by whomever, may be taken along by a later flush, which only leaves
/// fewer states.
std::size_t fence_of(const Trace& trace, std::size_t site) {
  for (std::size_t i = site; i < trace.size(); ++i) {
    if (trace[i].thread != trace[site].thread) continue;
    if (trace[i].kind == Event::Kind::fence) return i;
    if (trace[i].kind == Event::Kind::locked) break;
  }
  return trace.size();
}

// E2  between this flush or fence and the thread's next flush and fence of the same line, only that
//     line is stored to, and nothing else waits for the fence: the line's prefix order says the
//     same.
bool same_line(const Trace& trace, std::size_t site) {
  // The line: a flush names it; a fence's is that of the flushes directly before it.
  std::size_t flush = site;
  while (flush > 0 && trace[flush].kind == Event::Kind::fence) --flush;
  if (trace[flush].kind != Event::Kind::flush) return false;
  const std::uint32_t line = trace[flush].at / line_bytes;
  if (flush > 0 && trace[site].kind == Event::Kind::fence)
    for (std::size_t i = flush; i-- > 0;) {  // every capture since the fence before
      if (trace[i].thread != trace[site].thread) return false;
      if (is_fence(trace[i])) break;
      if (trace[i].kind == Event::Kind::flush && trace[i].at / line_bytes != line) return false;
    }
  bool flushed = false;
  for (std::size_t i = site + 1; i < trace.size(); ++i) {
    const Event& event = trace[i];
    if (event.kind == Event::Kind::run || event.kind == Event::Kind::ret) return false;
    if (is_store(event) && event.at / line_bytes != line) return false;
    if (event.kind == Event::Kind::flush) {
      if (event.at / line_bytes != line) return false;
      flushed = true;
    }
    if ((is_fence(event)) && flushed) return true;
  }
  return false;
}

// E3  a fence for which its thread has flushed, streamed or, under eADR, stored nothing since its
//     last fence or locked instruction: it raises no floor, and is there for other threads.
bool nothing_waits(const Trace& trace, std::size_t fence, Domain domain) {
  for (std::size_t i = fence; i-- > 0;) {
    const Event& event = trace[i];
    if (event.thread != trace[fence].thread) continue;
    if (is_fence(event)) return true;
    if (event.kind == Event::Kind::flush || event.kind == Event::Kind::stream ||
        (event.kind == Event::Kind::store && domain == Domain::eadr))
      return false;
  }
  return true;
}

void look(const Trace& trace, const Site& site, Mutation::Kind kind, Domain domain,
          Evidence& evidence) {
  for (std::size_t i = 0; i < trace.size(); ++i) {
    if (trace[i].pc != site.pc) continue;
    const bool fence = trace[i].kind == Event::Kind::fence;
    if (!fence && trace[i].kind != Event::Kind::flush) continue;
    evidence.met = true;
    const std::size_t next_fence = fence_of(trace, i);
    const bool only_delays = fence || kind == Mutation::Kind::late;
    if (!only_delays || next_fence == trace.size() || !locked_follows(trace, next_fence))
      evidence.locked_follows = false;
    // A flush aimed elsewhere is one left out, and a needless one besides: fewer states, none new.
    if (!same_line(trace, i)) evidence.same_line = false;
    if (!fence || !nothing_waits(trace, i, domain)) evidence.nothing_waits = false;
  }
}

std::string argument(const Evidence& evidence) {
  if (!evidence.met) return {};
  if (evidence.locked_follows)
    return "a fence or locked instruction of the same thread follows before it stores or returns";
  if (evidence.nothing_waits)
    return "the thread has flushed nothing since its last fence or locked instruction: it is there "
           "for other threads";
  if (evidence.same_line)
    return "only the same line is stored to until its next flush and fence: its stores persist in "
           "order anyway";
  return {};
}

/// A few sound runs. Whether their flushes and fences are met depends on no clock.
class Sound {
 public:
  Sound(const Plan& plan, Workspace& workspace) : plan_(plan), workspace_(workspace) {
    look_at(plan.threads);
    if (plan.threads == 1) look_at(2);
  }
  /// What all of these runs show about a site.
  [[nodiscard]] Evidence evidence(const Site& site, Mutation::Kind kind) const {
    const auto at = evidence_.find({site, kind});
    return at == evidence_.end() ? Evidence{} : at->second;
  }
  [[nodiscard]] std::set<Site> sites() const {
    std::set<Site> all;
    for (const auto& [how, sites] : met_) all.insert(sites.begin(), sites.end());
    return all;
  }
  /// `cut`: after a cut and the recovery from it.
  [[nodiscard]] bool meets(const Site& site, unsigned threads, bool cut) const {
    const auto at = met_.find({threads, cut});
    return at != met_.end() && at->second.contains(site);
  }

 private:
  void look_at(unsigned threads) {
    constexpr std::uint64_t programs = 40;
    Plan plan = plan_;
    plan.threads = threads;
    for (std::uint64_t seed = plan.seed; seed < plan.seed + programs; ++seed) {
      Case what{plan.subject, {}, {}, plan.domain, plan.bounds, {}};
      what.program = generate(program_plan(plan, seed));
      Rng rng(seed, 10);
      for (unsigned cut = 0; cut <= plan.cuts; ++cut) {
        what.cut = cut == 0 ? 0 : draw_cut_number(rng, cut);
        what.schedule = {};
        const Steps steps = record_one(what);
        // What is done for another thread's sake needs one that is interrupted.
        constexpr unsigned schedules = 4;
        DepthFirst systematic(steps, threads, plan.preemptions, rng);
        for (unsigned i = 0; threads > 1 && i < schedules && !systematic.done(); ++i) {
          what.schedule = systematic.next();
          systematic.ran(what.schedule, record_one(what));
        }
      }
    }
  }
  Steps record_one(const Case& what) {
    Verdict verdict = record(what, workspace_);
    for (const Site& site : verdict.sites)
      for (const Mutation::Kind kind : kinds)
        look(verdict.run.trace, site, kind, plan_.domain, evidence_[{site, kind}]);
    met_[{what.program.threads, what.cut != 0}].merge(verdict.sites);
    return verdict.steps;
  }

  const Plan& plan_;
  Workspace& workspace_;
  std::map<std::pair<Site, Mutation::Kind>, Evidence> evidence_;
  std::map<std::pair<unsigned, bool>, std::set<Site>> met_;
};

/// The ways in which the sound program meets the site. With one thread, those of two as well: what
/// the release of a lock shows too early only another thread can see.
std::vector<Way> ways_for(const Plan& plan, const Sound& sound, const Site& site) {
  std::vector<Way> ways;
  const auto add = [&](unsigned threads) {
    for (const Share& each : ways_of(threads, plan.subject)) {
      const bool full = each.way.room && threads != plan.threads;
      // What these change is no flush's or fence's.
      const bool other = each.way.shape == Shape::crowded || each.way.nodes == Nodes::least;
      if (!full && !other && sound.meets(site, threads, each.way.cut)) ways.push_back(each.way);
    }
  };
  add(plan.threads);
  if (plan.threads == 1) add(2);
  const unsigned many = std::max(6U, plan.threads);
  if (plan.subject.heap == HeapKind::slab && !plan.subject.is_queue() &&
      sound.meets(site, plan.threads, false))
    ways.push_back(large_pool_way(many).way);
  return ways;
}

/// The violation of a short exploration without a change, which should have none.
std::optional<MutantResult> objection(const Plan& plan, Workspace& workspace) {
  const Summary sound = explore_many(plan, workspace, [](const Summary&) {});
  if (!sound.violation) return std::nullopt;
  const Case& failed = *sound.failed;
  std::string how = "without any change, " + std::to_string(plan.threads) + " threads, " +
                    std::to_string(plan.keys) + " keys, pool of " +
                    std::to_string(plan.subject.pool_bytes >> 10) + " KiB, seed " +
                    std::to_string(failed.program.universe);
  if (failed.cut != 0) how += ", cut " + std::to_string(failed.cut);
  return MutantResult{{},
                      false,
                      {},
                      true,
                      how + ": " + name_of(sound.violation->oracle) + ": " + sound.violation->what,
                      sound.coverage.states};
}

/// Tries one mutant until it is killed.
class Hunt {
 public:
  Hunt(const Plan& plan, Workspace& workspace) : plan_(plan), workspace_(workspace) {}

  /// A violation that the sound program shows in one of the ways: there it would kill any mutant.
  [[nodiscard]] std::optional<MutantResult> objection_to(const std::vector<Way>& ways) {
    for (const Way& way : ways) {
      if (std::ranges::find(passed_, way) != passed_.end()) continue;
      const Plan plan = plan_of(way, 1.0 / 8);
      if (auto objected = objection(plan, workspace_of(plan.subject.pool_bytes))) return objected;
      passed_.push_back(way);
    }
    return std::nullopt;
  }

  void run(const std::vector<Way>& ways, MutantResult& result) {
    // The programs that have killed others of the place may kill this one.
    for (const Killer& killer : std::vector(killers_[result.place.show()])) {
      std::uint64_t seed = killer.seed;
      run(killer.way, 1.0 / 8, seed, result);
      if (result.killed) return;
    }
    std::vector<std::uint64_t> seeds(ways.size(), plan_.seed);
    // A short look in every way first: most mutants show at once in one of them.
    for (const double share : {1.0 / 16, 1.0 / 2})
      for (std::size_t i = 0; i < ways.size() && !result.killed; ++i)
        run(ways[i], share, seeds[i], result);
  }

 private:
  void run(const Way& way, double share, std::uint64_t& seed, MutantResult& result) {
    // What is late, or ordered by something later, shows least in the thread that is late.
    const bool delays = result.is_fence || result.mutation.kind == Mutation::Kind::late;
    if (delays && way.threads > 1) share *= 2;
    Plan changed = plan_of(way, share);
    changed.mutation = result.mutation;
    changed.seed = seed;
    const Summary summary =
        explore_many(changed, workspace_of(changed.subject.pool_bytes), [](const Summary&) {});
    seed += summary.programs;
    result.states += summary.coverage.states;
    result.killed = summary.violation.has_value();
    if (!result.killed) return;
    result.killed_by = name_of(summary.violation->oracle);
    killers_[result.place.show()].push_back({way, seed - 1});
  }

  /// `share`: of the time, or states, that a mutant has.
  [[nodiscard]] Plan plan_of(const Way& way, double share) {
    Plan changed = planner_.plan_in(way);
    changed.seconds *= share;
    if (plan_.most_states != ~std::uint64_t{0})
      changed.most_states = std::max<std::uint64_t>(
          1, static_cast<std::uint64_t>(static_cast<double>(plan_.most_states) * share));
    // A mutant differs at few points only, so many schedules pay off, and at a point only the
    // states with few older lines.
    changed.schedules = schedules_of_a_program;
    changed.preemptions = 1;
    changed.bounds.product = std::min<std::uint64_t>(plan_.bounds.product, 8);
    changed.bounds.lazy = 0;
    changed.bounds.deep_every = 16;
    changed.bounds.recrash_states = 8;
    return changed;
  }
  Workspace& workspace_of(std::size_t pool_bytes) {
    if (pool_bytes == plan_.subject.pool_bytes) return workspace_;
    return others_.of(pool_bytes);
  }

  struct Killer {
    Way way;
    std::uint64_t seed;  ///< of the program
  };

  static constexpr unsigned schedules_of_a_program = 8;

  const Plan& plan_;
  Workspace& workspace_;
  std::map<std::string, std::vector<Killer>> killers_;  ///< by place
  Planner planner_{plan_};
  Workspaces others_{plan_.subject.heap};
  std::vector<Way> passed_;  ///< by the sound program
};

}  // namespace

std::string show(const MutantResult& result) {
  std::string text = result.killed               ? "killed     "
                     : result.equivalent.empty() ? "SURVIVED   "
                                                 : "equivalent ";
  text += std::string(name_of(result.mutation.kind)) + (result.is_fence ? " fence " : " flush ") +
          result.place.show() + ": ";
  return text + (result.killed ? result.killed_by
                 : result.equivalent.empty()
                     ? std::to_string(result.states) + " states without a violation"
                     : result.equivalent);
}

std::vector<MutantResult> mutate(const Plan& plan, Workspace& workspace, Places& places,
                                 const std::string& part,
                                 const std::function<void(const MutantResult&)>& told) {
  std::vector<MutantResult> results;
  const auto add = [&](MutantResult result) {
    results.push_back(std::move(result));
    told(results.back());
  };
  // To open a pool of libpmemobj takes milliseconds, and it does not tell what it flushes there.
  Plan cut = plan;
  cut.cuts = plan.subject.heap == HeapKind::slab ? cuts_of_a_program : 0;
  for (const Plan* const unchanged : {&plan, &std::as_const(cut)})
    if (auto objected = objection(*unchanged, workspace)) {
      add(std::move(*objected));
      return results;
    }
  const Sound sound(cut, workspace);
  const std::set<Site> sites = sound.sites();
  Hunt hunt(plan, workspace);
  std::vector<const void*> pcs;
  for (const Site& site : sites) pcs.push_back(site.pc);
  places.prepare(pcs);
  // Place by place, its fences first: what is late is killed as they are.
  std::vector<std::pair<std::string, Site>> order;
  for (const Site& site : sites)
    if (std::string place = places.of(site.pc).show(); place.find(part) != std::string::npos)
      order.emplace_back(std::move(place), site);
  std::ranges::stable_sort(order, {}, [](const auto& one) {
    return std::pair(std::string_view(one.first), !one.second.is_fence);
  });
  for (const auto& [place, site] : order)
    for (const Mutation::Kind kind : kinds) {
      if (site.is_fence && kind != Mutation::Kind::drop) continue;
      MutantResult result{{kind, site.pc}, site.is_fence, places.of(site.pc), false, "", 0};
      result.equivalent = argument(sound.evidence(site, kind));
      if (result.equivalent.empty()) {
        const std::vector<Way> ways = ways_for(plan, sound, site);
        if (auto objected = hunt.objection_to(ways)) {
          add(std::move(*objected));
          return results;
        }
        hunt.run(ways, result);
      }
      add(std::move(result));
    }
  return results;
}

}  // namespace perdure::crash
