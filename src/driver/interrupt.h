// SIGINT and SIGTERM as a flag that the phases ask, so that an interrupted run closes its pool.
#pragma once

#include <span>

#include "pool/occupant.h"

namespace perdure::driver {

inline constexpr int interrupted_exit_code = 130;

/// From now on the first signal sets the flag; a second one kills, as it would without us.
/// `patience_seconds`: a run that has not ended so long after the first one is ended then, with
/// `interrupted_exit_code`; 0: never. A simulation asks the flag between operations, and one whose
/// operation does not return would never hear of it.
void watch_for_interrupts(unsigned patience_seconds) noexcept;
[[nodiscard]] bool interrupted() noexcept;

/// Files that are useless when the run is ended so; none: none any more. What another process has
/// put in their place meanwhile stays. Paths that are longer than the system takes are ignored.
void remove_when_ended(std::span<const MadeFile> files) noexcept;

}  // namespace perdure::driver
