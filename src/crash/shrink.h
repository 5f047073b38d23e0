// Shrinking: a smaller case with a violation of the same oracle.
#pragma once

#include "crash/case.h"

namespace perdure::crash {

/// Drops operations, threads, preemptions and the cut that the program goes on after, then lost
/// lines and lost stores, as long as the same oracle objects. `verdict` belongs to the returned
/// case. It takes about `seconds`, and the same again at most for the lines.
[[nodiscard]] Case shrink(const Case& failed, Verdict& verdict, Workspace& workspace,
                          double seconds);

}  // namespace perdure::crash
