#include "platform/runtime/outside.h"

namespace perdure::platform::runtime {

void read_outside(const void* address, std::size_t bytes, const void* pc) {
  Observer* const observer = Observer::installed();
  if (observer != nullptr && !Observer::is_quiet(address, bytes))
    observer->read(address, bytes, pc);
}

void write_outside(const void* address, std::size_t bytes, const void* pc) {
  if (Observer* const observer = Observer::installed()) {
    observer->write(address, bytes, pc);
  } else if (engine.guarded) {
    engine.guard.settle();
    engine.guard.expect(address, bytes, pc);
  }
}

void atomic_outside(const void* address, std::size_t bytes, Observer::Atomic kind, const void* pc) {
  if (Observer* const observer = Observer::installed()) {
    if (kind != Observer::Atomic::load || !Observer::is_quiet(address, bytes))
      observer->atomic(address, bytes, kind, pc);
  } else if (engine.guarded) {
    engine.guard.settle();
    if (kind != Observer::Atomic::load) engine.guard.expect(address, bytes, pc);
  }
}

}  // namespace perdure::platform::runtime
