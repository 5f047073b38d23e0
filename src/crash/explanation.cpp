#include "crash/explanation.h"

#include <algorithm>
#include <optional>

#include "crash/heap_oracle.h"
#include "crash/live.h"
#include "crash/names.h"
#include "crash/probe.h"
#include "crash/repair.h"

namespace perdure::crash {
namespace {

using Kind = Explanation::Kind;

constexpr const char* nothing_mends = "no single flush or fence mends it";
constexpr const char* out_of_time = "what would mend it was not found in the time for trying";

/// "A, B and C", each once, at most six.
std::string listed(const std::vector<std::string>& all) {
  constexpr std::size_t most = 6;
  std::vector<std::string> once;
  for (const std::string& each : all)
    if (std::ranges::find(once, each) == once.end()) once.push_back(each);
  std::string text;
  for (std::size_t i = 0; i < std::min(once.size(), most); ++i)
    text += (i == 0 ? "" : ", ") + once[i];
  return text + (once.size() > most ? ", ..." : "");
}

/// What a store or a return is called that a loss is wrong after.
std::string needing(const Advice& advice, const Recorded& run, const Names& names) {
  if (!advice.needed_by) return {};
  const Event& event = *advice.needed_by;
  if (event.kind == Event::Kind::ret) return "the return of " + names.operation(run, event.at);
  return "the store to " + names.at(event.at) + " at " + names.place(event).show();
}

std::string stored_at(const Advice& advice, const Names& names) {
  std::vector<std::string> lines;
  for (const Event& each : advice.stores) lines.push_back(names.place(each).show_line());
  std::ranges::sort(lines);
  return listed(lines);
}

/// Flushes before one fence are told together.
std::string told_fixes(const std::vector<Advice>& all, const Recorded& run, const Names& names) {
  std::vector<std::string> parts;
  std::vector<std::string> fences;
  for (const Advice& each : all) {
    const std::string place = names.place(each.at).show();
    switch (each.fix.kind) {
      case Fix::Kind::fence_after_flush:
        parts.push_back("a fence after the flush at " + place);
        break;
      case Fix::Kind::fence_after_store:
        parts.push_back("a fence after the store at " + place);
        break;
      case Fix::Kind::flush_and_fence: {
        const std::string before = needing(each, run, names);
        parts.push_back("a flush and a fence after the store at " + place +
                        (before.empty() ? "" : ", before " + before));
        break;
      }
      case Fix::Kind::flush_before_fence: {
        const std::string fence = names.place(*each.fence).show();
        if (std::ranges::find(fences, fence) != fences.end()) break;
        fences.push_back(fence);
        std::vector<std::string> stores;
        for (const Advice& other : all)
          if (other.fence && names.place(*other.fence).show() == fence)
            for (const Event& store : other.stores)
              stores.push_back(names.place(store).show_line());
        std::ranges::sort(stores);
        parts.push_back("a flush of what is stored at " + listed(stores) + " before the fence at " +
                        fence);
        break;
      }
    }
  }
  std::string text;
  std::vector<std::string> told;
  for (const std::string& part : parts) {
    if (std::ranges::find(told, part) != told.end()) continue;
    text += (told.empty() ? "" : ", and ") + part;
    told.push_back(part);
  }
  text += told.size() == 1 ? " makes this trace pass" : " make this trace pass";
  for (const Advice& each : all)
    if (each.idle_flush)
      return text + " (the flush at " + names.place(*each.idle_flush).show() +
             " writes back a line in which nothing was stored)";
  return text;
}

std::uint32_t first_store_to(const Heap::Extent& block, const Trace& trace) {
  const auto first = std::ranges::find_if(trace, [&](const Event& event) {
    return is_store(event) && event.at >= block.offset && event.at < block.offset + block.bytes;
  });
  return static_cast<std::uint32_t>(first - trace.begin());
}

std::string tell_block(const FaultyBlock& faulty, const Verdict& verdict, const Names& names) {
  const Heap::Extent& block = faulty.block;
  const Recorded& run = verdict.run;
  const std::vector<Continued>& continued = verdict.violation->continued;
  const bool live = verdict.violation->oracle == Oracle::heap;
  std::string text = names.structure(block.bytes) + " at pool offset " +
                     std::to_string(block.offset) + ", " + std::to_string(block.bytes) + " bytes";
  if (faulty.reserved_by && !live && *faulty.reserved_by < continued.size())
    return text + ", reserved by " +
           show(continued[*faulty.reserved_by].operation, names.vocabulary()) +
           " on the recovered index";
  if (faulty.reserved_by && live)
    text += ", reserved by " + names.operation(run, *faulty.reserved_by);
  const std::uint32_t first =
      faulty.first_store < run.trace.size() ? faulty.first_store : first_store_to(block, run.trace);
  if (first >= run.trace.size()) return text;
  text += ", first stored to at " + names.place(run.trace[first]).show();
  const auto by = names.operation_of(run, first);
  if (by && !faulty.reserved_by) text += " by " + names.operation(run, *by);
  return text;
}

/// Which blocks leak, or are freed and still in use; none where the violation is about neither.
std::optional<Explanation> explain_blocks(const Verdict& verdict, const Names& names) {
  const BlockFault fault = verdict.violation->block_fault;
  if (fault == BlockFault::none) return std::nullopt;
  const bool leak = fault == BlockFault::leak;
  constexpr unsigned most = 3;
  std::string text;
  unsigned told = 0;
  for (const FaultyBlock& block : verdict.violation->blocks)
    if (block.leaks == leak && told++ < most)
      text += (text.empty() ? "" : "; ") + tell_block(block, verdict, names);
  if (told > most) text += "; and " + std::to_string(told - most) + " more";
  if (!text.empty()) text += ": ";
  if (leak)
    return Explanation{Kind::lost_block,
                       text + "allocated, and not reachable; no flush or fence mends a leak"};
  if (text.empty()) return std::nullopt;
  return Explanation{Kind::freed_block, text + "freed, and still reachable"};
}

class Explainer {
 public:
  Explainer(const Case& what, const Verdict& verdict, Workspace& workspace, Places& places,
            double seconds)
      : verdict_(verdict),
        probe_(what, workspace, deadline_after(seconds), false),
        names_(what, verdict.run, places) {}

