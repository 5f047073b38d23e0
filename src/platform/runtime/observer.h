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

  /// Loads inside the window that need no more than counting: so many may come before `read` and
  /// `atomic` are called for one again. 0: they are called for every load.
  std::uint64_t quiet_loads = 0;
  /// By line of the window, which begins one: not 0 where every load must be told. Null: nowhere.
  /// Two more than the window has are readable.
  const std::uint8_t* told_lines = nullptr;
  [[nodiscard]] bool is_quiet(const void* address, std::size_t bytes) noexcept {
    if (quiet_loads == 0) return false;
    if (told_lines != nullptr) {
      constexpr unsigned line_bits = 6;
      const std::uintptr_t at = reinterpret_cast<std::uintptr_t>(address) - window_base;
      const std::uintptr_t first = at >> line_bits;
      const std::uintptr_t last = (at + bytes - 1) >> line_bits;
      if (last > first + 1 || (told_lines[first] | told_lines[last]) != 0) return false;
    }
    --quiet_loads;
    return true;
  }

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
  // Code without hooks that calls libpmem, which is libpmemobj. What it stored shows when it
  // flushes.
  /// [address, address + bytes) may have changed and is written back: `flush` of each line follows
  /// from it.
  virtual void foreign_flush(const void* address, std::size_t bytes, const void* pc) = 0;
  virtual void foreign_fence(const void* pc) = 0;
  /// A pool that code without hooks writes, too, is open at `base`, or about to be closed.
  virtual void mapped(const void* base, std::size_t bytes) = 0;
  virtual void unmapped(const void* base) = 0;

  // A hardware transaction, if `offers_transactions`: begin returns a status word, at once or after
  // an abort; `frame` is the stack pointer that perdure_transaction_resume goes on at.
  virtual std::uint32_t transaction_begin(std::byte* frame, const std::byte* caller_frame) = 0;
  virtual void transaction_commit(const void* pc) = 0;
  virtual void transaction_abort() = 0;

  /// pm::thread_slot() of the running simulated thread.
  [[nodiscard]] virtual std::size_t thread_slot() noexcept = 0;

  /// Null: hooks go to the process's simulation. Set by the main thread outside Simulation::run.
  static Observer* installed;
  /// Programs under an observer find hardware transactions.
  static bool offers_transactions;
};

}  // namespace perdure::platform
