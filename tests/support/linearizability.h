// Linearizability of one key: is there an order of the operations, each somewhere between its call
// and its return, in which a plain map gives the same answers?
//
// Decided by walking the calls and returns in time order while keeping every state the map can be
// in (value, and which of the open operations have already taken effect). At a return, the
// operation must have taken effect in every state kept. Exact, and cheap because few operations are
// open at once. Source of the idea: Lowe, "Testing for linearizability", CCPE 2017.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/result.h"
#include "index/index.h"

namespace perdure::testing {

enum class KeyOperation : std::uint8_t { insert, upsert, update, remove, lookup };

/// One finished operation on one key. Times come from one shared counter.
struct KeyEvent {
  KeyOperation operation;
  Outcome outcome;
  std::uint64_t stamp;  ///< written, or read by a lookup that found something
  std::uint64_t called;
  std::uint64_t returned;
};

/// `events`: the complete history of one key that was absent at first. Error: it has no order.
[[nodiscard]] Result<void> check_linearizable(const std::vector<KeyEvent>& events);

}  // namespace perdure::testing
