#include "crash/cut.h"

#include <algorithm>
#include <functional>
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

/// What a cut there leaves with these choices of its open lines. Nothing of a store buffer is
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

/// About `most` fences of the explored part, evenly spread.
std::vector<std::uint32_t> some_fences(const Recorded& run, std::size_t most) {
  std::vector<std::uint32_t> fences;
  for (std::uint32_t i = run.explored_from; i < run.trace.size(); ++i)
    if (run.trace[i].kind == Event::Kind::fence) fences.push_back(i);
  const std::size_t apart = std::max<std::size_t>(1, fences.size() / most);
  std::vector<std::uint32_t> some;
  for (std::size_t i = 0; i < fences.size(); i += apart) some.push_back(fences[i]);
  return some;
}

/// Cut anywhere, with any lines.
CutState draw_cut(const Recorded& run, TraceReplay::Rules rules, Image& image, Rng& rng) {
  TraceReplay replay(run, image, rules);
  replay.go_to(static_cast<std::uint32_t>(
      run.explored_from + rng.below(run.trace.size() - run.explored_from + std::uint64_t{1})));
  return make_cut(run, replay, draw_lines(replay.model(), rng), image);
}

/// Recovers from what the image holds, which is then as it was, and returns what that stored.
using RecoverHere = std::function<Trace()>;

/// Of many states, each before a fence, one that recovery mends. Whatever different places of its
/// code have stored there is a kind of repair; all kinds are drawn equally often, so that one that
/// few states need is not left out. A state of any kind where recovery does the same for all.
//
// Each lot depends only on the event it is drawn for, and the highest wins. So when shrinking
// leaves out operations after the cut, the cut stays where it is.
CutState draw_cut_to_mend(const Recorded& run, TraceReplay::Rules rules, Image& image,
                          unsigned most_states, const RecoverHere& recover_here,
                          std::uint64_t seed) {
  struct Repair {
    std::uint64_t lot;  ///< among the kinds
    std::uint64_t states = 0;
    std::uint64_t highest = 0;  ///< lot of one of its states
    Drawn drawn{};              ///< that one
  };
  std::map<std::set<const void*>, std::size_t> known;
  std::vector<Repair> repairs;  // in the order of meeting: addresses of code differ by machine
  TraceReplay replay(run, image, rules);
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
    return draw_cut(run, rules, image, rng);
  }
  // What recovery does in most states is no repair.
  if (repairs.size() > 1) repairs.erase(std::ranges::max_element(repairs, {}, &Repair::states));
  const Drawn& drawn = std::ranges::max_element(repairs, {}, &Repair::lot)->drawn;
  TraceReplay again(run, image, rules);
  again.go_to(drawn.event);
  return make_cut(run, again, drawn.choices, image);
}

/// What a recovery of the sound program from the state in the image stores.
Trace recover_in_image(const Case& what, const Vocabulary& vocabulary, Workspace& workspace) {
  Image& image = workspace.image();
  Watch& watch = workspace.watch();
  watch.mutate({});
  watch.expect_keys(what.program.keys);
  Recovered recovered;
  image.mark();
  watch.record(true);
  const Ending ending = watch.run([&] {
    recovered = recover(what.subject, vocabulary, image.memory());
    recovered.instance.reset();
  });
  Trace trace = watch.take_trace();
  watch.record(false);
  image.undo();
  if (ending != Ending::returned) static_cast<void>(recovered.instance.release());
  return trace;
}

}  // namespace

CutState draw_first_cut(const Case& what, const Recorded& run, const Vocabulary& vocabulary,
                        Workspace& workspace) {
  constexpr std::uint16_t few_keys = 200;
  const unsigned most_states = what.program.keys <= few_keys ? 160 : 32;
  const TraceReplay::Rules rules{.domain = what.domain, .threads = what.program.threads};
  Rng rng(what.cut, 9);
  if (rng.below(4) == 0) return draw_cut(run, rules, workspace.image(), rng);
  return draw_cut_to_mend(
      run, rules, workspace.image(), most_states,
      [&] { return recover_in_image(what, vocabulary, workspace); }, what.cut);
}

}  // namespace perdure::crash
