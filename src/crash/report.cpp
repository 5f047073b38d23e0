#include "crash/report.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "crash/names.h"
#include "crash/probe.h"

namespace perdure::crash {
namespace {

/// The places of stores in a trace, one line each.
void tell_stores(std::string& text, const char* head, const Events& events, const Trace& trace,
                 const Names& names) {
  constexpr std::size_t most = 6;
  if (events.empty()) return;
  text += std::string("    ") + head + ":\n";
  for (std::size_t i = 0; i < std::min(events.size(), most); ++i)
    text += "      " + names.store(trace[events[i]]) + "\n";
  if (events.size() > most) text += "      and " + std::to_string(events.size() - most) + " more\n";
}

std::string bytes_text(const LineContent& content) {
  std::string text;
  for (std::size_t word = 0; word < content.size(); ++word)
    for (unsigned byte = 0; byte < 8; ++byte) {
      char two[4];
      std::snprintf(two, sizeof two, "%02x",
                    static_cast<unsigned>(content[word] >> 8 * byte & 0xff));
      text += two;
      if (byte == 7 && word + 1 < content.size()) text += ' ';
    }
  return text;
}

/// The `bytes` (at most 8) of a line's content from `at` on.
std::uint64_t value_at(const LineContent& content, std::uint64_t at, std::uint32_t bytes) {
  std::uint64_t value = 0;
  for (std::uint32_t i = 0; i < bytes && at + i < line_bytes; ++i)
    value |= (content[(at + i) / word_bytes] >> 8 * ((at + i) % word_bytes) & 0xff) << 8 * i;
  return value;
}

/// The fields whose old and newest content differ.
void tell_fields(std::string& text, const LineState& line, const Names& names) {
  constexpr std::size_t most = 8;
  std::size_t told = 0;
  for (const Layout::Field& field : names.layout().fields_of(line.line)) {
    const std::uint64_t at = field.offset % line_bytes;
    const auto bytes = std::min<std::uint32_t>(field.bytes, word_bytes);
    const std::uint64_t old = value_at(line.content, at, bytes);
    const std::uint64_t newest = value_at(line.newest, at, bytes);
    if (old == newest || told++ >= most) continue;
    text += "    " + field.name + " = " + hex(old) + ", was " + hex(newest) + " in the run\n";
  }
  if (told > most) text += "    and " + std::to_string(told - most) + " more fields\n";
}

/// What of a cut's lines is lost and what is kept; the trace is the one that was cut.
void tell_lines(std::string& text, const std::vector<LineState>& lines, const Trace& trace,
                const Names& names) {
  constexpr std::size_t most = 8;
  for (std::size_t i = 0; i < std::min(lines.size(), most); ++i) {
    const LineState& line = lines[i];
    if (line.line == LineState::store_buffer) {
      text += "  store buffer: the last " + std::to_string(line.choices - 1 - line.choice) +
              " stores are lost\n";
      tell_stores(text, "lost", line.lost, trace, names);
      continue;
    }
    text += "  line " + std::to_string(line.line) + " (pool offset " +
            std::to_string(std::uint64_t{line.line} * line_bytes) + ") keeps an older content\n";
    tell_fields(text, line, names);
    text += "    bytes " + bytes_text(line.content) + "\n";
    tell_stores(text, "lost", line.lost, trace, names);
    tell_stores(text, "kept", line.kept, trace, names);
  }
  if (lines.size() > most)
    text += "  and " + std::to_string(lines.size() - most) + " more lines with an older content\n";
}

const char* nothing_lost(Domain domain) {
  return domain == Domain::adr
             ? "  nothing is lost: all that was stored before the cut is on media\n"
             : "  nothing is lost: all that was stored before the cut is durable, the store "
               "buffers' "
               "content, too\n";
}

/// The stores before the cut that were made after the oldest lost one and are there: the last of
/// them overtook it.
std::optional<std::uint32_t> overtaker(const std::vector<LineState>& lines, std::uint32_t cut,
                                       const Trace& trace) {
  const Events lost = lost_in(lines);
  if (lost.empty()) return std::nullopt;
  for (auto i = std::min(cut, static_cast<std::uint32_t>(trace.size())); i-- > lost.front();)
    if (is_store(trace[i]) && !std::ranges::binary_search(lost, i)) return i;
  return std::nullopt;
}

/// Of many operations the last ones, as the cut is near them. `open`: in flight.
void tell_operations(std::string& text, const Events& called, const Events& open,
                     const Recorded& run, const Names& names) {
  constexpr std::size_t most = 40;
  const std::size_t first = called.size() > most ? called.size() - most : 0;
  if (first > 0) text += "  " + std::to_string(first) + " operations before these\n";
  for (std::size_t i = first; i < called.size(); ++i) {
    const std::uint32_t number = called[i];
    const bool is_open = std::ranges::find(open, number) != open.end();
    text += "  thread " + std::to_string(run.operations[number].thread) + "  " +
            names.operation(run, number) + "  -> " +
            (is_open ? "in flight" : show(run.operations[number], run.answers[number])) + "\n";
  }
}

/// Where a cut is: in the trace that it cut, `operations` of which are those of `run`.
std::string cut_text(std::uint32_t event, const Trace& trace, const Recorded& run,
                     const Names& names) {
  std::string text;
  if (event > 0 && event <= trace.size() && trace[event - 1].kind == Event::Kind::ret) {
    text = " after the return of " + names.operation(run, trace[event - 1].at);
  } else if (event < trace.size()) {
    const Event& next = trace[event];
    text = std::string(" just before the next ") + name_of(next.kind);
    if (next.pc != nullptr) text += " at " + names.place(next).show();
  } else {
    text = " after the last operation";
  }
  return text + " (event " + std::to_string(event) + ")\n";
}

Names names_of(const Case& what, const Verdict& verdict, Places& places) {
  if (verdict.violation) places.prepare(verdict.violation->recovery);
  if (verdict.run.first_cut) places.prepare(verdict.run.first_cut->trace);
  return {what, verdict.run, places};
}

/// What came before a run that begins with a recovery.
void tell_first_cut(std::string& text, const Case& what, const Recorded& run, const Names& names) {
  const FirstCut& cut = *run.first_cut;
  text += "\noperations before the first cut\n";
  Events open;
  const Events called = called_in(run.trace, 0, run.recovers_from);
  for (const std::uint32_t number : called)
    if (std::none_of(run.trace.begin(), run.trace.begin() + run.recovers_from,
                     [&](const Event& event) {
                       return event.kind == Event::Kind::ret && event.at == number;
                     }))
      open.push_back(number);
  tell_operations(text, called, open, run, names);
  if (cut.closed) {
    text += "\nthere the pool is closed, and opened again: recovery\n";
    return;
  }
  text += "\nfirst power cut" + cut_text(cut.event, cut.trace, run, names);
  if (cut.lines.empty()) text += nothing_lost(what.domain);
  tell_lines(text, cut.lines, cut.trace, names);
  text += "recovery of what that left\n";
}

void tell_cut(std::string& text, const Case& what, const Verdict& verdict, const Names& names) {
  const Violation& violation = *verdict.violation;
  const Recorded& run = verdict.run;
  const bool again = run.first_cut && !run.first_cut->closed;
  text += std::string("\n") + (again ? "next power cut" : "power cut") +
          cut_text(violation.event, run.trace, run, names);
  const bool shows_lines = !violation.fails_without_loss && !violation.lines.empty();
  if (shows_lines) tell_lines(text, violation.lines, run.trace, names);
  if (!shows_lines) text += nothing_lost(what.domain);
  const auto later = overtaker(violation.lines, violation.event, run.trace);
  if (shows_lines && later)
    text += "  there although stored after the first loss:\n      " +
            names.store(run.trace[*later]) + "\n";
  if (violation.recovery.empty()) return;
  const Trace& recovery = violation.recovery;
  text += "\nanother power cut, in the recovery of that";
  text += violation.recovery_event < recovery.size()
              ? cut_text(violation.recovery_event, recovery, run, names)
              : std::string(" when it has ended\n");
  if (violation.recovery_lines.empty()) text += nothing_lost(what.domain);
  tell_lines(text, violation.recovery_lines, recovery, names);
  if (const auto overtook = overtaker(violation.recovery_lines, violation.recovery_event, recovery))
    text += "  there although stored after the first loss:\n      " +
            names.store(recovery[*overtook]) + "\n";
}

}  // namespace

std::size_t called_operations(const Verdict& verdict) {
  const std::size_t end = verdict.violation ? verdict.violation->event : verdict.run.trace.size();
  return called_in(verdict.run.trace, 0, end).size();
}

std::string tell(const Case& what, const Verdict& verdict, Places& places,
                 const Explanation& explanation) {
  const Violation& violation = *verdict.violation;
  const Recorded& run = verdict.run;
  const Names names = names_of(what, verdict, places);
  const bool lives = is_of_run(verdict);
  std::string text =
      std::string("violation: ") + name_of(violation.oracle) + ": " + violation.what + "\n";
  if (lives)
    text += "no power cut is needed: the run itself is wrong\n";
  else if (violation.fails_without_loss)
    text +=
        "no power cut is needed: with nothing lost, as after a kill of the process, it fails, "
        "too\n";
  if (run.first_cut) tell_first_cut(text, what, run, names);
  text += run.first_cut ? "\noperations after it\n" : "\noperations\n";
  const std::size_t from = run.first_cut ? run.recovers_from : 0;
  tell_operations(text, called_in(run.trace, from, violation.event), violation.open, run, names);
  if (!lives) tell_cut(text, what, verdict, names);
  if (!violation.continued.empty()) {
    text += lives ? "\nafter the run\n" : "\non the recovered index\n";
    for (const Continued& each : violation.continued)
      text += "  " + show(each.operation, names.vocabulary()) + "  -> " +
              show(each.operation, each.answer) + "\n";
  }
  const bool repairs = explanation.kind == Explanation::Kind::fixes;
  return text + (repairs ? "\nrepair: " : "\nexplanation: ") + explanation.text + "\n";
}

std::string tell_steps(const Case& what, const Verdict& verdict, Places& places) {
  const Recorded& run = verdict.run;
  const Names names = names_of(what, verdict, places);
  const std::uint32_t end =
      verdict.violation ? verdict.violation->event : static_cast<std::uint32_t>(run.trace.size());
  std::string text;
  for (std::uint32_t i = 0; i < end && i < run.trace.size(); ++i) {
    const Event& event = run.trace[i];
    if (run.first_cut && i == run.recovers_from) text += "first power cut, recovery\n";
    text +=
        std::to_string(i) + "  thread " + std::to_string(event.thread) + "  " + name_of(event.kind);
    switch (event.kind) {
      case Event::Kind::store:
      case Event::Kind::stream:
        text += " " + names.store(event);
        break;
      case Event::Kind::flush:
        text += " of line " + std::to_string(event.at / line_bytes) + "  at " +
                names.place(event).show();
        break;
      case Event::Kind::fence:
      case Event::Kind::locked:
        text += "  at " + names.place(event).show();
        break;
      case Event::Kind::call:
        text += " " + names.operation(run, event.at);
        break;
      case Event::Kind::ret:
        text += " " + names.operation(run, event.at) + "  -> " +
                show(run.operations[event.at], run.answers[event.at]);
        break;
      case Event::Kind::run:
        break;
    }
    text += "\n";
  }
  return text;
}

Json json_of(const Coverage& coverage) {
  return {{"crash_points", coverage.points},     {"exhausted_points", coverage.exhausted},
          {"sampled_points", coverage.sampled},  {"states", coverage.states},
          {"repeated_states", coverage.repeats}, {"alike_states", coverage.alike},
          {"deep_states", coverage.deep},        {"recovery_cuts", coverage.recovery_cuts},
          {"given_up_runs", coverage.given_up}};
}

}  // namespace perdure::crash
