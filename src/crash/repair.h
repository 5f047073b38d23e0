// Repair: which flush or fence a program lacks, found by adding it to the trace of a run and
// judging what a power cut may then leave.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "crash/names.h"
#include "crash/probe.h"

namespace perdure::crash {

/// What a program would do more, wherever it executes one place.
struct Fix {
  enum class Kind : std::uint8_t {
    fence_after_flush,
    fence_after_store,
    flush_before_fence,  ///< of the stored line, before the next fence of the thread
    flush_and_fence,     ///< of the stored line, at once
  };
  Kind kind;
  const void* pc;  ///< of the flush or store
  friend bool operator==(const Fix&, const Fix&) = default;
};

/// A fix, and why it is one.
struct Advice {
  Fix fix;
  Event at{};                      ///< the flush or store
  std::vector<Event> stores;       ///< that it makes durable, of one line, oldest first
  std::optional<Event> fence;      ///< flush_before_fence: the first that it precedes
  std::optional<Event> needed_by;  ///< the store or return that the loss is wrong after
  /// The program flushes the line itself, in the same operation, but only after `needed_by`.
  std::optional<Event> late_flush;
  /// The program has flushed the line, and fences only after `needed_by`.
  std::optional<Event> late_fence;
  std::optional<Event> idle_flush;  ///< of a line in which nothing was stored, at the right time
};

/// The run with all fixes; `moved`, by event of the run, is where a cut before it is now.
[[nodiscard]] Recorded repaired(const Recorded& run, const std::vector<Fix>& fixes, Events& moved);

/// The run with the store `first` made only after `last`, of the same thread, when all that lies
/// between them is durable; then it is made durable itself.
[[nodiscard]] Recorded postponed(const Recorded& run, std::uint32_t first, std::uint32_t last);

/// The event (a store or return) after which the loss of `lost` is wrong; before it, it is not.
[[nodiscard]] std::uint32_t dependent(Probe& probe, const Recorded& run, std::uint32_t event,
                                      const Events& lost);

/// The fewest fixes, oldest lost store first, with which every state of the run passes; none, if no
/// flush or fence mends it or time is up.
[[nodiscard]] std::vector<Advice> find_fixes(Probe& probe, const Names& names, const Recorded& run,
                                             std::uint32_t event, const Events& lost);

}  // namespace perdure::crash
