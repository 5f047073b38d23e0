#include "crash/crash_state.h"

#include <algorithm>

namespace perdure::crash {

OpenLines open_lines(const Persistency& model) {
  OpenLines open;
  open.reserve(model.open_lines().size());
  for (const LineNumber line : model.open_lines()) {
    const Persistency::Possible possible = model.possible(line);
    if (possible.choices.size() > 1) open.push_back({line, possible.choices, possible.undecided});
  }
  return open;
}

Choices oldest(const OpenLines& open) { return Choices(open.size(), 0); }

Choices newest(const OpenLines& open) {
  Choices chosen;
  for (const OpenLine& each : open)
    chosen.push_back(static_cast<std::uint32_t>(each.choices.size() - 1));
  return chosen;
}

void write_lines(const OpenLines& open, const Choices& chosen, Image& image) {
  for (std::size_t i = 0; i < open.size(); ++i)
    if (chosen[i] != 0) image.write(open[i].line, open[i].choices[chosen[i]].content);
}

std::vector<LineState> older_lines(const Persistency& model, const OpenLines& open,
                                   const Choices& chosen) {
  std::vector<LineState> lines;
  for (std::size_t i = 0; i < open.size(); ++i) {
    const std::span<const Choice> choices = open[i].choices;
    if (chosen[i] + 1 == choices.size()) continue;
    const Choice& choice = choices[chosen[i]];
    LineState line{open[i].line, chosen[i], static_cast<std::uint32_t>(choices.size()),
                   choice.content, choices.back().content};
    divide(choice, model.steps(open[i].line), line.lost, line.kept);
    lines.push_back(std::move(line));
  }
  return lines;
}

LineState buffer_state(std::span<const Persistency::Buffered> waiting, std::size_t kept) {
  LineState state{LineState::store_buffer,
                  static_cast<std::uint32_t>(kept),
                  static_cast<std::uint32_t>(waiting.size() + 1),
                  {}};
  for (std::size_t i = 0; i < waiting.size(); ++i)
    (i < kept ? state.kept : state.lost).push_back(waiting[i].event);
  return state;
}

CrashState write_state(const Persistency& model, const std::vector<LineState>& lines,
                       Image& image) {
  CrashState state{.waiting = model.buffered(), .kept = 0, .open = {}, .chosen = {}};
  state.kept = state.waiting.size();
  for (const LineState& line : lines)
    if (line.line == LineState::store_buffer)
      state.kept = std::min<std::size_t>(state.kept, line.choice);
  for (std::size_t i = 0; i < state.kept; ++i)
    image.write(state.waiting[i].line, state.waiting[i].content);
  state.open = open_lines(model);
  state.chosen = newest(state.open);
  for (std::size_t i = 0; i < state.open.size(); ++i) {
    const auto given = std::ranges::find(lines, state.open[i].line, &LineState::line);
    if (given != lines.end()) state.chosen[i] = std::min(state.chosen[i], given->choice);
  }
  write_lines(state.open, state.chosen, image);
  return state;
}

}  // namespace perdure::crash
