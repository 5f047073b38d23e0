// Out of space: a small pool filled to the last block.
#pragma once

#include "support/bed.h"

namespace perdure::testing {

/// Fills a new pool by inserts until one is refused; checks that nothing was lost, that removes
/// make room, that the full pool can be reopened, and that nothing leaked on the way.
template <class Keys>
[[nodiscard]] Result<void> check_out_of_space(const Target& target, std::uint64_t pool_bytes);

}  // namespace perdure::testing
