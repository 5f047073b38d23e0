#include "crash/live.h"

namespace perdure::crash {
namespace {

/// The states that the run's operations may have left; none where an answer was wrong, which
/// another oracle reports.
std::optional<History> history_of(const Recorded& run, std::uint16_t keys) {
  std::optional<History> history(std::in_place, run.operations, run.answers, keys);
  for (std::uint32_t i = 0; i < run.trace.size(); ++i) {
    const Event& event = run.trace[i];
    if (i == run.recovers_from) history->cut();
    if (event.kind == Event::Kind::call) history->call(event.at);
    if (event.kind == Event::Kind::ret && !history->ret(event.at).empty()) return std::nullopt;
  }
  return history;
}

std::string told(std::uint64_t stamp) {
  return stamp == absent      ? "absent"
         : stamp == bad_stamp ? "a torn value"
                              : "value " + std::to_string(stamp);
}

/// Empty, or what is wrong.
std::string look_up_all(Instance& instance, const History& history, const Vocabulary& vocabulary) {
  std::vector<std::uint64_t> stamps(vocabulary.keys());
  for (std::uint16_t key = 0; key < vocabulary.keys(); ++key) {
    stamps[key] = instance.lookup(key);
    if (history.allows(key, stamps[key])) continue;
    std::string text =
        "by lookup, key " + vocabulary.show(key) + " is " + told(stamps[key]) + "; allowed:";
    for (const std::uint64_t allowed : history.allowed(key)) text += " " + told(allowed);
    return text;
  }
  std::vector<std::uint64_t> scanned;
  if (std::string wrong = instance.contents(scanned); !wrong.empty()) return wrong;
  for (std::uint16_t key = 0; key < vocabulary.keys(); ++key)
    if (stamps[key] != scanned[key])
      return "key " + vocabulary.show(key) + " is " + told(stamps[key]) + " by lookup and " +
             told(scanned[key]) + " by scan";
  return {};
}

}  // namespace

Live ask_live(Instance& instance, const Recorded& run, const Vocabulary& vocabulary,
              std::uint8_t software) {
  const std::span<std::byte> memory = instance.memory();
  const std::optional<History> history = history_of(run, vocabulary.keys());
  if (!history) return {};
  std::string wrong;
  Recorder recorder(memory.data(), memory.size(),
                    {.threads = 1,
                     .schedule = {.software = software},
                     .most_steps = most_steps_for(vocabulary.keys()),
                     .mutation = {}});
  const Recorder::Run asked = recorder.run([&](unsigned) {
    wrong = look_up_all(instance, *history, vocabulary);
    if (!wrong.empty()) return;
    instance.quiesce();
    wrong = instance.check();
  });
  Live live{std::nullopt, asked.hung, asked.steps.count};
  if (live.hung) wrong = "a lookup, a scan or the check of the invariants does not end";
  if (!wrong.empty())
    live.violation =
        Violation{.oracle = Oracle::live,
                  .what = "when the operations have returned, without a power cut: " + wrong,
                  .event = static_cast<std::uint32_t>(run.trace.size())};
  return live;
}

}  // namespace perdure::crash
