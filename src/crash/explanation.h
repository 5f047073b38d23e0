// Explanation: why a crash state is wrong, and what would mend it, in words.
//
// It says no more than was tried. A flush or fence is named only if, with it, every state that a
// power cut may leave of the run passes every oracle; where nothing is known, that is said.
#pragma once

#include <cstdint>
#include <string>

#include "crash/case.h"
#include "crash/places.h"

namespace perdure::crash {

struct Explanation {
  enum class Kind : std::uint8_t {
    none,           ///< no flush or fence mends it, and nothing else is known
    no_cut,         ///< the run itself is wrong, without any cut
    fixes,          ///< flushes or fences that are missing
    too_late,       ///< a flush that is there, after what depends on it
    other_thread,   ///< a thread acted on what another had not made durable
    torn,           ///< a store wider than what is failure-atomic
    too_early,      ///< a store that must come after others
    several_steps,  ///< a change in several steps that recovery does not finish
    recovery,       ///< it fails whatever was cut
    lock,           ///< a lock on media that recovery finds held
    lost_block,     ///< a leak
    freed_block,    ///< a block that is freed and in use
    answer,         ///< the operation returned what the pool does not hold
    waits,          ///< a thread waits for one that has stopped
  };
  Kind kind = Kind::none;
  std::string text;
};
[[nodiscard]] const char* name_of(Explanation::Kind kind) noexcept;

/// The verdict's violation is of the run itself, which no cut has ended.
[[nodiscard]] bool is_of_run(const Verdict& verdict);

/// Why the verdict's violation is one. It takes at most `seconds`.
[[nodiscard]] Explanation explain(const Case& what, const Verdict& verdict, Workspace& workspace,
                                  Places& places, double seconds);

}  // namespace perdure::crash
