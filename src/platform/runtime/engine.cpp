#include "platform/runtime/engine.h"

#include <algorithm>

#include "platform/runtime/observer.h"

namespace perdure::platform::runtime {

constinit thread_local SimulatedThread* current __attribute__((tls_model("local-exec"))) = nullptr;
Engine engine;
std::uintptr_t IncompleteLoads::pool_base = 0;

// The sum of the pool's base and a number that is no pointer may lie near any address: outside of a
// pool it must not count, or it would show where the host has put other memory.
Time IncompleteLoads::search(std::uintptr_t address, Time now, unsigned candidates) const noexcept {
  Time ready = 0;
  for (; candidates != 0; candidates &= candidates - 1) {
    const Recent& recent = recent_[static_cast<unsigned>(__builtin_ctz(candidates))];
    if (recent.ready <= now || recent.value < window) continue;
    const bool points = address - recent.value < window;
    const bool offset = pool_base != 0 && address - (recent.value + pool_base) < window &&
                        engine.space.pool_region(reinterpret_cast<const void*>(address)) != nullptr;
    if ((points || offset) && recent.ready > ready) ready = recent.ready;
  }
  return ready;
}

void add_region(const AddressSpace::Region& region) {
  engine.space.add(region);
  if (region.pool && engine.guarded) engine.guard.add(region);
  engine.store_sizes.watch(region);
  if (region.pool) IncompleteLoads::pool_base = reinterpret_cast<std::uintptr_t>(region.base);
}

void remove_region(const void* base) {
  for (const auto& thread : engine.scheduler.threads()) thread->loads.forget();
  if (engine.guarded) engine.guard.remove(base);
  engine.store_sizes.forget(base);
  engine.space.remove(base);
}

void Engine::choose_hooks() noexcept {
  const bool turns = !scheduler.running() || scheduler.others_wait();
  Observer::hook_simulation(timed || tags || guarded || transactions.any() || turns);
}

void Engine::poll_untimed(SimulatedThread& thread) {
  constexpr std::uint32_t longest_run = 1U << 16;
  if (thread.transaction == nullptr && ++thread.untimed_run > longest_run)
    scheduler.yield_untimed(thread);
}

void Engine::untimed(SimulatedThread& thread, const void* address, std::size_t bytes, bool writes) {
  if (thread.untimed_accesses > longest_untimed_run && thread.transaction == nullptr)
    scheduler.yield_untimed(thread);
  if (thread.transaction != nullptr && writes)
    transactions.on_untimed_store(thread, address, bytes);
  if (!tags) return;
  const auto* at = static_cast<const std::byte*>(address);
  while (bytes != 0) {
    const std::size_t room = line_mask + 1 - (reinterpret_cast<std::uintptr_t>(at) & line_mask);
    const std::size_t piece = std::min(bytes, room);
    machine->touch(thread.number, space.translate(at), static_cast<unsigned>(piece), writes);
    at += piece;
    bytes -= piece;
  }
}

void Engine::order_if_shared(SimulatedThread& thread, const void* address, PhysicalAddress physical,
                             unsigned bytes, bool writes) {
  const Time next = scheduler.next_clock();
  if (thread.clock <= next) return;
  if (machine->reaches_shared(thread.number, physical, bytes, writes))
    order_shared(thread, address, physical);
  else if (thread.clock - next > lookahead)
    scheduler.yield(thread);
}

void Engine::load_piece(SimulatedThread& thread, const void* address, unsigned bytes) {
  ++thread.accesses;
  thread.loads.settle(thread.clock);
  const PhysicalAddress physical = space.translate(address);
  order_if_shared(thread, address, physical, bytes, false);
  if (transactions.any()) transactions.on_load(thread, address);
  const Time ready = thread.loads.ready(address, thread.clock);
  const Time done = machine->load(thread.number, physical, bytes, ready);
  read_clock(thread);
  note_ready(thread, address, bytes, done);
}

void Engine::store_piece(SimulatedThread& thread, const void* address, unsigned bytes) {
  ++thread.accesses;
  thread.loads.settle(thread.clock);
  const PhysicalAddress physical = space.translate(address);
  order_if_shared(thread, address, physical, bytes, true);
  if (transactions.any()) transactions.on_store(thread, address, bytes);
  machine->store(thread.number, physical, bytes);
  read_clock(thread);
}

// With the model off, a loop that waits by plain loads gets a turn like any other, but late:
// threads that do nothing but work shall take turns by their atomic operations.
void Engine::load_otherwise(SimulatedThread& thread, const void* address, std::size_t bytes) {
  if (!timed) {
    if (++thread.untimed_accesses > longest_untimed_run || tags) [[unlikely]]
      untimed(thread, address, bytes, false);
  } else if (stays_in_line(address, bytes)) {
    load_piece(thread, address, static_cast<unsigned>(bytes));
  } else {
    in_pieces(thread, address, bytes, false);
  }
}

void Engine::store_otherwise(SimulatedThread& thread, const void* address, std::size_t bytes,
                             const void* site) {
  if (guarded) [[unlikely]]
    guard.settle();
  if (!timed) {
    ++thread.untimed_accesses;
    if (tags || thread.transaction != nullptr) [[unlikely]]
      untimed(thread, address, bytes, true);
  } else if (stays_in_line(address, bytes)) {
    store_piece(thread, address, static_cast<unsigned>(bytes));
  } else {
    in_pieces(thread, address, bytes, true);
  }
  if (guarded) [[unlikely]]
    guard.expect(address, bytes, site);
}

void Engine::in_pieces(SimulatedThread& thread, const void* address, std::size_t bytes,
                       bool writes) {
  const auto* at = static_cast<const std::byte*>(address);
  while (bytes != 0) {
    const std::size_t room = line_mask + 1 - (reinterpret_cast<std::uintptr_t>(at) & line_mask);
    const auto piece = static_cast<unsigned>(std::min(bytes, room));
    if (writes && !store_quickly(thread, at))
      store_piece(thread, at, piece);
    else if (!writes && !load_quickly(thread, at, piece))
      load_piece(thread, at, piece);
    at += piece;
    bytes -= piece;
  }
}

void Engine::locked(SimulatedThread& thread, const void* address, std::size_t bytes,
                    const void* site) {
  if (guarded) [[unlikely]]
    guard.settle();
  if (!timed) [[unlikely]] {
    poll_untimed(thread);
    untimed(thread, address, bytes, true);
  } else {
    ++thread.accesses;
    thread.loads.settle(thread.clock);
    order(thread);
    if (transactions.any()) transactions.on_store(thread, address, bytes);
    machine->atomic(thread.number, space.translate(address), static_cast<unsigned>(bytes));
    read_clock(thread);
  }
  if (guarded) [[unlikely]]
    guard.expect(address, bytes, site);
}

}  // namespace perdure::platform::runtime
