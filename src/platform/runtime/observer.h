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

  /// What is reported: plain accesses that begin in the window; atomic ones, which are where
  /// threads meet, wherever they are while `all_atomics` holds.
  struct Window {
    std::uintptr_t base = 0;
    std::uintptr_t bytes = ~std::uintptr_t{0};
    bool all_atomics = true;
    [[nodiscard]] bool holds(const void* address) const noexcept {
      return reinterpret_cast<std::uintptr_t>(address) - base < bytes;
    }
  };
  [[nodiscard]] const Window& window() const noexcept { return window_; }
  void watch(const Window& window) noexcept;

  /// Null: hooks go to the process's simulation. Called by the main thread outside Simulation::run.
  /// The one that was installed before is returned.
  static Observer* install(Observer* observer) noexcept;
  [[nodiscard]] static Observer* installed() noexcept { return installed_; }

  /// Without an observer: whether hooks of accesses tell the simulation anything.
  static void hook_simulation(bool hooked) noexcept {
    hooked_.window.bytes = hooked ? ~std::uintptr_t{0} : 0;
    hooked_.window.all_atomics = hooked;
  }

  // The hooks' fast path, which the observer installed decides about.
  /// False: a plain access here is not reported.
  [[nodiscard, gnu::always_inline]] static bool is_hooked(const void* address) noexcept {
    return hooked_.window.holds(address);
  }
  /// False: an atomic access here is not reported.
  [[nodiscard, gnu::always_inline]] static bool is_hooked_atomic(const void* address) noexcept {
    return hooked_.window.holds(address) || hooked_.window.all_atomics;
  }
  /// True for a load that only had to be counted, which is done. `within_line`: it is known not to
  /// cross the end of a line.
  template <bool within_line = false>
  [[nodiscard, gnu::always_inline]] static bool is_quiet(const void* address,
                                                         std::size_t bytes) noexcept {
    const std::uint64_t left = hooked_.quiet_loads;
    if (left == 0) return false;
    const std::uintptr_t at = reinterpret_cast<std::uintptr_t>(address) - hooked_.window.base;
    if (at < hooked_.window.bytes && is_told<within_line>(at, bytes)) return false;
    hooked_.quiet_loads = left - 1;
    return true;
  }

  // `pc` is the return address of the hook: the access's place in the program.
  virtual void read(const void* address, std::size_t bytes, const void* pc) = 0;
  virtual void write(const void* address, std::size_t bytes, const void* pc) = 0;
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
  // an abort; `frame` is the stack pointer at which perdure_transaction_resume continues.
  virtual std::uint32_t transaction_begin(std::byte* frame, const std::byte* caller_frame) = 0;
  virtual void transaction_commit(const void* pc) = 0;
  virtual void transaction_abort() = 0;

  /// pm::thread_slot() of the running simulated thread.
  [[nodiscard]] virtual std::size_t thread_slot() noexcept = 0;

  /// Programs under an observer find hardware transactions.
  static bool offers_transactions;

 protected:
  /// While installed: this many loads are only counted before `read` or `atomic` is called for one
  /// again. `told_bytes`: of each line of the window, which begins one, the bytes
  /// whose every load must be told, a bit each; one line more than the window has is readable.
  static void hush(std::uint64_t loads, const std::uint64_t* told_bytes) noexcept {
    hooked_.quiet_loads = loads;
    hooked_.told_bytes = told_bytes;
  }
  /// Of these, how many are left.
  [[nodiscard]] static std::uint64_t quiet_loads() noexcept { return hooked_.quiet_loads; }

 private:
  struct Hooked {
    Window window;  ///< of the observer installed, or everything
    std::uint64_t quiet_loads = 0;
    const std::uint64_t* told_bytes = nullptr;
  };
  template <bool within_line>
  [[nodiscard, gnu::always_inline]] static bool is_told(std::uintptr_t at,
                                                        std::size_t bytes) noexcept {
    constexpr std::size_t line_bytes = 64;
    if (bytes > line_bytes) return is_told_within(at, bytes);
    const std::uint64_t* const told = hooked_.told_bytes + at / line_bytes;
    const std::uint64_t touched =
        bytes == line_bytes ? ~std::uint64_t{0} : (std::uint64_t{1} << bytes) - 1;
    const std::size_t from = at % line_bytes;
    if ((told[0] & touched << from) != 0) return true;
    if (within_line || from + bytes <= line_bytes) return false;
    return (told[1] & touched >> (line_bytes - from)) != 0;
  }

  /// For more than a line; checks whole lines.
  [[nodiscard]] static bool is_told_within(std::uintptr_t at, std::size_t bytes) noexcept;

  Window window_;
  static Observer* installed_;
  static Hooked hooked_;
};

}  // namespace perdure::platform
