// What hooks and instructions do outside simulated threads: tell an observer, if one is installed,
// or the guard, because pools are prepared and recovered there. An observer that is installed comes
// before everything else; it never is while simulated threads run.
//
// Most accesses lie outside the observer's window and cost only that check.
#pragma once

#include <cstddef>

#include "platform/runtime/engine.h"
#include "platform/runtime/observer.h"

namespace perdure::platform::runtime {

// For accesses that are hooked.
void read_outside(const void* address, std::size_t bytes, const void* pc);
void write_outside(const void* address, std::size_t bytes, const void* pc);
void atomic_outside(const void* address, std::size_t bytes, Observer::Atomic kind, const void* pc);

}  // namespace perdure::platform::runtime
