// SIGINT and SIGTERM as a flag that the phases ask, so that an interrupted run closes its pool.
#pragma once

#include <string>

namespace perdure::driver {

inline constexpr int interrupted_exit_code = 130;

/// From now on the first signal sets the flag; a second one kills, as it would without us.
/// `patience_seconds`: a run that has not ended so long after the first one is ended then, with
/// `interrupted_exit_code`; 0: never. A simulation asks the flag between operations, and one whose
/// operation does not return would never hear of it.
void watch_for_interrupts(unsigned patience_seconds) noexcept;
[[nodiscard]] bool interrupted() noexcept;

/// A file that is useless when the run is ended so; empty: none any more. Longer paths than the
/// system takes are ignored.
void remove_when_ended(const std::string& path) noexcept;

}  // namespace perdure::driver
