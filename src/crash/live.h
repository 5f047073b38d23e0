// The live instance, asked when its run has ended, without any cut. It shows what a structure has
// lost in DRAM, such as a leaf that no search reaches: recovery rebuilds that, so no crash state
// shows it.
#pragma once

#include <optional>

#include "crash/explorer.h"

namespace perdure::crash {

struct Live {
  std::optional<Violation> violation;
  bool hung = false;
  std::uint64_t steps = 0;
};

/// Looks up every key and scans, or pops all payloads, and checks the invariants; all operations
/// have returned. `software` is that of the run's schedule. Its stores are in no trace.
[[nodiscard]] Live ask_live(const Subject& subject, Instance& instance, const Recorded& run,
                            const Vocabulary& vocabulary, std::uint8_t software);

}  // namespace perdure::crash
