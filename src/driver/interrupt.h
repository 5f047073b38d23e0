// SIGINT and SIGTERM set a flag that the phases poll, so that an interrupted run closes its pool.
#pragma once

#include <span>
#include <string_view>

#include "pool/occupant.h"

namespace perdure::driver {

inline constexpr int interrupted_exit_code = 130;

/// From now on the first signal sets the flag; a second one kills, as it would without us.
/// `patience_seconds` after the first signal, a run that has not ended is ended with
/// `interrupted_exit_code`: the flag is polled between operations only, and an operation may never
/// return.
void watch_for_interrupts(unsigned patience_seconds) noexcept;
[[nodiscard]] bool interrupted() noexcept;
/// From now on the process is not ended for lack of patience: closing a pool on a slow disk may
/// take long, but ends by itself.
void take_all_time() noexcept;

/// Names the files to remove when the run is ended; an empty list forgets them. A file that another
/// process has put in their place stays. Paths longer than the system allows are ignored.
void remove_when_ended(std::span<const MadeFile> files) noexcept;
/// Notes that a pool of the user's is open: a run that is ended leaves it as a crash would.
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
