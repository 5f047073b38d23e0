#include "crash/smells.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

namespace perdure::crash {
namespace {

using Key = std::tuple<Smell::Kind, const void*, Action>;

void count_smells(const Recorded& run, unsigned threads, Image& image,
                  std::map<Key, std::uint64_t>& counts) {
  std::vector<Action> doing(threads, Action::create);
  std::vector<std::uint32_t> unflushed(image.lines(), 0);  // 1 + the last store's event
  for (TraceReplay replay(run, image, {.threads = threads}); !replay.at_end(); replay.step()) {
    const Event& event = replay.next();
    std::uint32_t& last_store = unflushed[event.at / line_bytes];
    const Action during = doing[event.thread];
    switch (event.kind) {
      case Event::Kind::store:
        last_store = replay.at() + 1;
        break;
      case Event::Kind::flush:
        if (last_store == 0) ++counts[{Smell::Kind::clean_line_flushed, event.pc, during}];
        last_store = 0;
        break;
      case Event::Kind::fence:
        if (!replay.model().has_work(event.thread))
          ++counts[{Smell::Kind::empty_fence, event.pc, during}];
        break;
      case Event::Kind::call:
        doing[event.thread] = run.operations[event.at].action;
        break;
      default:
        break;
    }
  }
  for (const std::uint32_t last : unflushed)
    if (last != 0) {
      const Event& event = run.trace[last - 1];
      ++counts[{Smell::Kind::never_flushed, event.pc, Action::create}];
    }
}

}  // namespace

const char* name_of(Smell::Kind kind) noexcept {
  static constexpr const char* names[] = {"flush of a clean line", "fence with nothing pending",
                                          "store never flushed"};
  return names[static_cast<std::size_t>(kind)];
}

std::vector<Smell> find_smells(const Plan& plan, Workspace& workspace, Places& places) {
  constexpr std::uint64_t programs = 20;
  std::map<Key, std::uint64_t> counts;
  for (std::uint64_t seed = plan.seed; seed < plan.seed + programs; ++seed) {
    Case what{plan.subject, {}, {}, plan.domain, plan.bounds, {}};
    what.program = generate(program_plan(plan, seed));
    const Verdict verdict = record(what, workspace);
    if (!verdict.violation) count_smells(verdict.run, plan.threads, workspace.image(), counts);
  }
  std::vector<const void*> pcs;
  for (const auto& [key, times] : counts) pcs.push_back(std::get<1>(key));
  places.prepare(pcs);
  std::map<std::tuple<Smell::Kind, std::string, Action>, Smell> merged;
  for (const auto& [key, times] : counts) {
    const auto& [kind, pc, during] = key;
    const Place& place = places.of(pc);
    Smell& smell = merged.try_emplace({kind, place.show(), during}, Smell{kind, place, during, 0})
                       .first->second;
    smell.times += times;
  }
  std::vector<Smell> smells;
  for (auto& [key, smell] : merged) smells.push_back(std::move(smell));
  std::ranges::stable_sort(smells, std::greater<>(), &Smell::times);
  return smells;
}

std::string tell(const std::vector<Smell>& smells) {
  std::string text = smells.empty() ? "  no smells\n" : "  smells, over 20 programs\n";
  for (const Smell& smell : smells) {
    text += "    " + std::to_string(smell.times) + " x " + name_of(smell.kind) + " at " +
            smell.place.show();
    if (smell.kind != Smell::Kind::never_flushed)
      text += std::string(", during ") + name_of(smell.during);
    text += "\n";
  }
  return text;
}

nlohmann::ordered_json json_of(const std::vector<Smell>& smells) {
  auto list = nlohmann::ordered_json::array();
  for (const Smell& smell : smells)
    list.push_back({{"kind", name_of(smell.kind)},
                    {"site", smell.place.show()},
                    {"during", name_of(smell.during)},
                    {"times", smell.times}});
  return list;
}

}  // namespace perdure::crash
