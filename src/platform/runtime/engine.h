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

#include "platform/model/machine.h"
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
  /// does not keep it from running. Other accesses do not count, because what the harness does for
  /// itself may depend on the host.
  void poll_untimed(SimulatedThread& thread);

  /// Lets threads with smaller clocks run; returns when this one's is the smallest. Does not return
  /// when the thread's transaction was undone meanwhile.
  void order(SimulatedThread& thread) {
    if (thread.clock > scheduler.next_clock()) scheduler.yield(thread);
  }

  /// The clock after the machine was called for this thread.
  void read_clock(SimulatedThread& thread) noexcept { thread.clock = machine->now(thread.number); }

 private:
  void untimed(SimulatedThread& thread, const void* address, std::size_t bytes, bool writes);
  void in_pieces(SimulatedThread& thread, const void* address, std::size_t bytes, bool writes);
  void load_piece(SimulatedThread& thread, const void* address, unsigned bytes);
  void store_piece(SimulatedThread& thread, const void* address, unsigned bytes);
  void order_if_shared(SimulatedThread& thread, PhysicalAddress address, unsigned bytes,
                       bool writes);
};

extern Engine engine;

/// Says what a range of host memory is, before or during a simulation.
void add_region(const AddressSpace::Region& region);
void remove_region(const void* base);

[[gnu::always_inline]] inline void Engine::order_if_shared(SimulatedThread& thread,
                                                           PhysicalAddress address, unsigned bytes,
                                                           bool writes) {
  const Time next = scheduler.next_clock();
  if (thread.clock <= next) [[likely]]
    return;
  if (thread.clock - next > lookahead ||
      machine->reaches_shared(thread.number, address, bytes, writes))
    scheduler.yield(thread);
}

[[gnu::always_inline]] inline void Engine::load_piece(SimulatedThread& thread, const void* address,
                                                      unsigned bytes) {
  ++thread.accesses;
  thread.loads.settle(thread.clock);
  const PhysicalAddress physical = space.translate(address);
  order_if_shared(thread, physical, bytes, false);
  if (transactions.any()) [[unlikely]]
    transactions.on_load(thread, address);
  const Time ready = thread.loads.ready(address, thread.clock);
  const Time done = machine->load(thread.number, physical, bytes, ready);
  read_clock(thread);
  if (bytes == sizeof(std::uint64_t) && done > thread.clock) thread.loads.expect(address, done);
}

[[gnu::always_inline]] inline void Engine::store_piece(SimulatedThread& thread, const void* address,
                                                       unsigned bytes) {
  ++thread.accesses;
  thread.loads.settle(thread.clock);
  const PhysicalAddress physical = space.translate(address);
  order_if_shared(thread, physical, bytes, true);
  if (transactions.any()) [[unlikely]]
    transactions.on_store(thread, address, bytes);
  machine->store(thread.number, physical, bytes);
  read_clock(thread);
}

[[gnu::always_inline]] inline void Engine::load(SimulatedThread& thread, const void* address,
                                                std::size_t bytes) {
  if (guarded) [[unlikely]]
    guard.settle();
  if (!timed) [[unlikely]]
    return untimed(thread, address, bytes, false);
  if ((reinterpret_cast<std::uintptr_t>(address) & line_mask) + bytes > line_mask + 1) [[unlikely]]
    return in_pieces(thread, address, bytes, false);
  load_piece(thread, address, static_cast<unsigned>(bytes));
}

[[gnu::always_inline]] inline void Engine::store(SimulatedThread& thread, const void* address,
                                                 std::size_t bytes) {
  if (guarded) [[unlikely]]
    guard.settle();
  if (!timed) [[unlikely]]
    untimed(thread, address, bytes, true);
  else if ((reinterpret_cast<std::uintptr_t>(address) & line_mask) + bytes > line_mask + 1)
      [[unlikely]]
    in_pieces(thread, address, bytes, true);
  else
    store_piece(thread, address, static_cast<unsigned>(bytes));
  if (guarded) [[unlikely]]
    guard.expect(address, bytes, __builtin_return_address(0));
}

}  // namespace perdure::platform::runtime
