#include "crash/trace.h"

#include <algorithm>

#include "core/rng.h"

namespace perdure::crash {

const char* name_of(Event::Kind kind) noexcept {
  static constexpr const char* names[] = {"store",  "stream", "flush", "fence",
                                          "locked", "call",   "ret",   "run"};
  return names[static_cast<std::size_t>(kind)];
}

std::vector<std::uint32_t> called_in(const Trace& trace, std::size_t from, std::size_t to) {
  std::vector<std::uint32_t> called;
  for (std::size_t i = from; i < std::min(to, trace.size()); ++i)
    if (trace[i].kind == Event::Kind::call) called.push_back(trace[i].at);
  return called;
}

std::uint64_t digest(const Trace& trace) noexcept {
  std::uint64_t sum = 0x7065726475726521ULL;
  for (const Event& event : trace) {
    const std::uint64_t head = static_cast<std::uint64_t>(event.kind) << 48 |
                               std::uint64_t{event.thread} << 40 | std::uint64_t{event.size} << 32 |
                               event.at;
    sum = mix64(sum ^ head) + event.value;
    if (event.group != 0) sum = mix64(sum + event.group);
  }
  return mix64(sum);
}

}  // namespace perdure::crash
