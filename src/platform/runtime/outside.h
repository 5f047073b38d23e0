// What hooks and instructions do outside simulated threads: tell an observer, if one is installed,
// or the guard, because pools are prepared and recovered there. An observer that is installed comes
// before everything else; it never is while simulated threads run.
#pragma once

#include <cstddef>

#include "platform/runtime/engine.h"
#include "platform/runtime/observer.h"

namespace perdure::platform::runtime {

inline void read_outside(const void* address, std::size_t bytes, const void* pc) {
  if (Observer* const observer = Observer::installed) {
    if (observer->watches(address) && !observer->is_quiet(address, bytes))
      observer->read(address, bytes, pc);
  }
}

inline void write_outside(const void* address, std::size_t bytes, const void* pc) {
  if (Observer* const observer = Observer::installed) {
    if (observer->watches(address)) observer->write(address, bytes, pc);
  } else if (engine.guarded) {
    engine.guard.settle();
    engine.guard.expect(address, bytes, pc);
  }
}

inline void atomic_outside(const void* address, std::size_t bytes, Observer::Atomic kind,
                           const void* pc) {
  if (Observer* const observer = Observer::installed) {
    const bool watched = observer->watches(address);
    if (kind == Observer::Atomic::load && watched && observer->is_quiet(address, bytes)) return;
    if (watched || observer->all_atomics) observer->atomic(address, bytes, kind, pc);
  } else if (engine.guarded) {
    engine.guard.settle();
    if (kind != Observer::Atomic::load) engine.guard.expect(address, bytes, pc);
  }
}

}  // namespace perdure::platform::runtime
