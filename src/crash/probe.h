// Probe: single crash states of a recorded run, or of what a repair makes of it, judged one by one.
//
// A state is named by the cut and by the stores that are lost in it, not by numbers of choices: so
// the same state is found again in a trace that was changed, and at an earlier cut.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "crash/case.h"

namespace perdure::crash {

/// Everything after `end` has no answer.
using Deadline = std::chrono::steady_clock::time_point;
[[nodiscard]] inline Deadline deadline_after(double seconds) {
  return std::chrono::steady_clock::now() +
         std::chrono::duration_cast<Deadline::duration>(std::chrono::duration<double>(seconds));
}

using Events = std::vector<std::uint32_t>;  ///< numbers of events, ascending

/// The events whose stores are missing in these lines.
[[nodiscard]] Events lost_in(const std::vector<LineState>& lines);

class Probe {
 public:
  /// `cuts_again`: single states are judged with second cuts inside their recovery, too.
  Probe(const Case& what, Workspace& workspace, Deadline end, bool cuts_again);
  /// Neither are all of them from now on.
  void never_cut_again() noexcept { may_cut_again_ = cuts_again_ = false; }

  /// The lines' contents after a cut before `event` from which, of the events in `lost`, as many
  /// are missing as the model lets, and no other.
  [[nodiscard]] std::vector<LineState> lines_without(const Recorded& run, std::uint32_t event,
                                                     const Events& lost);
  /// What all oracles say of that state.
  [[nodiscard]] std::optional<Violation> judge(const Recorded& run, std::uint32_t event,
                                               const Events& lost);
  /// What the oracles, `deep`: all of them, say of every state that the explorer makes of the run;
  /// none, too, when `time_up()` afterwards.
  [[nodiscard]] std::optional<Violation> judge_all(const Recorded& run, bool deep = true);
  /// As few of `lost` as keep the state wrong: lines are dropped, then the stores that come first
  /// in their line.
  [[nodiscard]] Events fewest(const Recorded& run, std::uint32_t event, Events lost);
  /// A cut before `event` may come there: not between stores that become visible together.
  [[nodiscard]] static bool is_cut(const Recorded& run, std::uint32_t event);

  /// The recovery that a second cut stopped, as a run of its own: it begins with the state after
  /// the first cut. `event` and `lost` become the second cut's.
  [[nodiscard]] Recorded recovery_of(const Recorded& run, const Violation& violation,
                                     std::uint32_t& event, Events& lost);

  [[nodiscard]] bool time_up() const { return std::chrono::steady_clock::now() > end_; }
  [[nodiscard]] const Case& what() const noexcept { return what_; }

 private:
  [[nodiscard]] Explorer explorer(const Bounds& bounds);
  /// The run, up to the cut.
  [[nodiscard]] TraceReplay replayed(const Recorded& run, std::uint32_t event);

  const Case& what_;
  Workspace& workspace_;
  Deadline end_;
  bool cuts_again_;
  bool may_cut_again_ = true;
  Vocabulary vocabulary_;
};

}  // namespace perdure::crash
