// Cut: a state that a power cut may leave behind the preload of a run, drawn, for the run to
// recover from and go on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "core/rng.h"
#include "crash/trace_replay.h"

namespace perdure::crash {

struct CutState {
  std::vector<std::byte> content;
  Trace told;                      ///< calls and returns before the cut
  std::uint32_t event = 0;         ///< of the run: the cut is just before it
  std::vector<LineState> lines{};  ///< that differ from the newest content
};

/// Cut anywhere, with any lines. `image` is scratch memory of the run's pool size.
[[nodiscard]] CutState draw_cut(const Recorded& run, Domain domain, unsigned threads, Image& image,
                                Rng& rng);

/// Recovers from what `image` holds, which is then as it was, and tells what that stored.
using RecoverHere = std::function<Trace()>;

/// Of many states, each before a fence, one that recovery mends. Whatever different places of its
/// code have stored there is a kind of repair; all kinds are drawn equally often, so that one that
/// few states need is not left out. A state of any kind where recovery does the same for all.
[[nodiscard]] CutState draw_cut_to_mend(const Recorded& run, Domain domain, unsigned threads,
                                        Image& image, unsigned most_states,
                                        const RecoverHere& recover_here, std::uint64_t seed);

}  // namespace perdure::crash
