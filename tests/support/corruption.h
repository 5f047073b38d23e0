// Corrupt content: a pool whose body was damaged gives an error or a working index, never a crash.
#pragma once

#include "support/bed.h"

namespace perdure::testing {

struct CorruptionPlan {
  std::uint64_t seed = 1;
  unsigned trials = 60;
  std::uint64_t records = 1500;
};

struct CorruptionReport {
  unsigned refused = 0;    ///< recovery said what is wrong
  unsigned working = 0;    ///< it recovered, and answered as before
  unsigned differing = 0;  ///< it recovered, and answered otherwise: the damage was not noticed
};

/// Damages copies of one good pool in various ways; each is opened and used in a child process with
/// a time limit. Error: a child crashed or hung; says which bytes did it.
template <class Keys>
[[nodiscard]] Result<CorruptionReport> check_corruption(const Target& target,
                                                        const CorruptionPlan& plan);

}  // namespace perdure::testing
