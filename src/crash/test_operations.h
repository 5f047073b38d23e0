// What tests ask of single operations: what they flush and fence, and whether others need them.
#pragma once

#include <cstdint>
#include <optional>
#include <ostream>
#include <utility>

#include "crash/image.h"
#include "crash/recorder.h"

namespace perdure::crash {

/// Flushed lines and fences of one operation.
struct Cost {
  unsigned flushes = 0;
  unsigned fences = 0;
  friend bool operator==(const Cost&, const Cost&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Cost& cost) {
    return out << cost.flushes << "/" << cost.fences;
  }
};

template <class Operation>
[[nodiscard]] Cost cost_of(const Memory& memory, Operation&& operation) {
  Recorder recorder(memory.base(), memory.bytes(), {.schedule = {}, .mutation = {}});
  const auto run = recorder.run([&](unsigned) { operation(); });
  Cost cost;
  for (const Event& event : run.trace) {
    cost.flushes += event.kind == Event::Kind::flush ? 1U : 0U;
    cost.fences += event.kind == Event::Kind::fence ? 1U : 0U;
  }
  return cost;
}

/// Stops thread 0 before its step `step`, and lets thread 1 do all of its work, `work(thread,
/// recorder)`. None: thread 0 had no such step. True: thread 1 has finished without thread 0.
template <class Work>
[[nodiscard]] std::optional<bool> finishes_without(const Memory& memory, std::uint64_t step,
                                                   Work&& work) {
  Recorder recorder(memory.base(), memory.bytes(),
                    {.threads = 2,
                     .schedule = {.first = 0, .preemptions = {{step, 1}}},
                     .most_steps = 100'000,
                     .mutation = {}});
  bool first_ended = false;
  bool came_too_late = false;
  bool first_was_needed = false;
  const auto run = recorder.run([&](unsigned thread) {
    if (thread == 1) came_too_late = first_ended;
    work(thread, recorder);
    if (thread == 0) first_ended = true;
    if (thread == 1) first_was_needed = first_ended;
  });
  if (came_too_late) return std::nullopt;
  return !run.hung && !first_was_needed;
}

}  // namespace perdure::crash
