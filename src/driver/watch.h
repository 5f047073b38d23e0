// Watching a phase of this machine from outside: the time limit, the timeline, progress and
// interruption.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "driver/clock.h"
#include "driver/progress.h"
#include "driver/result.h"
#include "driver/rounds.h"
#include "driver/worker_team.h"

namespace perdure::driver {

/// Returns when the team's job, which runs `rounds`, has ended. Stops it at its time limit or when
/// a signal came. Samples every 0.1 s of active time.
[[nodiscard]] std::vector<TimelinePoint> watch(WorkerTeam& team, Rounds& rounds, const Clock& clock,
                                               const WatchedPhase& phase, Progress& progress);

}  // namespace perdure::driver
