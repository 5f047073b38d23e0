// The live instance, asked when its run has ended, without any cut: what a structure has lost in
// DRAM, a leaf that no search comes to, say, recovery would make good and no crash state show.
#pragma once

#include <optional>

#include "crash/explorer.h"

namespace perdure::crash {

struct Live {
  std::optional<Violation> violation;
  bool hung = false;
  std::uint64_t steps = 0;
};

/// By lookup of every key, by scan, and by its invariants; all operations have returned. `software`
/// as in the run's schedule. What it does to the pool is in no trace.
[[nodiscard]] Live ask_live(Instance& instance, const Recorded& run, const Vocabulary& vocabulary,
                            std::uint8_t software);

}  // namespace perdure::crash
