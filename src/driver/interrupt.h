// SIGINT and SIGTERM as a flag that the phases ask, so that an interrupted run closes its pool.
#pragma once

namespace perdure::driver {

/// From now on the first signal sets the flag; a second one kills, as it would without us.
void watch_for_interrupts() noexcept;
[[nodiscard]] bool interrupted() noexcept;

}  // namespace perdure::driver
