// Cut: a state that a power cut may leave behind the preload of a run, drawn, for the run to
// recover from and go on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/rng.h"
#include "crash/explorer.h"

namespace perdure::crash {

struct CutState {
  std::vector<std::byte> content;
  Trace told;                      ///< calls and returns before the cut
  std::uint32_t event = 0;         ///< of the run: the cut is just before it
  std::vector<LineState> lines{};  ///< that differ from the newest content
};

[[nodiscard]] inline bool is_told(const Event& event) noexcept {
  return event.kind == Event::Kind::call || event.kind == Event::Kind::ret;
}

enum class Draw : std::uint8_t {
  any,   ///< cut anywhere, with any lines
  torn,  ///< cut before a fence of a long operation; half of the time all lines are old
};

/// `image` is scratch memory of the run's pool size.
[[nodiscard]] CutState draw_cut(const Recorded& run, Domain domain, unsigned threads, Image& image,
                                Draw draw, Rng& rng);

}  // namespace perdure::crash
