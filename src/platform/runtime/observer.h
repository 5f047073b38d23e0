// Observer: takes the compiler's hooks and the facade's instructions instead of the machine.
//
// The crash explorer installs one. While it is installed nothing is timed: every hook calls in here
// before the access takes place, and the access is then done as usual. A callback may switch to
// another stack before it returns, so the hooks keep no state across the call.
#pragma once

#include <cstddef>
#include <cstdint>

namespace perdure::platform {

class Observer {
 public:
  enum class Flush : std::uint8_t { clflush, clflushopt, clwb };
  /// `update`: a locked read-modify-write, which is what a sequentially consistent store is too.
  enum class Atomic : std::uint8_t { load, store, update };

  virtual ~Observer() = default;

  /// Plain accesses are reported only when they begin inside [window_base, window_base +
  /// window_bytes): the test is the hooks' fast path.
  std::uintptr_t window_base = 0;
  std::uintptr_t window_bytes = 0;
  [[nodiscard]] bool watches(const void* address) const noexcept {
    return reinterpret_cast<std::uintptr_t>(address) - window_base < window_bytes;
  }

  bool all_atomics = true;

  // `pc` is the return address of the hook: the access's place in the program.
  virtual void read(const void* address, std::size_t bytes, const void* pc) = 0;
  virtual void write(const void* address, std::size_t bytes, const void* pc) = 0;
  /// Atomic accesses are reported wherever they are, while `all_atomics` holds: they are where
  /// threads meet.
  virtual void atomic(const void* address, std::size_t bytes, Atomic kind, const void* pc) = 0;
  virtual void flush(const void* line, Flush kind, const void* pc) = 0;
  /// sfence, mfence.
  virtual void fence(const void* pc) = 0;
  /// Non-temporal stores of 8-byte words.
  virtual void stream(const void* address, std::size_t bytes, const void* pc) = 0;
  /// A turn of a spin loop.
  virtual void pause(const void* pc) = 0;
  /// pm::thread_slot() of the running simulated thread.
  [[nodiscard]] virtual std::size_t thread_slot() noexcept = 0;

  /// Null: hooks go to the process's simulation. Set by the main thread outside Simulation::run.
  static Observer* installed;
};

}  // namespace perdure::platform
