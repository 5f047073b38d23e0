// Deviation: where the trace of a mutant is not that of the sound program, and for how long that
// matters.
//
// A flush or fence that is left out, moved or aimed elsewhere changes nothing but floors, and most
// often not for long: the next flush and fence of the line makes up for it. Before and after, the
// mutant leaves nothing that the original does not.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "crash/trace.h"

namespace perdure::crash {

struct Deviation {
  std::size_t at;                ///< in the mutant's trace
  std::optional<Event> missing;  ///< the original has it before `at`; none: it has not what is `at`
};

/// By event of a mutant's trace, and one more for its end: whether some line's floor just before it
/// is lower than in the original. `deviations` ascend. ADR.
[[nodiscard]] std::vector<bool> find_lower_floors(const Trace& trace,
                                                  const std::vector<Deviation>& deviations);

}  // namespace perdure::crash
