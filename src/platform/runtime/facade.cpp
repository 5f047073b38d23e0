// The simulated half of the pm:: facade: what its instructions do to the machine.
#include <algorithm>
#include <cstring>

#include "platform/runtime/engine.h"
#include "platform/runtime/outside.h"
#include "pm/simulated_instructions.h"
#include "pm/thread.h"

namespace perdure::pm::detail::instruction {
namespace {

using platform::AbortCause;
using platform::FlushKind;
using platform::ns;
using platform::Observer;
using platform::PrefetchKind;
using platform::runtime::current;
using platform::runtime::engine;
using platform::runtime::read_outside;
using platform::runtime::SimulatedThread;
using platform::runtime::write_outside;

/// An expedited membarrier interrupts every core that runs the process and waits for the answers:
/// about two microseconds on a server with some dozens of threads.
constexpr platform::Time membarrier_time = 2000 * ns;

/// The thread whose access the machine shall see, or null.
SimulatedThread* timed_thread() noexcept { return engine.timed ? current : nullptr; }

/// A frame of the profile: an instruction of the facade, which has no hooks of its own.
class Framed {
 public:
  template <class... Arguments>
  Framed(SimulatedThread& thread, void (*instruction)(Arguments...) noexcept) noexcept
      : thread_(thread) {
    if (engine.profiled) engine.profile.enter(thread, reinterpret_cast<const void*>(instruction));
  }
  ~Framed() {
    if (engine.profiled) engine.profile.leave(thread_);
  }
  Framed(const Framed&) = delete;
  Framed& operator=(const Framed&) = delete;

