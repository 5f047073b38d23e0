// Case: one program under one schedule. It is run without a power cut and recorded; then the states
// that a cut may leave are explored.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <vector>

#include "crash/explorer.h"
#include "crash/workspace.h"

namespace perdure::crash {

/// Everything that makes a run: the same case gives the same trace and verdict on every machine.
struct Case {
  Subject subject;
  Program program;
  Schedule schedule;
  Domain domain = Domain::adr;
  Bounds bounds;
  Mutation mutation;
  bool transactions = false;  ///< the program finds hardware transactions
  /// Not 0: the program is cut once, in a state that is drawn from this number, recovers, and goes
  /// on with the operations that had not begun. What is explored begins with the recovery.
  std::uint64_t cut = 0;
  /// Points before the threads begin are passed over, because another schedule has covered them.
  bool only_threads = false;
};

/// Draws Case::cut for a program's cut number `which`, 1 or more. After every other one the run
/// does not wait for retired blocks, because that would end a recovery that runs beside the
/// operations.
[[nodiscard]] inline std::uint64_t draw_cut_number(Rng& rng, unsigned which) {
  return (rng() >> 2 << 1 | 2) + which % 2;
}

struct Verdict {
  std::optional<Violation> violation;
  Coverage coverage;
  std::uint64_t trace_digest = 0;
  Steps steps;
  std::set<Site> sites;
  double exploring_seconds = 0;  ///< without recording the run
  std::uint64_t work = 0;        ///< steps of everything that was run for it
  Recorded run;
};

using Stop = std::function<bool()>;  ///< true when time is up

/// Runs the program without a cut and records it. `hung` and wrong answers are found by exploring.
[[nodiscard]] Verdict record(const Case& what, Workspace& workspace);
/// record + explore.
[[nodiscard]] Verdict explore(const Case& what, Workspace& workspace, const Stop& stop);
/// record + one state.
[[nodiscard]] Verdict try_state(const Case& what, Workspace& workspace, std::uint32_t event,
                                const std::vector<LineState>& lines);

}  // namespace perdure::crash