  [[nodiscard]] Explanation explain() {
    const Violation& violation = *verdict_.violation;
    if (auto blocks = explain_blocks(verdict_, names_)) return *blocks;
    if (violation.oracle == Oracle::progress && verdict_.run.stopped)
      return explain_wait(*verdict_.run.stopped);
    if (is_of_run(verdict_))
      return {Kind::no_cut,
              "the run itself is wrong, without any cut: no flush or fence mends that"};
    if (violation.recovery.empty()) return explain(verdict_.run, violation.event, lost_lines());
    // The recovery is the run now, and a cut inside its recovery would be a third one.
    probe_.never_cut_again();
    std::uint32_t event = 0;
    Events lost;
    const Recorded recovery = probe_.recovery_of(verdict_.run, violation, event, lost);
    names_.places().prepare(recovery.trace);
    lost = probe_.fewest(recovery, event, lost);
    Explanation made = explain(recovery, event, lost);
    if (!made.text.empty() && made.kind != Kind::none) made.text = "in recovery: " + made.text;
    return made;
  }

 private:
  [[nodiscard]] Explanation explain_wait(const Stopped& stopped) {
    names_.places().prepare({stopped.at, stopped.waits});
    return {Kind::waits,
            "thread " + std::to_string(stopped.thread) + " never does its step at " +
                names_.places().of(stopped.at).show() + ", and thread " +
                std::to_string(stopped.waiting) + " waits at " +
                names_.places().of(stopped.waits).show() +
                ": the structure is called lock-free, so nobody may have to wait for another"};
  }

  [[nodiscard]] Events lost_lines() { return lost_in(verdict_.violation->lines); }