 private:
  SimulatedThread& thread_;
};

void flush(const std::byte* line, FlushKind kind, const void* pc) noexcept {
  if (current == nullptr) {
    constexpr Observer::Flush observed[] = {Observer::Flush::clwb, Observer::Flush::clflushopt,
                                            Observer::Flush::clflush};
    if (Observer* const observer = Observer::installed())
      observer->flush(line, observed[static_cast<unsigned>(kind)], pc);
    return;
  }
  engine.transactions.forbid(*current, AbortCause::flush);
  SimulatedThread* const thread = timed_thread();
  if (thread == nullptr) return;
  const Framed framed(*thread, &clwb);
  thread->loads.settle(thread->clock);
  engine.order(*thread);
  engine.machine->flush(thread->number, engine.space.translate(line), kind);
  engine.read_clock(*thread);
}

// As in hooks.cpp, what has something to tell is a function of its own.
[[gnu::noinline]] void prefetch_timed(SimulatedThread& thread, const void* address,
                                      PrefetchKind kind) noexcept {
  thread.loads.settle(thread.clock);
  const auto physical = engine.space.translate(address);
  if (engine.machine->reaches_shared(thread.number, physical, 1, kind == PrefetchKind::write))
    engine.order_shared(thread, address, physical);
  engine.machine->prefetch(thread.number, physical, kind,
                           thread.loads.ready(address, thread.clock));
  engine.read_clock(thread);
}

[[gnu::always_inline]] inline void prefetch_as(const void* address, PrefetchKind kind) noexcept {
  if (SimulatedThread* const thread = timed_thread()) prefetch_timed(*thread, address, kind);
}

}  // namespace

void clwb(const std::byte* line) noexcept {
  flush(line, FlushKind::clwb, __builtin_return_address(0));
}
void clflushopt(const std::byte* line) noexcept {
  flush(line, FlushKind::clflushopt, __builtin_return_address(0));
}
void clflush(const std::byte* line) noexcept {
  flush(line, FlushKind::clflush, __builtin_return_address(0));
}

void store_fence() noexcept {
  if (Observer* const observer = Observer::installed())
    return observer->fence(__builtin_return_address(0));
  if (engine.guarded) engine.guard.at_fence();
  if (current == nullptr) return;
  engine.transactions.forbid(*current, AbortCause::flush);
  SimulatedThread* const thread = timed_thread();
  if (thread == nullptr) return;
  const Framed framed(*thread, &store_fence);
  engine.order(*thread);
  engine.machine->store_fence(thread->number);
  engine.read_clock(*thread);
}

void load_fence() noexcept {
  SimulatedThread* const thread = timed_thread();
  if (thread == nullptr) return;
  engine.machine->load_fence(thread->number);
  engine.read_clock(*thread);
}

void drain() noexcept {
  SimulatedThread* const thread = timed_thread();
  if (thread == nullptr) return;
  const Framed framed(*thread, &drain);
  engine.order(*thread);
  engine.machine->drain(thread->number);
  engine.read_clock(*thread);
}

void stream_line(void* line, std::uint64_t word) noexcept {
  constexpr std::size_t line_bytes = 64;
  if (Observer* const observer = Observer::installed())
    observer->stream(line, line_bytes, __builtin_return_address(0));
  if (engine.guarded) engine.guard.settle();
  if (current != nullptr) engine.transactions.forbid(*current, AbortCause::flush);
  if (SimulatedThread* const thread = timed_thread()) {
    ++thread->accesses;
    const Framed framed(*thread, &stream_line);
    if (engine.store_sizes.any()) engine.store_sizes.count(line, line_bytes);
    engine.order(*thread);
    if (engine.transactions.any()) engine.transactions.on_store(*thread, line, line_bytes);
    engine.machine->stream(thread->number, engine.space.translate(line), line_bytes);
    engine.read_clock(*thread);
  }
  auto* const words = static_cast<std::uint64_t*>(line);
  for (std::size_t i = 0; i < line_bytes / sizeof word; ++i)
    __atomic_store_n(words + i, word, __ATOMIC_RELAXED);
  if (engine.guarded) engine.guard.stored(line, line_bytes, __builtin_return_address(0));
}

void stream(void* destination, const void* source, std::size_t bytes) noexcept {
  const auto* from = static_cast<const std::byte*>(source);
  auto* to = static_cast<std::byte*>(destination);
  if (Observer* const observer = Observer::installed()) {
    if (observer->window().holds(source))
      observer->read(source, bytes, __builtin_return_address(0));
    observer->stream(destination, bytes, __builtin_return_address(0));
  }
  if (engine.guarded) engine.guard.settle();
  SimulatedThread* const thread = timed_thread();
  if (current != nullptr) engine.transactions.forbid(*current, AbortCause::flush);
  if (thread != nullptr && engine.store_sizes.any()) engine.store_sizes.count(destination, bytes);
  for (std::size_t left = bytes; thread != nullptr && left != 0;) {
    constexpr std::size_t line_bytes = 64;
    const std::size_t room = line_bytes - reinterpret_cast<std::uintptr_t>(to) % line_bytes;
    const std::size_t piece = std::min(left, room);
    note_read(from, piece);
    const Framed framed(*thread, &stream);
    engine.order(*thread);
    if (engine.transactions.any()) engine.transactions.on_store(*thread, to, piece);
    engine.machine->stream(thread->number, engine.space.translate(to),
                           static_cast<unsigned>(piece));
    engine.read_clock(*thread);
    from += piece;
    to += piece;
    left -= piece;
  }
  // Whole words, as the instruction writes them.
  auto* const words = static_cast<std::uint64_t*>(destination);
  for (std::size_t i = 0; i < bytes / sizeof *words; ++i) {
    std::uint64_t word = 0;
    __builtin_memcpy(&word, static_cast<const std::byte*>(source) + i * sizeof word, sizeof word);
    __atomic_store_n(words + i, word, __ATOMIC_RELAXED);
  }
  if (engine.guarded) engine.guard.stored(destination, bytes, __builtin_return_address(0));
}

void prefetch(const void* address) noexcept { prefetch_as(address, PrefetchKind::read); }
void prefetch_once(const void* address) noexcept { prefetch_as(address, PrefetchKind::once); }
/// The model has no path to the L2 that the L1's fill buffers are not on.
void prefetch_l2(const void* address) noexcept { prefetch_as(address, PrefetchKind::read); }
void prefetch_for_write(const void* address) noexcept { prefetch_as(address, PrefetchKind::write); }

void pause() noexcept {
  SimulatedThread* const thread = current;
  if (thread == nullptr) {
    if (Observer* const observer = Observer::installed())
      observer->pause(__builtin_return_address(0));
    else
      __builtin_ia32_pause();
    return;
  }
  engine.transactions.forbid(*thread, AbortCause::other);
  if (!engine.timed) return engine.scheduler.yield_untimed(*thread);
  engine.machine->pause(thread->number);
  engine.read_clock(*thread);
  engine.order(*thread);
}

// A core of its own for every thread: the system call comes back at once.
void yield() noexcept {
  constexpr platform::Time system_call_time = 300 * ns;
  SimulatedThread* const thread = current;
  if (thread == nullptr) {
    if (Observer* const observer = Observer::installed())
      observer->pause(__builtin_return_address(0));
    else
      __builtin_ia32_pause();
    return;
  }
  engine.transactions.forbid(*thread, AbortCause::other);
  if (!engine.timed) return engine.scheduler.yield_untimed(*thread);
  engine.machine->wait_until(thread->number, thread->clock + system_call_time);
  engine.read_clock(*thread);
  engine.order(*thread);
}

void transaction_commit() noexcept {
  if (Observer* const observer = Observer::installed())
    return observer->transaction_commit(__builtin_return_address(0));
  if (current == nullptr || current->transaction == nullptr) return;
  if (engine.timed) engine.order(*current);
  engine.transactions.commit(*current);
}

void transaction_abort() noexcept {
  if (Observer* const observer = Observer::installed()) return observer->transaction_abort();
  if (current == nullptr || current->transaction == nullptr) return;
  engine.transactions.abort(*current, AbortCause::explicit_abort);
}

bool has_transactions() noexcept {
  return Observer::offers_transactions ||
         (engine.has_transactions && Observer::installed() == nullptr);
}

void note_read(const void* address, std::size_t bytes) noexcept {
  if (!Observer::is_hooked(address)) return;
  if (current != nullptr)
    engine.load(*current, address, bytes);
  else
    read_outside(address, bytes, __builtin_return_address(0));
}

void note_write(void* address, std::size_t bytes) noexcept {
  if (!Observer::is_hooked(address)) return;
  if (current != nullptr)
    engine.store(*current, address, bytes, __builtin_return_address(0));
  else
    write_outside(address, bytes, __builtin_return_address(0));
}

void note_persistent(const void* base, std::uint64_t bytes, bool foreign_writes,
                     PoolPart part) noexcept {
  if (Observer* const observer = Observer::installed()) {
    if (foreign_writes) observer->mapped(base, bytes);
    return;
  }
  platform::runtime::add_region(
      {.base = static_cast<const std::byte*>(base),
       .bytes = bytes,
       .first_page = 0,
       .home = {.memory = part.in_dram ? platform::MemoryKind::dram : platform::MemoryKind::pm,
                .node = part.node},
       .pool = true,
       .foreign_writes = foreign_writes,
       .part = part.number});
}

void note_not_persistent(const void* base) noexcept {
  if (Observer* const observer = Observer::installed()) observer->unmapped(base);
  platform::runtime::remove_region(base);
}

void heavy_fence() noexcept {
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
  if (Observer* const observer = Observer::installed())
    return observer->fence(__builtin_return_address(0));
  SimulatedThread* const thread = current;
  if (thread == nullptr) return;
  engine.transactions.forbid(*thread, AbortCause::other);
  if (!engine.timed) return;
  engine.machine->full_fence(thread->number);
  engine.machine->compute(thread->number, membarrier_time);
  engine.read_clock(*thread);
  engine.order(*thread);
}

// The upper half, then the lower one but for its first slots: threads of the host that work beside
// a simulation have those.
std::size_t thread_slot() noexcept {
  constexpr std::size_t host_slots = max_threads - max_workers;
  constexpr std::size_t half = max_threads / 2;
  if (current != nullptr)
    return current->number < half ? half + current->number : host_slots + current->number - half;
  return Observer::installed() != nullptr ? Observer::installed()->thread_slot() : no_slot;
}

unsigned numa_node() noexcept {
  return current != nullptr ? engine.machine->socket_of(current->number) : 0;
}

}  // namespace perdure::pm::detail::instruction
