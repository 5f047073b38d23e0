// Engine: what a hook needs at hand, and what happens at an access.
//
// One simulated thread runs at a time. `current` is null on every other thread of the process, and
// while the runtime itself works on behalf of a thread; a hook that finds it null does nothing but
// the operation it was called for.
//
// E1  an access that reaches shared parts of the machine is made by the thread with the smallest
//     clock (M1). One that does not may run ahead of the others by at most `lookahead`, so that no
//     loop, however well cached, keeps the rest from running.
// E2  between the return of a hook and the access it speaks of nothing else runs.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "platform/model/machine_inline.h"
#include "platform/runtime/address_space.h"
#include "platform/runtime/guard.h"
#include "platform/runtime/profile.h"
#include "platform/runtime/scheduler.h"
#include "platform/runtime/simulated_thread.h"
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
  Transactions transactions;
  Guard guard;
  Profile profile;

  void load(SimulatedThread& thread, const void* address, std::size_t bytes);
  void store(SimulatedThread& thread, const void* address, std::size_t bytes);
  /// A locked operation: always an ordering point.
  void locked(SimulatedThread& thread, const void* address, std::size_t bytes);

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
  // With the model off. A loop that waits by plain loads gets a turn like any other, but late:
  // threads that do nothing but work shall take turns by their atomic operations.
  void load_untimed(SimulatedThread& thread, const void* address, std::size_t bytes) {
    if (++thread.untimed_accesses > longest_untimed_run || tags) [[unlikely]]
      untimed(thread, address, bytes, false);
  }
  void store_untimed(SimulatedThread& thread, const void* address, std::size_t bytes) {
    ++thread.untimed_accesses;
    if (tags || thread.transaction != nullptr) [[unlikely]]
      untimed(thread, address, bytes, true);
  }
  static constexpr std::uint32_t longest_untimed_run = 1U << 23;
  void untimed(SimulatedThread& thread, const void* address, std::size_t bytes, bool writes);
  void in_pieces(SimulatedThread& thread, const void* address, std::size_t bytes, bool writes);
  void load_piece(SimulatedThread& thread, const void* address, unsigned bytes);
  void store_piece(SimulatedThread& thread, const void* address, unsigned bytes);
  // The same when more must be done than what L1 does.
  void load_slowly(SimulatedThread& thread, const void* address, PhysicalAddress physical,
                   unsigned bytes);
  void store_slowly(SimulatedThread& thread, const void* address, PhysicalAddress physical,
                    unsigned bytes);
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

[[gnu::always_inline]] inline void Engine::load_piece(SimulatedThread& thread, const void* address,
                                                      unsigned bytes) {
  ++thread.accesses;
  thread.loads.settle(thread.clock);
  const PhysicalAddress physical = space.translate(address);
  Time done = 0;
  if (may_go_on(thread) && transactions.ignore_load(thread, address) &&
      machine->load_from_l1(thread.number, physical >> line_bits,
                            thread.loads.ready(address, thread.clock), done)) [[likely]] {
    read_clock(thread);
    note_ready(thread, address, bytes, done);
  } else {
    load_slowly(thread, address, physical, bytes);
  }
}

[[gnu::always_inline]] inline void Engine::store_piece(SimulatedThread& thread, const void* address,
                                                       unsigned bytes) {
  ++thread.accesses;
  thread.loads.settle(thread.clock);
  const PhysicalAddress physical = space.translate(address);
  if (may_go_on(thread) && transactions.ignore_store(thread, address) &&
      machine->store_to_l1(thread.number, physical >> line_bits)) [[likely]]
    read_clock(thread);
  else
    store_slowly(thread, address, physical, bytes);
}

[[gnu::always_inline]] inline void Engine::load(SimulatedThread& thread, const void* address,
                                                std::size_t bytes) {
  if (!timed) [[unlikely]]
    return load_untimed(thread, address, bytes);
  if ((reinterpret_cast<std::uintptr_t>(address) & line_mask) + bytes > line_mask + 1) [[unlikely]]
    return in_pieces(thread, address, bytes, false);
  load_piece(thread, address, static_cast<unsigned>(bytes));
}

[[gnu::always_inline]] inline void Engine::store(SimulatedThread& thread, const void* address,
                                                 std::size_t bytes) {
  if (guarded) [[unlikely]]
    guard.settle();
  if (!timed) [[unlikely]]
    store_untimed(thread, address, bytes);
  else if ((reinterpret_cast<std::uintptr_t>(address) & line_mask) + bytes > line_mask + 1)
      [[unlikely]]
    in_pieces(thread, address, bytes, true);
  else
    store_piece(thread, address, static_cast<unsigned>(bytes));
  if (guarded) [[unlikely]]
    guard.expect(address, bytes, __builtin_return_address(0));
}

}  // namespace perdure::platform::runtime
