#include "crash/cut.h"

#include <algorithm>
#include <iterator>
#include <span>

namespace perdure::crash {
namespace {

std::size_t draw_any_place(const Recorded& run, Rng& rng) {
  return run.explored_from + rng.below(run.trace.size() - run.explored_from + std::uint64_t{1});
}

/// Of several fences the one with most of them between the call before and the return behind, of
/// whichever threads; or the end.
std::size_t draw_fence(const Recorded& run, Rng& rng) {
  constexpr unsigned places = 4;
  const std::span<const Event> trace = run.trace;
  std::size_t best = trace.size();
  std::ptrdiff_t most = -1;
  for (unsigned i = 0; i < places; ++i) {
    const auto from = static_cast<std::ptrdiff_t>(draw_any_place(run, rng));
    const auto fence =
        std::ranges::find(trace.begin() + from, trace.end(), Event::Kind::fence, &Event::kind);
    const auto call = std::ranges::find(std::make_reverse_iterator(fence), trace.rend(),
                                        Event::Kind::call, &Event::kind)
                          .base();
    const auto ret = std::ranges::find(fence, trace.end(), Event::Kind::ret, &Event::kind);
    const auto fences = std::ranges::count(call, ret, Event::Kind::fence, &Event::kind);
    if (fences <= most) continue;
    most = fences;
    best = static_cast<std::size_t>(fence - trace.begin());
  }
  return best;
}

}  // namespace

CutState draw_cut(const Recorded& run, Domain domain, unsigned threads, Image& image, Draw draw,
                  Rng& rng) {
  image.load(run.before.data());
  Persistency model(image, image.lines(), domain, threads);
  const std::size_t cut = draw == Draw::any ? draw_any_place(run, rng) : draw_fence(run, rng);
  CutState state;
  state.event = static_cast<std::uint32_t>(cut);
  unsigned running = 0;
  for (std::uint32_t i = 0; i < cut; ++i) {
    const Event& event = run.trace[i];
    if (is_told(event)) state.told.push_back(event);
    model.replay(event, i, running);
  }
  // All lines newest, most, or half of them; the others hold any prefix, the oldest most often.
  const std::uint64_t odds = std::uint64_t{2} << rng.below(3);
  const bool all_old = draw == Draw::torn && rng.below(2) == 0;
  if (const auto waiting = model.buffered(); !waiting.empty()) {
    LineState buffer{
        LineState::store_buffer, 0, static_cast<std::uint32_t>(waiting.size() + 1), {}};
    for (const Persistency::Buffered& each : waiting) buffer.lost.push_back(each.event);
    state.lines.push_back(std::move(buffer));
  }
  image.mark();
  for (const LineNumber line : model.open_lines()) {
    const std::span<const Choice> choices = model.choices(line);
    const std::size_t older = all_old || rng.below(2) == 0 ? 0 : rng.below(choices.size());
    const bool old = all_old || rng.below(odds) == 0;
    const std::size_t chosen = old ? older : choices.size() - 1;
    image.write(line, choices[chosen].content);
    if (chosen + 1 == choices.size()) continue;
    LineState lost{line, static_cast<std::uint32_t>(chosen),
                   static_cast<std::uint32_t>(choices.size()), choices[chosen].content,
                   choices.back().content};
    divide(choices[chosen], model.steps(line), lost.lost, lost.kept);
    state.lines.push_back(std::move(lost));
  }
  state.content.assign(image.base(), image.base() + image.bytes());
  image.undo();
  return state;
}

}  // namespace perdure::crash
