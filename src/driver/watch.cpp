#include "driver/watch.h"

#include <algorithm>

#include "driver/interrupt.h"

namespace perdure::driver {

std::vector<TimelinePoint> watch(WorkerTeam& team, Rounds& rounds, const Clock& clock,
                                 const WatchedPhase& phase, Progress& progress) {
  constexpr double sample_seconds = 0.1;
  constexpr double poll_seconds = 0.01;  // waking up more often would disturb the workers
  constexpr double shortest_wait_seconds = 0.0002;
  std::vector<TimelinePoint> timeline;
  double next_sample = sample_seconds;
  double last_second = 0;
  std::uint64_t last_operations = 0;
  for (double wait = std::min(poll_seconds, phase.seconds > 0 ? phase.seconds : poll_seconds);
       !team.wait_for(wait);) {
    const double second = clock.to_seconds(rounds.active());
    const std::uint64_t operations = rounds.operations();
    if ((phase.seconds > 0 && second >= phase.seconds) || interrupted()) rounds.stop();
    if (second >= next_sample) {
      timeline.push_back({second, operations - last_operations});
      const double share = phase.seconds > 0      ? second / phase.seconds
                           : phase.operations > 0 ? static_cast<double>(operations) /
                                                        static_cast<double>(phase.operations)
                                                  : -1;
      progress.show(phase.name, std::min(share, 1.0),
                    static_cast<double>(operations - last_operations) / (second - last_second));
      last_second = second;
      last_operations = operations;
      while (next_sample <= second) next_sample += sample_seconds;
    }
    wait = poll_seconds;
    if (phase.seconds > 0)
      wait = std::clamp(phase.seconds - second, shortest_wait_seconds, poll_seconds);
  }
  const double end = clock.to_seconds(rounds.active());
  if (rounds.operations() != last_operations)
    timeline.push_back({end, rounds.operations() - last_operations});
  return timeline;
}

}  // namespace perdure::driver
