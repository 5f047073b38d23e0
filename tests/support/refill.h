// Refilling: how much a full pool takes after it was emptied, and values replaced where little room
// is left. Nothing is quiesced: operations must find the room that has become free.
#pragma once

#include "support/bed.h"

namespace perdure::testing {

struct Refill {
  std::uint64_t pool_bytes = Pool::min_pool_bytes;
  std::uint64_t room_bytes = Pool::min_pool_bytes;  ///< what the index finds; the rest is taken
  unsigned threads = 1;
  unsigned counts = 1;  ///< pools filled to tell what is full: the least records count
  unsigned rounds = 3;
  unsigned percent = 99;  ///< so much of the first round's records each round must take
};

/// Fills a new pool with `threads` threads, each until it is refused, empties it from another
/// thread and fills it again, with the same records. Checks that no round takes much less than the
/// first.
template <class Keys>
[[nodiscard]] Result<void> check_refill(const Target& target, const Refill& refill);

/// How a pool gets to a tenth of free room.
enum class Left {
  untouched,  ///< it was never used: the pool holds nine tenths of what another of its size took
  removed,    ///< the pool was full, and every tenth record was taken out
};

/// Leaves a tenth of a new pool's room, and replaces values, from `threads` threads, then from one:
/// none may be refused, and all must be there in the end.
template <class Keys>
[[nodiscard]] Result<void> check_replacing(const Target& target, const Refill& refill, Left left);

}  // namespace perdure::testing
