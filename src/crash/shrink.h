// Shrinking: a smaller case with a violation of the same oracle.
#pragma once

#include <string>

#include "crash/places.h"
#include "crash/session.h"

namespace perdure::crash {

/// Drops operations, threads and preemptions, then lines of the crash state, as long as the same
/// oracle objects. `verdict` belongs to the returned case.
[[nodiscard]] Case shrink(const Case& failed, Verdict& verdict, Bench& bench, double seconds);

/// Tries one added flush or fence at each place of the trace before the cut; the first, latest in
/// the program, with which this trace passes. Empty if none does.
[[nodiscard]] std::string find_repair(const Case& what, const Verdict& verdict, Bench& bench,
                                      Places& places, double seconds);

}  // namespace perdure::crash