  [[nodiscard]] Explanation explain(const Recorded& run, std::uint32_t event, const Events& lost) {
    if (lost.empty()) return explain_window(run, event);
    // If the stores before the first lost one are wrong by themselves, its loss is not what is.
    if (Probe::is_cut(run, lost.front()) && lost.front() > run.explored_from &&
        probe_.judge(run, lost.front(), {}))
      return explain_window(run, lost.front());
    const std::vector<Advice> fixes = find_fixes(probe_, names_, run, event, lost);
    if (fixes.empty()) return unknown(run, event, lost);
    return explain_fixes(run, fixes);
  }

  [[nodiscard]] Explanation explain_fixes(const Recorded& run, const std::vector<Advice>& fixes) {
    const auto crosses = [](const Advice& each) {
      return each.needed_by && each.needed_by->thread != each.at.thread;
    };
    // What is flushed already is not advised to be flushed: it is too late.
    const auto late = std::ranges::find_if(fixes, [&](const Advice& each) {
      return each.late_flush || (each.late_fence && crosses(each));
    });
    if (late == fixes.end()) return {Kind::fixes, told_fixes(fixes, run, names_)};
    const Event& made_durable = late->late_flush ? *late->late_flush : *late->late_fence;
    const std::string how = std::string(late->late_flush ? "flush" : "fence") + " at " +
                            names_.place(made_durable).show();
    const std::string stored =
        names_.at(late->stores.front().at) + ", stored at " + stored_at(*late, names_);
    if (!crosses(*late))
      return {Kind::too_late, stored + ", is made durable too late: the " + how + " comes after " +
                                  needing(*late, run, names_) +
                                  ", which depends on it; flush and fence it before that"};
    const std::string who = "thread " + std::to_string(late->needed_by->thread);
    const std::string owner = "thread " + std::to_string(late->at.thread);
    return {Kind::other_thread,
            who + " acts on what " + owner + " has not made durable: " + stored +
                ", is visible, and " + needing(*late, run, names_) + " comes before " + owner +
                "'s " + how +
                ". Make it durable before it becomes visible to others (before a lock is "
                "released)"};
  }

  /// Nothing that was tried mends the loss.
  [[nodiscard]] Explanation unknown(const Recorded& run, std::uint32_t event, const Events& lost) {
    const std::uint32_t needed = dependent(probe_, run, event, lost);
    const Event& store = run.trace[lost.front()];
    std::string text = nothing_mends;
    if (names_.is_lock(store))
      return {Kind::lock, names_.at(store.at) + ", a lock that " + names_.place(store).show() +
                              " stores to, keeps an older content: a lock on media means nothing "
                              "after a restart, and recovery has to release it"};
    if (probe_.time_up()) return {Kind::none, out_of_time};
    if (needed >= run.trace.size()) return {Kind::none, text};
    const Event& by = run.trace[needed];
    if (is_store(by) && by.group != 0 && by.group == store.group)
      return {Kind::several_steps,
              "the stores at " + names_.place(store).show() + " and at " + names_.place(by).show() +
                  " become visible in one hardware transaction, which does not make them durable "
                  "together: what the second depends on must be durable before the transaction"};
    text += ": " + names_.at(store.at) + ", stored at " + names_.place(store).show() +
            ", is needed after ";
    text += by.kind == Event::Kind::ret
                ? "the return of " + names_.operation(run, by.at)
                : "the store to " + names_.at(by.at) + " at " + names_.place(by).show();
    return {Kind::none, text};
  }

  [[nodiscard]] bool fails(const Recorded& run, std::uint32_t event) {
    return probe_.judge(run, event, {}).has_value();
  }

