#include "crash/cut.h"

#include <algorithm>
#include <map>
#include <set>
#include <span>

namespace perdure::crash {
namespace {

/// A power cut, and a state it leaves.
struct Drawn {
  std::uint32_t event = 0;
  Choices choices;
};

/// All lines newest, most, or half of them; the others hold any prefix, the oldest most often.
Choices draw_lines(const Persistency& model, Rng& rng) {
  const std::uint64_t odds = std::uint64_t{2} << rng.below(3);
  Choices drawn;
  for (const LineNumber line : model.open_lines()) {
    const std::size_t count = model.choices(line).size();
    const std::size_t older = rng.below(2) == 0 ? 0 : rng.below(count);
    const std::size_t choice = rng.below(odds) == 0 ? older : count - 1;
    if (count > 1) drawn.push_back(static_cast<std::uint32_t>(choice));
  }
  return drawn;
}

/// What a cut there leaves, with these choices of its open lines; of a store buffer nothing is
/// kept.
CutState make_cut(const Recorded& run, const TraceReplay& replay, const Choices& chosen,
                  Image& image) {
  CutState state;
  state.event = replay.at();
  std::copy_if(run.trace.begin(), run.trace.begin() + state.event, std::back_inserter(state.told),
               is_call_or_return);
  const OpenLines open = open_lines(replay.model());
  if (const auto waiting = replay.model().buffered(); !waiting.empty())
    state.lines.push_back(buffer_state(waiting, 0));
  std::ranges::move(older_lines(replay.model(), open, chosen), std::back_inserter(state.lines));
  image.mark();
  write_lines(open, chosen, image);
  state.content.assign(image.base(), image.base() + image.bytes());
  image.undo();
  return state;
}

/// Fences of the explored part, about so many, evenly spread.
std::vector<std::uint32_t> some_fences(const Recorded& run, std::size_t most) {
  std::vector<std::uint32_t> fences;
  for (std::uint32_t i = run.explored_from; i < run.trace.size(); ++i)
    if (run.trace[i].kind == Event::Kind::fence) fences.push_back(i);
  const std::size_t apart = std::max<std::size_t>(1, fences.size() / most);
  std::vector<std::uint32_t> some;
  for (std::size_t i = 0; i < fences.size(); i += apart) some.push_back(fences[i]);
  return some;
}

}  // namespace

CutState draw_cut(const Recorded& run, Domain domain, unsigned threads, Image& image, Rng& rng) {
  TraceReplay replay(run, image, {.domain = domain, .threads = threads});
  replay.go_to(static_cast<std::uint32_t>(
      run.explored_from + rng.below(run.trace.size() - run.explored_from + std::uint64_t{1})));
  return make_cut(run, replay, draw_lines(replay.model(), rng), image);
}

// Each draw hangs on the event that it is about, and whoever has the highest lot is chosen: so what
// is left out of a program behind the cut, when it is shrunk, leaves the cut where it is.
CutState draw_cut_to_mend(const Recorded& run, Domain domain, unsigned threads, Image& image,
                          unsigned most_states, const RecoverHere& recover_here,
                          std::uint64_t seed) {
  struct Repair {
    std::uint64_t lot;  ///< among the kinds
    std::uint64_t states = 0;
    std::uint64_t highest = 0;  ///< lot of one of its states
    Drawn drawn{};              ///< that one
  };
  std::map<std::set<const void*>, std::size_t> known;
  std::vector<Repair> repairs;  // in the order in which they were met: code may lie anywhere
  TraceReplay replay(run, image, {.domain = domain, .threads = threads});
  for (const std::uint32_t event : some_fences(run, std::max(1U, most_states / 2))) {
    replay.go_to(event);
    Rng rng(mix64(seed) ^ event, 17);
    for (const bool all_oldest : {true, false}) {
      const OpenLines open = open_lines(replay.model());
      Drawn drawn{event, all_oldest ? oldest(open) : draw_lines(replay.model(), rng)};
      image.mark();
      write_lines(open, drawn.choices, image);
      std::set<const void*> places;
      for (const Event& each : recover_here())
        if (is_store(each)) places.insert(each.pc);
      image.undo();
      const auto [at, is_new] = known.try_emplace(std::move(places), repairs.size());
      if (is_new) repairs.push_back({rng()});
      Repair& repair = repairs[at->second];
      ++repair.states;
      const std::uint64_t lot = rng();
      if (repair.states > 1 && lot <= repair.highest) continue;
      repair.highest = lot;
      repair.drawn = std::move(drawn);
    }
  }
  if (repairs.empty()) {
    Rng rng(seed, 18);
    return draw_cut(run, domain, threads, image, rng);
  }
  // What most states come to is no repair.
  if (repairs.size() > 1) repairs.erase(std::ranges::max_element(repairs, {}, &Repair::states));
  const Drawn& drawn = std::ranges::max_element(repairs, {}, &Repair::lot)->drawn;
  TraceReplay again(run, image, {.domain = domain, .threads = threads});
  again.go_to(drawn.event);
  return make_cut(run, again, drawn.choices, image);
}

}  // namespace perdure::crash
