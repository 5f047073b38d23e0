#include "crash/cut.h"

#include <algorithm>
#include <map>
#include <set>
#include <span>

namespace perdure::crash {
namespace {

/// The content of each open line, by its choice.
using Choices = std::vector<std::pair<LineNumber, std::size_t>>;

/// A power cut, and a state it leaves.
struct Drawn {
  std::size_t event = 0;
  Choices choices;
};

/// All lines newest, most, or half of them; the others hold any prefix, the oldest most often.
Choices draw_lines(const Persistency& model, Rng& rng) {
  const std::uint64_t odds = std::uint64_t{2} << rng.below(3);
  Choices drawn;
  for (const LineNumber line : model.open_lines()) {
    const std::size_t count = model.choices(line).size();
    const std::size_t older = rng.below(2) == 0 ? 0 : rng.below(count);
    drawn.emplace_back(line, rng.below(odds) == 0 ? older : count - 1);
  }
  return drawn;
}

Choices oldest_lines(const Persistency& model) {
  Choices drawn;
  for (const LineNumber line : model.open_lines()) drawn.emplace_back(line, 0);
  return drawn;
}

void write_lines(const Persistency& model, const Choices& choices, Image& image) {
  for (const auto& [line, choice] : choices) image.write(line, model.choices(line)[choice].content);
}

/// What of these is not the newest content; of a store buffer nothing is kept.
std::vector<LineState> lost_lines(const Persistency& model, const Choices& choices) {
  std::vector<LineState> lines;
  if (const auto waiting = model.buffered(); !waiting.empty()) {
    LineState buffer{
        LineState::store_buffer, 0, static_cast<std::uint32_t>(waiting.size() + 1), {}};
    for (const Persistency::Buffered& each : waiting) buffer.lost.push_back(each.event);
    lines.push_back(std::move(buffer));
  }
  for (const auto& [line, chosen] : choices) {
    const std::span<const Choice> all = model.choices(line);
    if (chosen + 1 == all.size()) continue;
    LineState state{line, static_cast<std::uint32_t>(chosen),
                    static_cast<std::uint32_t>(all.size()), all[chosen].content,
                    all.back().content};
    divide(all[chosen], model.steps(line), state.lost, state.kept);
    lines.push_back(std::move(state));
  }
  return lines;
}

/// Replays the run into `image` up to some event.
class Replayed {
 public:
  Replayed(const Recorded& run, Domain domain, unsigned threads, Image& image)
      : run_(run), image_(image), model_(loaded(run, image), image.lines(), domain, threads) {}
  void go_to(std::size_t event) {
    for (; at_ < event; ++at_)
      model_.replay(run_.trace[at_], static_cast<std::uint32_t>(at_), running_);
  }
  [[nodiscard]] const Persistency& model() const { return model_; }
  [[nodiscard]] CutState state(const Choices& choices) {
    CutState state;
    std::copy_if(run_.trace.begin(), run_.trace.begin() + static_cast<std::ptrdiff_t>(at_),
                 std::back_inserter(state.told), is_told);
    image_.mark();
    write_lines(model_, choices, image_);
    state.event = static_cast<std::uint32_t>(at_);
    state.lines = lost_lines(model_, choices);
    state.content.assign(image_.base(), image_.base() + image_.bytes());
    image_.undo();
    return state;
  }

 private:
  static Image& loaded(const Recorded& run, Image& image) {
    image.load(run.before.data());
    return image;
  }

  const Recorded& run_;
  Image& image_;
  Persistency model_;
  std::size_t at_ = 0;
  unsigned running_ = 0;
};

/// Fences of the explored part, about so many, evenly spread.
std::vector<std::size_t> some_fences(const Recorded& run, std::size_t most) {
  std::vector<std::size_t> fences;
  for (std::size_t i = run.explored_from; i < run.trace.size(); ++i)
    if (run.trace[i].kind == Event::Kind::fence) fences.push_back(i);
  const std::size_t apart = std::max<std::size_t>(1, fences.size() / most);
  std::vector<std::size_t> some;
  for (std::size_t i = 0; i < fences.size(); i += apart) some.push_back(fences[i]);
  return some;
}

}  // namespace

CutState draw_cut(const Recorded& run, Domain domain, unsigned threads, Image& image, Rng& rng) {
  Replayed replayed(run, domain, threads, image);
  replayed.go_to(run.explored_from +
                 rng.below(run.trace.size() - run.explored_from + std::uint64_t{1}));
  return replayed.state(draw_lines(replayed.model(), rng));
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
  Replayed replayed(run, domain, threads, image);
  for (const std::size_t event : some_fences(run, std::max(1U, most_states / 2))) {
    replayed.go_to(event);
    Rng rng(mix64(seed) ^ event, 17);
    for (const bool oldest : {true, false}) {
      Drawn drawn{event,
                  oldest ? oldest_lines(replayed.model()) : draw_lines(replayed.model(), rng)};
      image.mark();
      write_lines(replayed.model(), drawn.choices, image);
      std::set<const void*> places;
      for (const Event& each : recover_here())
        if (each.kind == Event::Kind::store || each.kind == Event::Kind::stream)
          places.insert(each.pc);
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
  Replayed again(run, domain, threads, image);
  again.go_to(drawn.event);
  return again.state(drawn.choices);
}

}  // namespace perdure::crash
