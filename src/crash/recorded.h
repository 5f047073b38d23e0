// Recorded: a run without a power cut, as the recorder wrote it down.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "crash/crash_state.h"
#include "crash/layout.h"
#include "crash/schedule.h"
#include "crash/trace.h"
#include "crash/workload.h"

namespace perdure::crash {

/// The cut before a run that begins with a recovery.
struct FirstCut {
  Trace trace;                     ///< of the run that was cut
  std::uint32_t event = 0;         ///< of it: the cut is just before it
  std::vector<LineState> lines{};  ///< that differ from the newest content
  bool closed = false;             ///< the pool was closed instead
};

/// A crash-free run, as it was recorded.
struct Recorded {
  std::vector<std::byte> before;  ///< the pool when the trace began
  Trace trace;
  std::vector<Operation> operations;  ///< as numbered in the trace
  std::vector<Answer> answers;
  Blocks blocks{};                  ///< that the stores went to
  std::uint32_t explored_from = 0;  ///< event: points before it are passed over (preload)
  std::uint32_t in_use_from = ~0U;  ///< event: at cuts from here on the pool is not closed
  std::vector<bool> telling{};      ///< by event: other points are passed over; empty: none is
  /// By event: the number that oracles draw by, which a trace that was changed has from the
  /// original one, so that both are asked the same; empty: its own.
  std::vector<std::uint32_t> numbers{};
  bool hung = false;
  std::uint64_t capacity = ~std::uint64_t{0};   ///< of a queue
  std::optional<Stopped> stopped{};             ///< a thread that the schedule has stopped for ever
  std::shared_ptr<const FirstCut> first_cut{};  ///< or null: the run begins with an empty pool
  std::uint32_t recovers_from = ~0U;            ///< event: the recovery begins, after that cut
  std::uint32_t recovers_to = 0;                ///< event: it has ended
};

}  // namespace perdure::crash
