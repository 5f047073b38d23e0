// The first cut of a run that goes on after it: a state that a power cut may leave, drawn.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "crash/case.h"

namespace perdure::crash {

struct CutState {
  std::vector<std::byte> content;
  Trace told;                      ///< calls and returns before the cut
  std::uint32_t event = 0;         ///< of the run: the cut is just before it
  std::vector<LineState> lines{};  ///< that differ from the newest content
};

/// The first cut of a case, by `Case::cut`, in the run of its sound program. One of four times it
/// is any state anywhere; else one in which recovery has something to mend.
[[nodiscard]] CutState draw_first_cut(const Case& what, const Recorded& run,
                                      const Vocabulary& vocabulary, Workspace& workspace);

}  // namespace perdure::crash
