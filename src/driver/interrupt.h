// SIGINT and SIGTERM as a flag that the phases ask, so that an interrupted run closes its pool.
#pragma once

#include <span>
#include <string_view>

#include "pool/occupant.h"

namespace perdure::driver {

inline constexpr int interrupted_exit_code = 130;

/// From now on the first signal sets the flag; a second one kills, as it would without us.
/// `patience_seconds`: a run that has not ended so long after the first one is ended then, with
/// `interrupted_exit_code`. The flag is asked between operations, and a run whose operation does
/// not return would never hear of it.
void watch_for_interrupts(unsigned patience_seconds) noexcept;
[[nodiscard]] bool interrupted() noexcept;
/// What is left to do ends by itself, however long it takes: closing a pool on a slow disk.
void take_all_time() noexcept;

/// Files that are useless when the run is ended so; none: none any more. What another process has
/// put in their place meanwhile stays. Paths that are longer than the system takes are ignored.
void remove_when_ended(std::span<const MadeFile> files) noexcept;
/// A pool of the user's is open: a run that is ended leaves it as a crash would.
void leave_pool_when_ended() noexcept;

/// Removes the files of `remove_when_ended`, writes `line` to stderr and ends the process, whatever
/// its threads do. May be called by a signal handler.
[[noreturn]] void end_at_once(std::string_view line, int exit_code) noexcept;

/// While one lives the process has not done its work: what ends it meanwhile by exit() or
/// quick_exit() ends it with a line and exit code 1.
class Unfinished {
 public:
  Unfinished() noexcept;
  ~Unfinished();
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;
};

/// From now on abort() ends the process with a line and exit code 1: a wrapper may call it.
void explain_aborts() noexcept;

}  // namespace perdure::driver
