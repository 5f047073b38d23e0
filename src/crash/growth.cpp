#include "crash/growth.h"

#include <algorithm>

namespace perdure::crash {
namespace {

/// The events of each operation of a trace of one thread, by number.
std::vector<std::size_t> lengths_of(const Recorded& run) {
  std::vector<std::size_t> lengths(run.operations.size(), 0);
  std::size_t called = 0;
  for (std::size_t i = 0; i < run.trace.size(); ++i) {
    const Event& event = run.trace[i];
    if (event.kind == Event::Kind::call) called = i;
    if (event.kind == Event::Kind::ret) lengths[event.at] = i - called;
  }
  return lengths;
}

/// Insertions, from the second one on, that do more than all before them.
std::vector<std::size_t> find_growth(const Recorded& run) {
  constexpr std::size_t creation = 1;
  const std::vector<std::size_t> lengths = lengths_of(run);
  std::vector<std::size_t> found;
  std::size_t most = lengths.size() > creation ? lengths[creation] : 0;
  for (std::size_t i = creation + 1; i < lengths.size(); ++i) {
    if (lengths[i] <= most) continue;
    most = lengths[i];
    found.push_back(i - creation);
  }
  return found;
}

}  // namespace

Program draw_growth(const Plan& plan, std::uint64_t seed, Workspace& workspace,
                    std::size_t& events) {
  Rng rng(seed, 14);
  ProgramPlan filling{.key_kind = plan.key_kind,
                      .threads = 1,
                      .operations = 0,
                      .keys = plan.keys,
                      .preload = plan.keys,
                      .seed = seed,
                      .ordered = plan.subject.ordered(),
                      .replaces = plan.subject.replaces()};
  Case what{plan.subject, generate(filling), {}, plan.domain, plan.bounds, {}};
  // Ascending, descending, or in any order.
  const std::uint64_t order = rng.below(4);
  if (order == 0) std::ranges::sort(what.program.preload, {}, &Operation::key);
  if (order == 1) std::ranges::sort(what.program.preload, std::greater<>(), &Operation::key);
  const Verdict verdict = record(what, workspace);
  events = verdict.run.trace.size();
  const std::vector<std::size_t> growth = find_growth(verdict.run);
  std::size_t first = rng.below(what.program.preload.size());
  if (!growth.empty()) {
    // Other programs show small growth often.
    const std::size_t drawn = std::max(rng.below(growth.size()), rng.below(growth.size()));
    const std::size_t before = rng.below(4) + (plan.threads - 1) * rng.below(6);
    first = growth[drawn] - std::min(growth[drawn], before);
  }
  return around(what.program, first, plan.operations, plan.threads, plan.subject.replaces());
}

}  // namespace perdure::crash
