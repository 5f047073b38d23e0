#include "crash/mutation.h"

namespace perdure::crash {

const char* name_of(Mutation::Kind kind) noexcept {
  static constexpr const char* names[] = {"none", "drop", "retarget", "late"};
  return names[static_cast<std::size_t>(kind)];
}

namespace {

/// What the sound runs show about one site, for arguments that hold whatever state is cut out.
struct Evidence {
  bool met = false;
  bool locked_follows = true;  ///< E1
  bool same_line = true;       ///< E2
  bool nothing_waits = true;   ///< E3
};

bool writes(const Event& event) {
  return event.kind == Event::Kind::store || event.kind == Event::Kind::stream;
}

// E1  after the fence the same thread executes a locked instruction before it stores, flushes or
//     returns: that instruction raises the same floors, with nothing in between that could be cut.
bool locked_follows(const Trace& trace, std::size_t fence) {
  for (std::size_t i = fence + 1; i < trace.size(); ++i) {
    const Event& event = trace[i];
    if (event.kind == Event::Kind::run) return false;
    if (event.kind == Event::Kind::locked || event.kind == Event::Kind::fence) return true;
    if (writes(event) || event.kind == Event::Kind::flush || event.kind == Event::Kind::ret)
      return false;
  }
  return false;
}

/// The fence that a flush waits for, if it is the thread's first to raise a floor; a fence's own.
/// What is stored in between may be taken along by a later flush, which only leaves fewer states.
std::size_t fence_of(const Trace& trace, std::size_t site) {
  for (std::size_t i = site; i < trace.size(); ++i) {
    if (trace[i].kind == Event::Kind::fence) return i;
    if (trace[i].kind == Event::Kind::locked || trace[i].kind == Event::Kind::run) break;
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
      if (trace[i].kind == Event::Kind::fence || trace[i].kind == Event::Kind::locked) break;
      if (trace[i].kind == Event::Kind::flush && trace[i].at / line_bytes != line) return false;
    }
  bool flushed = false;
  for (std::size_t i = site + 1; i < trace.size(); ++i) {
    const Event& event = trace[i];
    if (event.kind == Event::Kind::run || event.kind == Event::Kind::ret) return false;
    if (writes(event) && event.at / line_bytes != line) return false;
    if (event.kind == Event::Kind::flush) {
      if (event.at / line_bytes != line) return false;
      flushed = true;
    }
    if ((event.kind == Event::Kind::fence || event.kind == Event::Kind::locked) && flushed)
      return true;
  }
  return false;
}

// E3  a fence for which its thread has flushed, streamed or, under eADR, stored nothing since its
//     last fence or locked instruction: it raises no floor, and is there for other threads.
bool nothing_waits(const Trace& trace, std::size_t fence, Domain domain) {
  for (std::size_t i = fence; i-- > 0;) {
    const Event& event = trace[i];
    if (event.thread != trace[fence].thread) continue;
    if (event.kind == Event::Kind::fence || event.kind == Event::Kind::locked) return true;
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
    return "a locked instruction of the same thread follows before it stores or returns: a fence, "
           "too";
  if (evidence.nothing_waits)
    return "the thread has flushed nothing since its last fence or locked instruction: it is there "
           "for other threads";
  if (evidence.same_line)
    return "only the same line is stored to until its next flush and fence: its stores persist in "
           "order anyway";
  return {};
}

/// A few sound runs: what they meet, whatever there was time to explore.
std::vector<Trace> sound_traces(const Plan& plan, Bench& bench, std::set<Site>& sites) {
  constexpr std::uint64_t programs = 40;
  std::vector<Trace> traces;
  for (std::uint64_t seed = plan.seed; seed < plan.seed + programs; ++seed) {
    Case what{plan.subject, {}, {}, plan.domain, plan.bounds, {}};
    what.program = generate(program_plan(plan, seed));
    Verdict verdict = record(what, bench);
    sites.merge(verdict.sites);
    traces.push_back(std::move(verdict.run.trace));
  }
  return traces;
}

}  // namespace

std::string show(const MutantResult& result) {
  std::string text = result.killed               ? "killed     "
                     : result.equivalent.empty() ? "SURVIVED   "
                                                 : "equivalent ";
  text += std::string(name_of(result.mutation.kind)) + (result.is_fence ? " fence " : " flush ") +
          result.place.show() + ": ";
  return text + (result.killed ? result.oracle
                 : result.equivalent.empty()
                     ? std::to_string(result.states) + " states without a violation"
                     : result.equivalent);
}

std::vector<MutantResult> mutate(const Plan& plan, Bench& bench, Places& places,
                                 const std::string& part,
                                 const std::function<void(const MutantResult&)>& told) {
  // The sites first: a short exploration without a change, which must be clean.
  const Summary sound = explore_many(plan, bench, [](const Summary&) {});
  std::vector<MutantResult> results;
  if (sound.violation) {
    results.push_back(
        {{},
         false,
         {},
         true,
         "without any change: " + sound.violation->oracle + ": " + sound.violation->what,
         sound.coverage.states});
    told(results.back());
    return results;
  }
  std::set<Site> sites = sound.sites;
  const std::vector<Trace> traces = sound_traces(plan, bench, sites);
  std::vector<const void*> pcs;
  for (const Site& site : sites) pcs.push_back(site.pc);
  places.prepare(pcs);
  for (const Site& site : sites)
    for (const Mutation::Kind kind :
         {Mutation::Kind::drop, Mutation::Kind::retarget, Mutation::Kind::late}) {
      if (site.is_fence && kind != Mutation::Kind::drop) continue;
      if (places.of(site.pc).show().find(part) == std::string::npos) continue;
      MutantResult result{{kind, site.pc}, site.is_fence, places.of(site.pc), false, "", 0};
      Evidence evidence;
      for (const Trace& trace : traces) look(trace, site, kind, plan.domain, evidence);
      result.equivalent = argument(evidence);
      if (result.equivalent.empty()) {
        Plan changed = plan;
        changed.mutation = result.mutation;
        changed.seconds = plan.seconds / 2;
        // Half the time many short programs, then also long ones: what frees a block and uses it
        // again needs many tries, what fills a large leaf many operations. What the release of a
        // lock shows too early only another thread can see.
        struct Attempt {
          unsigned threads;
          bool long_programs;
        };
        std::vector<Attempt> attempts{{plan.threads, false}, {plan.threads, true}};
        if (plan.threads == 1) attempts.insert(attempts.end(), {{2, false}, {2, true}});
        for (const Attempt& attempt : attempts) {
          changed.threads = attempt.threads;
          changed.long_programs = attempt.long_programs;
          const Summary summary = explore_many(changed, bench, [](const Summary&) {});
          result.states += summary.coverage.states;
          result.killed = summary.violation.has_value();
          if (!result.killed) continue;
          result.oracle = summary.violation->oracle;
          break;
        }
      }
      results.push_back(std::move(result));
      told(results.back());
    }
  return results;
}

}  // namespace perdure::crash
