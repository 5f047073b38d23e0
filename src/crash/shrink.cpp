#include "crash/shrink.h"

#include <algorithm>
#include <chrono>

#include "crash/live.h"

namespace perdure::crash {
namespace {

using Clock = std::chrono::steady_clock;

/// Explores `what` with a bounded effort and accepts it if the same oracle objects.
class Trial {
 public:
  Trial(std::string oracle, Bench& bench, Clock::time_point end)
      : oracle_(std::move(oracle)), bench_(bench), end_(end) {}

  [[nodiscard]] bool fails(const Case& what, Verdict& verdict) {
    return fails_until(what, verdict, std::chrono::seconds(2));
  }
  /// As above, under the schedule of `what` or another one, which is then put there: what is left
  /// out of a program moves its steps, and preemptions with them.
  [[nodiscard]] bool fails_somehow(Case& what, Verdict& verdict) {
    if (fails(what, verdict)) return true;
    if (what.cut != 0 && fails_after_another_cut(what, verdict)) return true;
    if (what.program.threads == 1) return false;
    constexpr unsigned most_schedules = 200;
    constexpr auto most_time = std::chrono::seconds(1);
    const auto stop_at = Clock::now() + most_time;
    Case candidate = what;
    candidate.schedule = {.software = what.schedule.software, .pauses = what.schedule.pauses};
    Rng rng(1, 9);
    const Verdict undisturbed = record(candidate, bench_);
    if (undisturbed.violation) return false;
    DepthFirst schedules(undisturbed.steps, what.program.threads, 1, rng);
    for (unsigned i = 0; i < most_schedules && !schedules.done() && Clock::now() < stop_at; ++i) {
      candidate.schedule = schedules.next();
      candidate.schedule.software = what.schedule.software;
      candidate.schedule.pauses = what.schedule.pauses;
      if (!fails_until(candidate, verdict, stop_at - Clock::now())) continue;
      what = candidate;
      return true;
    }
    return false;
  }
  [[nodiscard]] bool time_up() const { return Clock::now() > end_; }
  /// The case itself does not fail where few states of a point are tried.
  void try_all_states() { needs_all_ = true; }

 private:
  /// The first cut is drawn from the program, so what is left out of it moves the cut elsewhere.
  [[nodiscard]] bool fails_after_another_cut(Case& what, Verdict& verdict) {
    constexpr unsigned most_cuts = 24;
    constexpr auto most_time = std::chrono::seconds(1);
    const auto stop_at = Clock::now() + most_time;
    Case candidate = what;
    Rng rng(what.cut, 16);
    for (unsigned i = 0; i < most_cuts && Clock::now() < stop_at; ++i) {
      candidate.cut = draw_cut_number(rng, i);
      if (!fails_until(candidate, verdict, stop_at - Clock::now())) continue;
      what = candidate;
      return true;
    }
    return false;
  }
  [[nodiscard]] bool fails_until(const Case& what, Verdict& verdict, Clock::duration most) {
    const auto stop_at = std::min(end_, Clock::now() + most);
    Case bounded = what;
    // What recovery has not flushed is open from there to the end: few lines at a point tell.
    if (what.cut != 0 && !needs_all_) {
      bounded.bounds.product = std::min<std::uint64_t>(what.bounds.product, 8);
      bounded.bounds.lazy = 0;
      bounded.bounds.recrash_states = std::min(what.bounds.recrash_states, 4U);
    }
    Verdict tried = explore(bounded, bench_, [stop_at] { return Clock::now() > stop_at; });
    if (!tried.violation || tried.violation->oracle != oracle_) return false;
    verdict = std::move(tried);
    return true;
  }

