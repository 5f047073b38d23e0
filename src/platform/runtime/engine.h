// Engine: what a hook needs at hand, and what happens at an access.
//
// One simulated thread runs at a time. `current` is null on every other thread of the process, and
// while the runtime itself works on behalf of a thread; a hook that finds it null does nothing but
// the operation it was called for.
//
// E1  an access that reaches shared parts of the machine is made by the thread with the smallest
//     clock (M1). One that does not may run ahead of the others by at most `lookahead`, so that no
//     loop, however well cached, keeps the rest from running.
// E2  between the return of a hook and its access nothing else runs, except for a copied object:
//     the compiler announces the store, then the load, and then does both.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "platform/model/machine_inline.h"
#include "platform/runtime/address_space.h"
#include "platform/runtime/background.h"
#include "platform/runtime/guard.h"
#include "platform/runtime/profile.h"
#include "platform/runtime/scheduler.h"
#include "platform/runtime/simulated_thread.h"
#include "platform/runtime/store_sizes.h"
#include "platform/runtime/transactions.h"

namespace perdure::platform::runtime {

inline constexpr std::uintptr_t line_mask = 63;
inline constexpr Time lookahead = 500 * ns;

struct Engine {
  bool timed = false;    ///< Model::on
  bool tags = false;     ///< Model::tags_only
  bool guarded = false;  ///< the guard sees every hooked store
  bool profiled = false;
  bool has_transactions = false;
  Machine* machine = nullptr;
  AddressSpace space;
  Scheduler scheduler;
  Background background;
  Transactions transactions;
  Guard guard;
  Profile profile;
  StoreSizes store_sizes;

  [[gnu::always_inline]] void load(SimulatedThread& thread, const void* address,
                                   std::size_t bytes) {
    if (timed && stays_in_line(address, bytes) &&
        load_quickly(thread, address, static_cast<unsigned>(bytes))) [[likely]]
      return;
    load_otherwise(thread, address, bytes);
  }
  /// `site`: an address in the function that stores.
  [[gnu::always_inline]] void store(SimulatedThread& thread, const void* address, std::size_t bytes,
                                    const void* site) {
    if (store_sizes.any() && timed) [[unlikely]]
      store_sizes.count(address, bytes);
    if (timed && !guarded && stays_in_line(address, bytes) && store_quickly(thread, address))
        [[likely]]
      return;
    store_otherwise(thread, address, bytes, site);
  }
  /// A locked operation: always an ordering point.
  void locked(SimulatedThread& thread, const void* address, std::size_t bytes, const void* site);

  /// To be called when something that it looks at has changed: hooks of accesses are passed over
  /// while the model is off and no other thread can run, as when one thread loads an index.
  void choose_hooks() noexcept;

  /// With the model off: before an atomic operation, so that a loop that waits for another thread
  /// does not keep it from running.
  void poll_untimed(SimulatedThread& thread);

  /// Lets threads with smaller clocks run; returns when this one's is the smallest. Does not return
  /// when the thread's transaction was undone meanwhile.
  void order(SimulatedThread& thread) {
    if (thread.clock > scheduler.next_clock()) scheduler.yield(thread);
  }

  /// The same before an access that reaches shared parts of the machine. While others run, this
  /// machine's own caches get what the access will take.
  void order_shared(SimulatedThread& thread, const void* address, PhysicalAddress physical) {
    if (thread.clock <= scheduler.next_clock()) return;
    __builtin_prefetch(address);
    machine->prefetch_on_host(thread.number, physical >> line_bits);
    scheduler.yield(thread);
  }

  /// The clock after the machine was called for this thread.
  void read_clock(SimulatedThread& thread) noexcept { thread.clock = machine->now(thread.number); }

 private:
  [[nodiscard]] static bool stays_in_line(const void* address, std::size_t bytes) noexcept {
    return (reinterpret_cast<std::uintptr_t>(address) & line_mask) + bytes <= line_mask + 1;
  }
  // Nearly every access, without a call. False: nothing has happened.
  bool load_quickly(SimulatedThread& thread, const void* address, unsigned bytes);
  bool store_quickly(SimulatedThread& thread, const void* address);
  // Every access, by the slow path.
  void load_otherwise(SimulatedThread& thread, const void* address, std::size_t bytes);
  void store_otherwise(SimulatedThread& thread, const void* address, std::size_t bytes,
                       const void* site);
  static constexpr std::uint32_t longest_untimed_run = 1U << 23;
  void untimed(SimulatedThread& thread, const void* address, std::size_t bytes, bool writes);
  void in_pieces(SimulatedThread& thread, const void* address, std::size_t bytes, bool writes);
  void load_piece(SimulatedThread& thread, const void* address, unsigned bytes);
  void store_piece(SimulatedThread& thread, const void* address, unsigned bytes);
  void order_if_shared(SimulatedThread& thread, const void* address, PhysicalAddress physical,
                       unsigned bytes, bool writes);
  /// An access that stays in the private caches needs no other thread to run first (E1).
  [[nodiscard]] bool may_go_on(const SimulatedThread& thread) const noexcept {
    const Time next = scheduler.next_clock();
    return thread.clock <= next || (thread.clock - next <= lookahead && !thread.shares_caches);
  }
  void note_ready(SimulatedThread& thread, const void* address, unsigned bytes, Time done) {
    if (bytes == sizeof(std::uint64_t) && done > thread.clock) thread.loads.expect(address, done);
  }
};

extern Engine engine;

/// Says what a range of host memory is, before or during a simulation.
void add_region(const AddressSpace::Region& region);
void remove_region(const void* base);

[[gnu::always_inline]] inline bool Engine::load_quickly(SimulatedThread& thread,
                                                        const void* address, unsigned bytes) {
  thread.loads.settle(thread.clock);
  const PhysicalAddress physical = space.translate_touched(address);
  Time done = 0;
  if (physical == 0 || !may_go_on(thread) || !transactions.ignore_load(thread, address) ||
      !machine->load_from_l1(thread.number, physical >> line_bits,
                             thread.loads.ready(address, thread.clock), done))
    return false;
  ++thread.accesses;
  read_clock(thread);
  note_ready(thread, address, bytes, done);
  return true;
}

[[gnu::always_inline]] inline bool Engine::store_quickly(SimulatedThread& thread,
                                                         const void* address) {
  thread.loads.settle(thread.clock);
  const PhysicalAddress physical = space.translate_touched(address);
  if (physical == 0 || !may_go_on(thread) || !transactions.ignore_store(thread, address) ||
      !machine->store_to_l1(thread.number, physical >> line_bits))
    return false;
  ++thread.accesses;
  read_clock(thread);
  return true;
}

}  // namespace perdure::platform::runtime
