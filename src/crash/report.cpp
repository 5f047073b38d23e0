#include "crash/report.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace perdure::crash {
namespace {

std::string hex(std::uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

std::string stamp_text(std::uint64_t stamp) {
  return stamp == absent ? "nothing" : "value " + std::to_string(stamp);
}

std::string answer_text(const Operation& operation, const Answer& answer) {
  if (!answer.returned) return "in flight";
  std::string text = perdure::name_of(answer.outcome);
  if (operation.action == Action::lookup && answer.outcome == Outcome::ok)
    text += ", " + stamp_text(answer.stamp);
  if (operation.action == Action::scan) text = std::to_string(answer.found.size()) + " records";
  return text;
}

Layout layout_of(const Case& what, const Recorded& run) {
  const IndexInfo& info = *what.subject.info;
  return {info.media == nullptr ? std::vector<MediaStruct>{} : info.media(what.subject.options),
          run.blocks};
}

/// How texts name places: of code, and of the pool.
struct Names {
  Places& places;
  Layout layout;
};

/// One store as a line of text: where in the pool, what, and from which source line.
std::string store_text(const Event& event, Names& names) {
  const std::string name = names.layout.name_of(event.at);
  return (name.empty() ? "" : name + ", ") + "line " + std::to_string(event.at / line_bytes) +
         " + " + std::to_string(event.at % line_bytes) + ", " + std::to_string(event.size) +
         (event.size == 1 ? " byte = " : " bytes = ") + hex(event.value) + "  at " +
         names.places.of(event.pc).show();
}

/// The place of stores in the trace, one text per source line.
void tell_stores(std::string& text, const char* head, const std::vector<std::uint32_t>& events,
                 const Recorded& run, Names& names) {
  constexpr std::size_t most = 6;
  if (events.empty()) return;
  text += std::string("    ") + head + ":\n";
  for (std::size_t i = 0; i < std::min(events.size(), most); ++i)
    text += "      " + store_text(run.trace[events[i]], names) + "\n";
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
void tell_fields(std::string& text, const LineState& line, Names& names) {
  constexpr std::size_t most = 8;
  std::size_t told = 0;
  for (const Layout::Field& field : names.layout.fields_of(line.line)) {
    const std::uint64_t at = field.offset % line_bytes;
    const auto bytes = std::min<std::uint32_t>(field.bytes, word_bytes);
    const std::uint64_t old = value_at(line.content, at, bytes);
    const std::uint64_t newest = value_at(line.newest, at, bytes);
    if (old == newest || told++ >= most) continue;
    text += "    " + field.name + " = " + hex(old) + ", was " + hex(newest) + " in the run\n";
  }
  if (told > most) text += "    and " + std::to_string(told - most) + " more fields\n";
}

/// The last stores before the cut that were made after the oldest lost one and are on media: what
/// overtook it.
std::vector<std::uint32_t> overtakers(const Verdict& verdict) {
  const Violation& violation = *verdict.violation;
  std::uint32_t oldest_lost = violation.event;
  std::vector<bool> lost(verdict.run.trace.size(), false);
  for (const LineState& line : violation.lines)
    for (const std::uint32_t event : line.lost) {
      lost[event] = true;
      oldest_lost = std::min(oldest_lost, event);
    }
  std::vector<std::uint32_t> found;
  for (std::uint32_t i = oldest_lost; i < violation.event && i < verdict.run.trace.size(); ++i) {
    const Event& event = verdict.run.trace[i];
    const bool store = event.kind == Event::Kind::store || event.kind == Event::Kind::stream;
    if (store && !lost[i]) found.push_back(i);
  }
  return found;
}

std::vector<const void*> all_places(const Verdict& verdict) {
  std::vector<const void*> pcs;
  for (const Event& event : verdict.run.trace)
    if (event.pc != nullptr) pcs.push_back(event.pc);
  return pcs;
}

}  // namespace

std::string show(const Operation& operation, const Vocabulary& vocabulary) {
  std::string text = name_of(operation.action);
  if (operation.action == Action::create) return text;
  if (operation.action == Action::load)
    return text + " " + std::to_string(operation.count) + " keys from " + vocabulary.show(0) +
           " on";
  text += " key " + vocabulary.show(operation.key);
  if (operation.action == Action::scan) return text + ", " + std::to_string(operation.count);
  if (operation.action != Action::lookup && operation.action != Action::remove)
    text += " := value " + std::to_string(operation.stamp);
  return text;
}

namespace {

/// By number, the operations of a run that was cut once before: those that it began before that.
std::vector<bool> called_before_first_cut(const Recorded& run) {
  std::vector<bool> called(run.operations.size(), false);
  for (std::uint32_t i = 0; i < run.trace.size() && run.recovers_from != ~0U; ++i)
    if (i < run.recovers_from && run.trace[i].kind == Event::Kind::call)
      called[run.trace[i].at] = true;
  return called;
}

}  // namespace

std::string tell(const Case& what, const Verdict& verdict, Places& places,
                 const std::string& repair) {
  const Violation& violation = *verdict.violation;
  const Recorded& run = verdict.run;
  const Vocabulary vocabulary(what.program);
  places.prepare(all_places(verdict));
  Names names{places, layout_of(what, run)};
  std::string text = "violation: " + violation.oracle + ": " + violation.what + "\n\noperations\n";
  std::vector<bool> called(run.operations.size(), false);
  for (std::uint32_t i = 0; i < violation.event && i < run.trace.size(); ++i)
    if (run.trace[i].kind == Event::Kind::call) called[run.trace[i].at] = true;
  const std::vector<bool> early = called_before_first_cut(run);
  const auto tell_operations = [&](bool before) {
    for (std::uint32_t i = 0; i < run.operations.size(); ++i) {
      if (!called[i] || early[i] != before) continue;
      const bool open = std::ranges::find(violation.open, i) != violation.open.end() ||
                        (before && !run.answers[i].returned);
      text += "  thread " + std::to_string(run.operations[i].thread) + "  " +
              show(run.operations[i], vocabulary) + "  -> " +
              (open ? "in flight" : answer_text(run.operations[i], run.answers[i])) + "\n";
    }
  };
  if (what.cut != 0) {
    tell_operations(true);
    text += "\nfirst power cut, or the pool is closed; recovery, which then goes on with\n";
  }
  tell_operations(false);
  text += "\npower cut";
  if (violation.event > 0 && violation.event <= run.trace.size() &&
      run.trace[violation.event - 1].kind == Event::Kind::ret) {
    text += " after the return of " +
            show(run.operations[run.trace[violation.event - 1].at], vocabulary);
  } else if (violation.event < run.trace.size()) {
    const Event& next = run.trace[violation.event];
    text += std::string(" just before the next ") + name_of(next.kind);
    if (next.pc != nullptr) text += " at " + places.of(next.pc).show();
  } else {
    text += " after the last operation";
  }
  text += " (event " + std::to_string(violation.event) + ")\n";
  for (const LineState& line : violation.lines) {
    if (line.line == LineState::store_buffer) {
      text += "  store buffer: the last " + std::to_string(line.choices - 1 - line.choice) +
              " stores are lost\n";
      continue;
    }
    text += "  line " + std::to_string(line.line) + " (pool offset " +
            std::to_string(std::uint64_t{line.line} * line_bytes) + ") keeps an older content\n";
    tell_fields(text, line, names);
    text += "    bytes " + bytes_text(line.content) + "\n";
    tell_stores(text, "lost", line.lost, run, names);
    tell_stores(text, "kept", line.kept, run, names);
  }
  const std::vector<std::uint32_t> later = overtakers(verdict);
  if (!violation.lines.empty() && !later.empty())
    text += "  on media although stored after the first loss:\n      " +
            store_text(run.trace[later.back()], names) + "\n";
  for (const LineState& line : violation.recovery_lines)
    text += "  second cut: recovery's line " + std::to_string(line.line) + " is " +
            bytes_text(line.content) + "\n";
  text += "\nrepair: " +
          (repair.empty() ? std::string("no single flush or fence makes this trace pass; the order "
                                        "of the stores, or recovery, is at fault")
                          : repair + " makes this trace pass") +
          "\n";
  return text;
}

std::string tell_steps(const Case& what, const Verdict& verdict, Places& places) {
  const Recorded& run = verdict.run;
  const Vocabulary vocabulary(what.program);
  places.prepare(all_places(verdict));
  Names names{places, layout_of(what, run)};
  const std::uint32_t end =
      verdict.violation ? verdict.violation->event : static_cast<std::uint32_t>(run.trace.size());
  std::string text;
  for (std::uint32_t i = 0; i < end && i < run.trace.size(); ++i) {
    const Event& event = run.trace[i];
    if (i == run.recovers_from) text += "first power cut, or the pool is closed; recovery\n";
    text +=
        std::to_string(i) + "  thread " + std::to_string(event.thread) + "  " + name_of(event.kind);
    switch (event.kind) {
      case Event::Kind::store:
      case Event::Kind::stream:
        text += " " + store_text(event, names);
        break;
      case Event::Kind::flush:
        text += " of line " + std::to_string(event.at / line_bytes) + "  at " +
                places.of(event.pc).show();
        break;
      case Event::Kind::fence:
      case Event::Kind::locked:
        text += "  at " + places.of(event.pc).show();
        break;
      case Event::Kind::call:
        text += " " + show(run.operations[event.at], vocabulary);
        break;
      case Event::Kind::ret:
        text += " " + show(run.operations[event.at], vocabulary) + "  -> " +
                answer_text(run.operations[event.at], run.answers[event.at]);
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
          {"deep_states", coverage.deep},        {"recovery_cuts", coverage.recovery_cuts}};
}

}  // namespace perdure::crash