  std::string oracle_;
  Bench& bench_;
  Clock::time_point end_;
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

/// Removes the operations that none of the threads had come to when the power was cut.
void drop_uncalled(Case& best, Verdict& verdict, Trial& trial) {
  const Recorded& run = verdict.run;
  std::vector<bool> called(run.operations.size(), false);
  for (std::size_t i = 0; i < std::min<std::size_t>(run.trace.size(), verdict.violation->event);
       ++i)
    if (run.trace[i].kind == Event::Kind::call) called[run.trace[i].at] = true;
  Case candidate = best;
  std::vector<Operation>& left = candidate.program.operations;
  const std::size_t first = run.operations.size() - left.size();
  std::size_t number = first;
  std::erase_if(left, [&](const Operation&) { return !called[number++]; });
  if (left.size() < best.program.operations.size() && trial.fails(candidate, verdict))
    best = std::move(candidate);
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

/// Brings lines back to their newest content while the same state still violates.
void drop_lines(const Case& best, Verdict& verdict, Bench& bench, const std::string& oracle) {
  for (std::size_t i = 0; i < verdict.violation->lines.size();) {
    std::vector<LineState> lines = verdict.violation->lines;
    lines.erase(lines.begin() + static_cast<std::ptrdiff_t>(i));
    Verdict tried = try_state(best, bench, verdict.violation->event, lines);
    if (tried.violation && tried.violation->oracle == oracle)
      verdict = std::move(tried);
    else
      ++i;
  }
}

}  // namespace

Case shrink(const Case& failed, Verdict& verdict, Bench& bench, double seconds) {
  Case best = failed;
  if (!verdict.violation) return best;
  const std::string oracle = verdict.violation->oracle;
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                      std::chrono::duration<double>(seconds));
  Trial trial(oracle, bench, end);
  Verdict first;
  if (!trial.fails(best, first)) {
    trial.try_all_states();
    if (!trial.fails(best, first))
      return best;  // found too deep for a bounded trial: keep it whole
  }
  verdict = std::move(first);
  drop_uncalled(best, verdict, trial);
  // What follows the cut goes first: most of the operations.
  for (bool smaller = true; smaller && !trial.time_up();) {
    const auto size = [&] {
      return best.program.operations.size() + best.program.preload.size() +
             best.schedule.preemptions.size() + best.program.threads;
    };
    const std::size_t before = size();
    drop_threads(best, verdict, trial);
    drop_elements(best, verdict, &Program::operations, trial);
    drop_elements(best, verdict, &Program::preload, trial);
    drop_preemptions(best, verdict, trial);
    smaller = size() < before;
  }
  drop_lines(best, verdict, bench, oracle);
  return best;
}

namespace {

/// What a repair adds: after every store or flush of one source line, or before every fence of one.
enum class Repair : std::uint8_t { fence, flush, flush_and_fence, flush_all_before };

/// Lines that `thread` stored to since its last fence before `end` and did not flush since.
std::vector<std::uint32_t> unflushed_lines(const Trace& trace, std::size_t end, unsigned thread,
                                           std::vector<const void*>& stores) {
  std::vector<std::uint32_t> lines;
  std::size_t begin = end;
  while (begin > 0 &&
         !(trace[begin - 1].thread == thread && (trace[begin - 1].kind == Event::Kind::fence ||
                                                 trace[begin - 1].kind == Event::Kind::call)))
    --begin;
  for (std::size_t i = begin; i < end; ++i) {
    const Event& event = trace[i];
    if (event.thread != thread) continue;
    const auto line = static_cast<std::uint32_t>(event.at / line_bytes);
    if (event.kind == Event::Kind::flush) std::erase(lines, line);
    if (event.kind != Event::Kind::store) continue;
    if (std::ranges::find(lines, line) == lines.end()) lines.push_back(line);
    stores.push_back(event.pc);
  }
  return lines;
}

Event added_flush(const Event& like, std::uint64_t line) {
  return {Event::Kind::flush,
          like.thread,
          static_cast<std::uint8_t>(Persistency::Flush::clwb),
          static_cast<std::uint32_t>(line * line_bytes),
          0,
          nullptr};
}

Recorded repaired(const Recorded& run, const Event& site, Repair repair,
                  std::vector<const void*>& stores) {
  Recorded changed = run;
  changed.trace.clear();
  for (std::size_t k = 0; k < run.trace.size(); ++k) {
    if (k == run.explored_from)
      changed.explored_from = static_cast<std::uint32_t>(changed.trace.size());
    const Event& each = run.trace[k];
    const bool here = each.pc == site.pc && each.kind == site.kind;
    if (here && repair == Repair::flush_all_before)
      for (const std::uint32_t line : unflushed_lines(run.trace, k, each.thread, stores))
        changed.trace.push_back(added_flush(each, line));
    changed.trace.push_back(each);
    if (!here || repair == Repair::flush_all_before) continue;
    // A fence comes after the last piece of a store that spans several words.
    const bool last = k + 1 == run.trace.size() || run.trace[k + 1].pc != each.pc ||
                      run.trace[k + 1].kind != each.kind;
    if (repair != Repair::fence) changed.trace.push_back(added_flush(each, each.at / line_bytes));
    if (repair != Repair::flush && last)
      changed.trace.push_back({Event::Kind::fence, each.thread, 0, 0, 0, nullptr});
  }
  return changed;
}

std::string tell_repair(const Event& site, Repair repair, std::vector<const void*> stores,
                        Places& places) {
  const std::string place = places.of(site.pc).show();
  const char* const what = site.kind == Event::Kind::flush ? "flush" : "store";
  if (repair == Repair::fence) return std::string("a fence after the ") + what + " at " + place;
  if (repair == Repair::flush) return "a flush of what is stored at " + place;
  if (repair == Repair::flush_and_fence) return "a flush and a fence after the store at " + place;
  std::string text = "a flush of what is stored at";
  std::vector<std::string> lines;
  for (const void* const pc : stores) {
    const Place& of = places.of(pc);
    std::string line = of.file + ":" + std::to_string(of.line);
    if (std::ranges::find(lines, line) == lines.end()) lines.push_back(std::move(line));
  }
  constexpr std::size_t most = 6;
  for (std::size_t i = 0; i < std::min(lines.size(), most); ++i)
    text += (i == 0 ? " " : ", ") + lines[i];
  return text + (lines.size() > most ? ", ..." : "") + " before the fence at " + place;
}

}  // namespace

std::string find_repair(const Case& what, const Verdict& verdict, Bench& bench, Places& places,
                        double seconds) {
  // Without a cut nothing is lost that a flush would keep.
  if (!verdict.violation || verdict.violation->oracle == live_oracle) return {};
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                      std::chrono::duration<double>(seconds));
  const Recorded& run = verdict.run;
  const Vocabulary vocabulary(what.program);
  const Stop stop = [end] { return Clock::now() > end; };
  const auto passes = [&](const Recorded& changed) {
    Explorer explorer(what.subject, vocabulary, bench.image(), bench.watch(), what.domain,
                      what.bounds);
    return !explorer.explore(changed, what.program.threads, stop).has_value() && !stop();
  };
  // The smallest kind first. A place is a source line: a program cannot flush only sometimes.
  const auto cut = std::min<std::size_t>(verdict.violation->event, run.trace.size());
  for (const Repair repair :
       {Repair::fence, Repair::flush, Repair::flush_and_fence, Repair::flush_all_before}) {
    std::vector<const void*> tried;
    for (std::size_t i = cut; i-- > 0 && !stop();) {
      const Event& site = run.trace[i];
      const bool store = site.kind == Event::Kind::store || site.kind == Event::Kind::stream;
      const bool fits = repair == Repair::flush_all_before ? site.kind == Event::Kind::fence
                        : repair == Repair::fence ? store || site.kind == Event::Kind::flush
                                                  : store;
      if (!fits || std::ranges::find(tried, site.pc) != tried.end()) continue;
      tried.push_back(site.pc);
      std::vector<const void*> stores;
      if (passes(repaired(run, site, repair, stores)))
        return tell_repair(site, repair, std::move(stores), places);
    }
  }
  return {};
}

}  // namespace perdure::crash
