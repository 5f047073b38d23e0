// Refilling: what a full pool takes again once it has been emptied, and values replaced where
// little room is left. Nothing is quiesced: room that has become free must be found by who needs
// it.
#pragma once

#include "support/bed.h"

namespace perdure::testing {

struct Refill {
  std::uint64_t pool_bytes = Pool::min_pool_bytes;
  std::uint64_t room_bytes =
      Pool::min_pool_bytes;  ///< what the index finds of it; the rest is taken
  unsigned threads = 1;
  unsigned rounds = 3;
};

/// Fills a new pool with `threads` threads, each until it is refused, empties it from another
/// thread and fills it again, with the same records. Checks that no round takes less than 99 % of
/// the first.
template <class Keys>
[[nodiscard]] Result<void> check_refill(const Target& target, const Refill& refill);

/// Fills a new pool, takes every tenth record out, and replaces values, from `threads` threads,
/// then from one: none may be refused, and all must be there in the end.
template <class Keys>
[[nodiscard]] Result<void> check_replacing(const Target& target, const Refill& refill);

}  // namespace perdure::testing