  /// With nothing lost it is wrong, too: from which step on, and until which.
  [[nodiscard]] Explanation explain_window(const Recorded& run, std::uint32_t event) {
    const auto end = static_cast<std::uint32_t>(run.trace.size());
    const auto changes = [&](std::uint32_t i) {
      return is_store(run.trace[i]) || run.trace[i].kind == Event::Kind::ret;
    };
    std::optional<std::uint32_t> opener;
    for (std::uint32_t i = event; i-- > run.explored_from && !probe_.time_up();)
      if (changes(i) && Probe::is_cut(run, i) && !fails(run, i)) {
        opener = i;
        break;
      }
    if (probe_.time_up()) return {Kind::none, out_of_time};
    if (!opener)
      return {
          Kind::recovery,
          "it fails at every moment of what is shown, with nothing lost: recovery, or what comes "
          "after it, is at fault, and no flush or fence mends that"};
    std::optional<std::uint32_t> closer;
    for (std::uint32_t i = event; i < end && !probe_.time_up(); ++i)
      if (changes(i) && Probe::is_cut(run, i + 1) && !fails(run, i + 1)) {
        closer = i;
        break;
      }
    if (probe_.time_up()) return {Kind::none, out_of_time};
    return tell_window(run, *opener, closer);
  }

  [[nodiscard]] std::string store_text(const Event& event) const {
    return "the store to " + names_.at(event.at) + " at " + names_.place(event).show();
  }

  [[nodiscard]] Explanation tell_window(const Recorded& run, std::uint32_t opener,
                                        std::optional<std::uint32_t> closer) {
    const Event& first = run.trace[opener];
    if (first.kind == Event::Kind::ret)
      return {Kind::answer, "from the return of " + names_.operation(run, first.at) +
                                " on, the pool does not hold what was answered, with nothing lost: "
                                "no flush or fence mends that"};
    if (names_.is_lock(first))
      return {Kind::lock, names_.at(first.at) + ", a lock that is taken at " +
                              names_.place(first).show() +
                              ", stays held: a lock on media means nothing after a restart, and "
                              "recovery has to release it"};
    if (!closer)
      return {Kind::several_steps, "from " + store_text(first) +
                                       " on, recovery does not mend what it finds, with nothing "
                                       "lost: no flush or fence mends that"};
    const Event& last = run.trace[*closer];
    if (is_store(last) && last.pc == first.pc && last.at == first.at + first.size)
      return {Kind::torn, "the store at " + names_.place(first).show() +
                              " is wider than the 8 bytes that a power cut leaves whole, and "
                              "recovery does not mend a part of it"};
    if (last.kind == Event::Kind::ret)
      return {Kind::several_steps, "from " + store_text(first) + " until the return of " +
                                       names_.operation(run, last.at) +
                                       " recovery does not mend what it finds, with nothing lost: "
                                       "no flush or fence mends that"};
    if (comes_too_early(run, opener, *closer))
      return {Kind::too_early,
              store_text(first) + " comes too early: a cut before " + store_text(last) +
                  " leaves what recovery does not mend, with nothing lost. It must come after that "
                  "one, and when that one is durable"};
    return {Kind::several_steps,
            "from " + store_text(first) + " until " + store_text(last) +
                " recovery does not mend what it finds, with nothing lost: make them one step (one "
                "word of 8 bytes), or let recovery finish or undo what is half done, however often "
                "it is cut off"};
  }

  /// Whether every state passes if the first store is made when all up to the last one is durable.
  [[nodiscard]] bool comes_too_early(const Recorded& run, std::uint32_t opener,
                                     std::uint32_t closer) {
    if (run.trace[opener].thread != run.trace[closer].thread) return false;
    const bool passes = !probe_.judge_all(postponed(run, opener, closer));
    return passes && !probe_.time_up();
  }

  const Verdict& verdict_;
  Probe probe_;
  Names names_;
};

}  // namespace

const char* name_of(Explanation::Kind kind) noexcept {
  static constexpr const char* names[] = {
      "none",          "no_cut",   "fixes", "too_late",   "other_thread", "torn",   "too_early",
      "several_steps", "recovery", "lock",  "lost_block", "freed_block",  "answer", "waits"};
  return names[static_cast<std::size_t>(kind)];
}

bool is_of_run(const Verdict& verdict) {
  return verdict.run.trace.empty() || verdict.run.hung ||
         info_of(verdict.violation->oracle).is_of_run;
}

Explanation explain(const Case& what, const Verdict& verdict, Workspace& workspace, Places& places,
                    double seconds) {
  if (!verdict.violation) return {};
  return Explainer(what, verdict, workspace, places, seconds).explain();
}

}  // namespace perdure::crash
