#include "crash/probe.h"

#include <algorithm>
#include <iterator>
#include <map>

namespace perdure::crash {
namespace {

bool holds(const Events& events, std::uint32_t event) {
  return std::ranges::binary_search(events, event);
}

/// How many of the line's steps the choice leaves out, if all of these are in `lost`.
std::optional<std::size_t> missing(const Choice& choice, std::span<const Step> steps,
                                   const Events& lost) {
  Events left_out;
  Events kept;
  divide(choice, steps, left_out, kept);
  for (const std::uint32_t event : left_out)
    if (!holds(lost, event)) return std::nullopt;
  return left_out.size();
}

}  // namespace

Events lost_in(const std::vector<LineState>& lines) {
  Events lost;
  for (const LineState& line : lines) lost.insert(lost.end(), line.lost.begin(), line.lost.end());
  std::ranges::sort(lost);
  return lost;
}

Probe::Probe(const Case& what, Workspace& workspace, Deadline end, bool cuts_again)
    : what_(what),
      workspace_(workspace),
      end_(end),
      cuts_again_(cuts_again),
      vocabulary_(what.program) {}

Explorer Probe::explorer(const Bounds& bounds) {
  return {what_.subject, vocabulary_, workspace_.image(), workspace_.watch(), what_.domain, bounds};
}

TraceReplay Probe::replayed(const Recorded& run, std::uint32_t event) {
  TraceReplay replay(run, workspace_.image(),
                     {what_.domain, what_.program.threads, what_.bounds.reorder});
  replay.go_to(event);
  return replay;
}

std::vector<LineState> Probe::lines_without(const Recorded& run, std::uint32_t event,
                                            const Events& lost) {
  const TraceReplay replay = replayed(run, event);
  const Persistency& model = replay.model();
  std::vector<LineState> lines;
  const std::vector<Persistency::Buffered> waiting = model.buffered();
  // The buffer loses its tail.
  std::size_t kept = waiting.size();
  while (kept > 0 && holds(lost, waiting[kept - 1].event)) --kept;
  while (kept < waiting.size() && kept > 0 && waiting[kept - 1].torn) ++kept;
  if (kept < waiting.size())
    lines.push_back({LineState::store_buffer,
                     static_cast<std::uint32_t>(kept),
                     static_cast<std::uint32_t>(waiting.size() + 1),
                     {}});
  for (const LineNumber line : model.open_lines()) {
    const std::span<const Choice> choices = model.choices(line);
    std::size_t best = choices.size() - 1;
    std::size_t most = 0;
    for (std::size_t i = 0; i < choices.size(); ++i)
      if (const auto count = missing(choices[i], model.steps(line), lost); count && *count > most) {
        best = i;
        most = *count;
      }
    if (best + 1 < choices.size())
      lines.push_back(
          {line, static_cast<std::uint32_t>(best), static_cast<std::uint32_t>(choices.size()), {}});
  }
  return lines;
}

std::optional<Violation> Probe::judge(const Recorded& run, std::uint32_t event,
                                      const Events& lost) {
  const std::vector<LineState> lines =
      lost.empty() ? std::vector<LineState>{} : lines_without(run, event, lost);
  Bounds bounds = what_.bounds;
  if (!cuts_again_) bounds.recrash_states = 0;
  return explorer(bounds).judge_one(run, what_.program.threads, event, lines);
}

std::optional<Violation> Probe::judge_all(const Recorded& run, bool deep) {
  Bounds bounds = what_.bounds;
  bounds.deep_every = deep ? 1 : ~0U;
  bounds.states = ~std::uint64_t{0};
  if (!may_cut_again_) bounds.recrash_states = 0;
  return explorer(bounds).explore(run, what_.program.threads, [this] { return time_up(); });
}

// One pass over the lines and one over the stores of each that is left: what remains is needed,
// each store of it, while all others are kept.
Events Probe::fewest(const Recorded& run, std::uint32_t event, Events lost) {
  if (judge(run, event, {})) return {};
  const auto line_of = [&](std::uint32_t number) { return run.trace[number].at / line_bytes; };
  std::map<std::uint64_t, Events> lines;
  for (const std::uint32_t number : lost) lines[line_of(number)].push_back(number);
  // Ever smaller groups of lines are brought back.
  std::vector<std::uint64_t> left;
  for (const auto& [line, events] : lines) left.push_back(line);
  const auto events_of = [&](const std::vector<std::uint64_t>& some) {
    Events all;
    for (const std::uint64_t line : some)
      all.insert(all.end(), lines[line].begin(), lines[line].end());
    std::ranges::sort(all);
    return all;
  };
  for (std::size_t group = (left.size() + 1) / 2; group >= 1 && left.size() > 1; group /= 2) {
    for (std::size_t at = 0; at < left.size() && left.size() > 1 && !time_up();) {
      std::vector<std::uint64_t> fewer = left;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(at),
                  fewer.begin() + static_cast<std::ptrdiff_t>(std::min(left.size(), at + group)));
      if (judge(run, event, events_of(fewer)))
        left = std::move(fewer);
      else
        at += group;
    }
  }
  lost = events_of(left);
  for (const std::uint64_t line : left)
    for (const std::uint32_t number : Events(lines[line])) {
      if (time_up()) return lost;
      Events fewer = lost;
      std::erase(fewer, number);
      // Under eADR the buffer's tail is one piece, of whichever lines.
      if (fewer.empty() || !judge(run, event, fewer)) break;
      lost = std::move(fewer);
    }
  return lost;
}

bool Probe::is_cut(const Recorded& run, std::uint32_t event) {
  if (event == 0 || event >= run.trace.size()) return true;
  const std::uint32_t group = run.trace[event].group;
  return group == 0 || run.trace[event - 1].group != group;
}

Recorded Probe::recovery_of(const Recorded& run, const Violation& violation, std::uint32_t& event,
                            Events& lost) {
  Recorded made;
  {
    Image& image = workspace_.image();
    const TraceReplay replay = replayed(run, violation.event);
    image.mark();
    static_cast<void>(write_state(replay.model(), violation.lines, image));
    made.before.assign(image.base(), image.base() + image.bytes());
    image.undo();
  }
  made.operations = run.operations;
  made.answers = run.answers;
  made.blocks = run.blocks;
  made.capacity = run.capacity;
  // What was called and what has returned says what is allowed.
  std::copy_if(run.trace.begin(), run.trace.begin() + violation.event,
               std::back_inserter(made.trace), is_call_or_return);
  const auto told = static_cast<std::uint32_t>(made.trace.size());
  made.trace.insert(made.trace.end(), violation.recovery.begin(), violation.recovery.end());
  made.explored_from = made.recovers_from = told;
  made.recovers_to = static_cast<std::uint32_t>(made.trace.size());
  made.in_use_from = run.in_use_from <= violation.event ? 0 : ~0U;
  event = told + violation.recovery_event;
  lost = lost_in(violation.recovery_lines);
  for (std::uint32_t& number : lost) number += told;
  return made;
}

}  // namespace perdure::crash
