// The instructions behind the facade, on a simulated machine: calls into src/platform/runtime,
// which defines them. Outside a simulated thread they do their work on memory and take no time.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "pm/pool_part.h"

namespace perdure::pm {
class BackgroundThread;
}

namespace perdure::pm::detail::instruction {

inline constexpr bool simulated = true;

void clwb(const std::byte* line) noexcept;
void clflushopt(const std::byte* line) noexcept;
void clflush(const std::byte* line) noexcept;
void store_fence() noexcept;
void load_fence() noexcept;
void drain() noexcept;
void stream(void* destination, const void* source, std::size_t bytes) noexcept;
/// Streams one whole line, filled with `word`, from a register.
void stream_line(void* line, std::uint64_t word) noexcept;
void prefetch(const void* address) noexcept;
void prefetch_once(const void* address) noexcept;
void prefetch_l2(const void* address) noexcept;
void prefetch_for_write(const void* address) noexcept;
void pause() noexcept;
void yield() noexcept;

// Begin returns a second time when the transaction is undone, as the instruction does: memory, the
// stack and the registers that calls preserve are then what they were.
std::uint32_t transaction_begin() noexcept asm("perdure_transaction_begin");
void transaction_commit() noexcept;
void transaction_abort() noexcept;
/// The simulated platform has hardware transactions.
[[nodiscard]] bool has_transactions() noexcept;

/// Tells of an access of any length that the compiler's hooks cannot see, just before it is made.
void note_read(const void* address, std::size_t bytes) noexcept;
void note_write(void* address, std::size_t bytes) noexcept;
/// `foreign_writes`: a library that is not ours keeps its own data there, unseen by the hooks.
void note_persistent(const void* base, std::uint64_t bytes, bool foreign_writes,
                     PoolPart part) noexcept;
void note_not_persistent(const void* base) noexcept;

struct FlushSupport {
  bool clflushopt = true;
  bool clwb = true;
};
[[nodiscard]] inline FlushSupport flush_support() noexcept { return {}; }

inline void light_fence() noexcept { std::atomic_signal_fence(std::memory_order_seq_cst); }
/// Every thread passes a full fence: what the caller pays for the interrupts.
void heavy_fence() noexcept;

/// False where no simulated thread is free for it, or there is no simulation.
[[nodiscard]] bool start_background(BackgroundThread& thread) noexcept;
void wake_background(BackgroundThread& thread) noexcept;
/// Returns when it has served all and will not be called again.
void stop_background(BackgroundThread& thread) noexcept;

/// A simulated thread's slot; `no_slot` outside.
inline constexpr std::size_t no_slot = ~std::size_t{0};
[[nodiscard]] std::size_t thread_slot() noexcept;
/// 0 outside a simulated thread.
[[nodiscard]] unsigned numa_node() noexcept;

}  // namespace perdure::pm::detail::instruction
