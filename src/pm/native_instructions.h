// The instructions behind the facade, on the machine the program runs on. The simulated half is
// pm/simulated_instructions.h: the same names.
#pragma once

#include <emmintrin.h>
#include <sched.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "pm/pool_part.h"

namespace perdure::pm::detail::instruction {

inline constexpr bool simulated = false;

inline void clwb(const std::byte* line) noexcept {
  asm volatile("clwb %0" : "+m"(*const_cast<std::byte*>(line)));
}
inline void clflushopt(const std::byte* line) noexcept {
  asm volatile("clflushopt %0" : "+m"(*const_cast<std::byte*>(line)));
}
inline void clflush(const std::byte* line) noexcept {
  asm volatile("clflush %0" : "+m"(*const_cast<std::byte*>(line)));
}
inline void store_fence() noexcept { asm volatile("sfence" ::: "memory"); }
/// Waits until earlier loads have their values.
inline void load_fence() noexcept { asm volatile("lfence" ::: "memory"); }
inline void drain() noexcept { load_fence(); }

/// The destination 8-byte aligned, bytes a multiple of 8.
inline void stream(void* destination, const void* source, std::size_t bytes) noexcept {
  auto* to = static_cast<std::byte*>(destination);
  const auto* from = static_cast<const std::byte*>(source);
  const auto one = [&] {
    long long word = 0;
    std::memcpy(&word, from, sizeof word);
    _mm_stream_si64(reinterpret_cast<long long*>(to), word);
    to += sizeof word;
    from += sizeof word;
    bytes -= sizeof word;
  };
  constexpr std::size_t pair = sizeof(__m128i);
  if (bytes != 0 && reinterpret_cast<std::uintptr_t>(to) % pair != 0) one();
  for (; bytes >= pair; bytes -= pair, to += pair, from += pair)
    _mm_stream_si128(reinterpret_cast<__m128i*>(to),
                     _mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  if (bytes != 0) one();
}

// Assembly, because g++ takes a function that only calls the builtin for one without effect, and
// drops calls to it that are not inlined early.
inline void prefetch(const void* address) noexcept {
  asm volatile("prefetcht0 %0" ::"m"(*static_cast<const char*>(address)));
}
inline void prefetch_once(const void* address) noexcept {
  asm volatile("prefetchnta %0" ::"m"(*static_cast<const char*>(address)));
}
inline void prefetch_l2(const void* address) noexcept {
  asm volatile("prefetcht1 %0" ::"m"(*static_cast<const char*>(address)));
}
inline void prefetch_for_write(const void* address) noexcept {
  asm volatile("prefetchw %0" ::"m"(*static_cast<const char*>(address)));
}

inline void pause() noexcept { __builtin_ia32_pause(); }
/// Gives the core to another thread, if one waits for it.
inline void yield() noexcept { sched_yield(); }

inline std::uint32_t transaction_begin() noexcept {
  std::uint32_t status = ~0U;
  asm volatile("xbegin 1f\n1:" : "+a"(status)::"memory");
  return status;
}
inline void transaction_commit() noexcept { asm volatile("xend" ::: "memory"); }
inline void transaction_abort() noexcept { asm volatile("xabort $1" ::: "memory"); }

/// The CPU reports RTM and a trial transaction has committed. Cost: a trial at each call.
[[nodiscard]] bool has_transactions() noexcept;

struct FlushSupport {
  bool clflushopt = false;
  bool clwb = false;
};
/// Cost: a CPUID.
[[nodiscard]] FlushSupport flush_support() noexcept;

extern const bool has_membarrier;
inline void light_fence() noexcept {
  if (has_membarrier)
    std::atomic_signal_fence(std::memory_order_seq_cst);
  else
    std::atomic_thread_fence(std::memory_order_seq_cst);
}
void heavy_fence() noexcept;

/// Only a simulator gives slots of its own.
inline constexpr std::size_t no_slot = ~std::size_t{0};
[[nodiscard]] inline std::size_t thread_slot() noexcept { return no_slot; }
/// Cost: no system call.
[[nodiscard]] inline unsigned numa_node() noexcept {
  unsigned cpu = 0;
  unsigned node = 0;
  return getcpu(&cpu, &node) == 0 ? node : 0;
}

/// Tells a simulator of an access that the compiler's hooks cannot see. Nothing here.
inline void note_read(const void*, std::size_t) noexcept {}
inline void note_write(void*, std::size_t) noexcept {}
/// Tells a simulator that [base, base + bytes) is persistent memory, or no longer. Nothing here.
inline void note_persistent(const void*, std::uint64_t, bool, PoolPart) noexcept {}
inline void note_not_persistent(const void*) noexcept {}

}  // namespace perdure::pm::detail::instruction
