// with_room: what an index does when the heap has refused it a block.
//
// Blocks that were removed or replaced are free only after a grace period (pool/epoch.h). So a pool
// may be full of what nobody can reach any more, and refuses then although it has room. An
// operation that was refused lets go of everything, its locks and its pin, frees what is due of all
// threads, and begins again. It gives up when nothing has been freed, or after so many attempts
// that others have taken whatever was: no operation waits without end.
#pragma once

#include <cstdint>

#include "index/index.h"
#include "pool/epoch.h"

namespace perdure {

/// Attempts of an operation whose room is taken by others again and again.
inline constexpr unsigned most_attempts_with_room = 64;

/// Calls `attempt()`, which pins and lets go within, until its outcome is another than
/// `out_of_space`. `prepare()` is called first after a refusal: what the index itself has that
/// others can have. Cost where there is room: two loads.
template <class Attempt, class Prepare>
[[gnu::always_inline]] inline Outcome with_room(Epochs& epochs, Attempt&& attempt,
                                                Prepare&& prepare) {
  if (epochs.is_pressed()) [[unlikely]]
    epochs.relieve();
  std::uint64_t frees = epochs.frees();
  for (unsigned attempts = 1;; ++attempts) {
    const Outcome outcome = attempt();
    if (outcome != Outcome::out_of_space) [[likely]]
      return outcome;
    prepare();
    if (attempts == most_attempts_with_room || !epochs.make_room(frees)) return outcome;
  }
}

template <class Attempt>
[[gnu::always_inline]] inline Outcome with_room(Epochs& epochs, Attempt&& attempt) {
  return with_room(epochs, attempt, [] {});
}

}  // namespace perdure
