#include "crash/live.h"

#include "crash/history.h"

namespace perdure::crash {
namespace {

/// The states that the run's operations may have left; null where an answer was wrong, which
/// another oracle reports, or where there are too many.
std::unique_ptr<Specification> history_of(const Subject& subject, const Recorded& run,
                                          const Vocabulary& vocabulary) {
  auto history = specify(subject, vocabulary, run);
  for (std::uint32_t i = 0; i < run.trace.size(); ++i) {
    const Event& event = run.trace[i];
    if (i == run.recovers_from) history->cut();
    if (event.kind == Event::Kind::call) history->call(event.at);
    if (event.kind == Event::Kind::ret && !history->ret(event.at).empty()) return nullptr;
  }
  return history->gave_up() ? nullptr : std::move(history);
}

std::string told(std::uint64_t stamp) {
  return stamp == absent      ? "absent"
         : stamp == bad_stamp ? "a torn value"
                              : "value " + std::to_string(stamp);
}

/// Empty, or what is wrong.
std::string look_up_all(Instance& instance, const History& history, const Vocabulary& vocabulary) {
  Contents stamps(vocabulary.keys());
  for (std::uint16_t key = 0; key < vocabulary.keys(); ++key) {
    stamps[key] = instance.lookup(key);
    if (history.allows(key, stamps[key])) continue;
    std::string text =
        "by lookup, key " + vocabulary.show(key) + " is " + told(stamps[key]) + "; allowed:";
    for (const std::uint64_t allowed : history.allowed(key)) text += " " + told(allowed);
    return text;
  }
  Contents scanned;
  if (std::string wrong = instance.contents(scanned); !wrong.empty()) return wrong;
  for (std::uint16_t key = 0; key < vocabulary.keys(); ++key)
    if (stamps[key] != scanned[key])
      return "key " + vocabulary.show(key) + " is " + told(stamps[key]) + " by lookup and " +
             told(scanned[key]) + " by scan";
  return {};
}

/// Empty, or what is wrong. The queue is empty afterwards.
std::string pop_all(Instance& instance, const QueueHistory& history) {
  Contents found;
  std::string wrong = instance.contents(found);
  return wrong.empty() ? history.objection_to_payloads(found) : wrong;
}

}  // namespace

Live ask_live(const Subject& subject, Instance& instance, const Recorded& run,
              const Vocabulary& vocabulary, std::uint8_t software) {
  const std::span<std::byte> memory = instance.memory();
  const auto history = history_of(subject, run, vocabulary);
  if (!history) return {};
  std::string wrong;
  Recorder recorder(memory.data(), memory.size(),
                    {.threads = 1,
                     .schedule = {.software = software},
                     .most_steps = most_steps_for(vocabulary.keys()),
                     .mutation = {}});
  const Recorder::Run asked = recorder.run([&](unsigned) {
    wrong = subject.is_queue()
                ? pop_all(instance, static_cast<const QueueHistory&>(*history))
                : look_up_all(instance, static_cast<const History&>(*history), vocabulary);
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
