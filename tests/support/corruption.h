// Corrupt content: a pool whose body was damaged gives an error or a working index, never a crash.
#pragma once

#include "support/bed.h"
#include "support/damage.h"

namespace perdure::testing {

struct CorruptionPlan {
  std::uint64_t seed = 1;
  unsigned trials = 60;
  std::uint64_t records = 1500;
};

/// Damages copies of one good pool in various ways; each is opened and used in a child process with
/// a time limit. Error: a child crashed or hung; says which bytes did it.
template <class Keys>
[[nodiscard]] Result<CorruptionReport> check_corruption(const Target& target,
                                                        const CorruptionPlan& plan);

}  // namespace perdure::testing
