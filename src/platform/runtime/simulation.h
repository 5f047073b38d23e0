// Simulation: runs ordinary instrumented code as simulated threads on a Machine.
//
// One per process. Each simulated thread is a fiber (with the thread carrier, one that has an OS
// thread's thread-local storage to itself); the one with the smallest virtual clock runs. Code
// compiled with the compiler's access hooks calls in here at every load and store (hooks.cpp); the
// pm:: facade calls in for what the hooks do not see (pm/simulated.h).
//
// Physical pages are given out in the order of first touch, so nothing depends on where the host
// puts memory.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/result.h"
#include "platform/model/machine.h"

namespace perdure::platform {

enum class Carrier : std::uint8_t { fibers, threads };

struct SimulationOptions {
  Platform platform;
  Ablation ablation;
  unsigned threads = 1;
  unsigned background_threads = 0;  ///< beside them, if cpus are left: pm/background_thread.h
  /// Of the platform, one per thread, further ones for background threads; empty: node 0 first.
  std::vector<unsigned> cpus;
  unsigned pool_node = 0;
  unsigned dram_node = 0;
  Carrier carrier = Carrier::fibers;
  bool guard = false;    ///< completeness guard: compare dirty lines with a shadow
  bool profile = false;  ///< attribute virtual time to functions
};

class Simulation {
 public:
  /// Starts the process's simulation. Errors: usage (more threads than the platform has cores,
  /// ...).
  [[nodiscard]] static Result<Simulation*> start(SimulationOptions options);
  /// The process's simulation; null in a native build and before `start`.
  [[nodiscard]] static Simulation* current() noexcept;

  /// A pool lies in [base, base + bytes) from here on, on the node that the options say for its
  /// kind of memory, or no longer.
  void add_pool(const void* base, std::uint64_t bytes, MemoryKind kind);
  void remove_pool(const void* base);
  /// Gives a range contiguous physical pages of a kind and node of its own (`pm`: the pool's node).
  void add_region(const void* base, std::uint64_t bytes, MemoryKind kind, unsigned node);

  /// Runs job(t) on every simulated thread t < `threads` and returns when all have ended and the
  /// background threads have nothing to do. Clocks go on from the latest of the run before. An
  /// exception of a job is rethrown.
  void run(const std::function<void(unsigned thread)>& job);

  /// When the last run's jobs had all ended; what background threads had left came after it.
  [[nodiscard]] Time end_of_jobs() const noexcept;

  /// Off: accesses take no time and change only cache tags (--warm) or nothing at all.
  enum class Model : std::uint8_t { off, tags_only, on };
  void set_model(Model model) noexcept;

  /// Virtual time of the running simulated thread; outside `run`, the latest clock.
  [[nodiscard]] Time now() const noexcept;
  /// Calls `event` when no running thread's clock is below `at` any more.
  void at(Time at, std::function<void()> event);

  /// Does work of the host's on a simulated thread (progress, signals): unseen, and its memory is
  /// not the simulation's, so that it may depend on the host's time.
  static void outside(const std::function<void()>& work);

  /// The running simulated thread idles until then.
  void wait_until(Time time);
  /// The running simulated thread computes so long.
  void compute(Time duration);

  [[nodiscard]] Counters counters() const;
  /// Of all threads but those in the background, added up, while jobs run.
  [[nodiscard]] TimeSplit time_split() const;
  [[nodiscard]] std::uint64_t hooked_accesses() const noexcept;

  /// Compares every byte of persistent memory with the shadow, and the model's conservation laws.
  /// Errors: failed, naming the first byte that changed without a hook.
  [[nodiscard]] Result<void> check() const;

  /// Virtual ps per stack of function names, outermost first ("a;b;c 123" lines), with `profile`.
  [[nodiscard]] std::string folded_stacks() const;
};

}  // namespace perdure::platform
