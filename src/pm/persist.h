// Durability: flush, fence, persist, streaming stores. The price of each is one predictable branch
// besides the instruction itself.
//
// Three settings, chosen once at start-up (`configure`):
//   adr   stores become durable when their line is flushed and a later fence retires (Px86).
//   eadr  visible means durable: flushes vanish, fences stay, because a store still in the store
//         buffer is lost.
//   none  no flush, no fence: DRAM figures. Compiler order is kept.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/result.h"
#include "pm/instructions.h"

namespace perdure::pm {

inline constexpr std::size_t cache_line_bytes = 64;
inline constexpr std::size_t media_block_bytes = 256;  ///< XPLine of Optane DCPMM

enum class Durability : std::uint8_t { adr, eadr, none };
enum class FlushInstruction : std::uint8_t { none, clflush, clflushopt, clwb };

/// What the process runs with; read in every flush, written only by `configure`.
struct PersistMode {
  Durability durability = Durability::adr;
  FlushInstruction flush = FlushInstruction::clflush;  ///< safe before `configure` has run
};

namespace detail {
extern PersistMode mode;
}  // namespace detail

/// The best flush instruction this CPU has. Cost: a CPUID, cached.
[[nodiscard]] FlushInstruction detect_flush_instruction() noexcept;

/// Sets durability for the process and picks the flush instruction. Call before any pool is used
/// and never while another thread works.
void configure(Durability durability) noexcept;
/// The same with a given instruction, for measuring one against another.
/// Errors: `unsupported` when the CPU lacks it.
Result<void> configure(Durability durability, FlushInstruction flush);

[[nodiscard]] PersistMode persist_mode() noexcept;
[[nodiscard]] const char* name_of(Durability durability) noexcept;
[[nodiscard]] const char* name_of(FlushInstruction instruction) noexcept;

namespace detail {
inline void flush_line(const std::byte* line) noexcept {
  switch (mode.flush) {
    case FlushInstruction::clwb:
      instruction::clwb(line);
      break;
    case FlushInstruction::clflushopt:
      instruction::clflushopt(line);
      break;
    case FlushInstruction::clflush:
      instruction::clflush(line);
      break;
    case FlushInstruction::none:
      break;
  }
}
}  // namespace detail

/// Starts write-back of every line that [address, address + bytes) touches; durable after `fence`.
/// Cost: one flush a line under adr; nothing under eadr and none.
inline void flush(const void* address, std::size_t bytes) noexcept {
  asm volatile("" ::: "memory");  // the stores stay before the flush in every mode
  if (detail::mode.flush == FlushInstruction::none) return;
  const auto begin = reinterpret_cast<std::uintptr_t>(address);
  auto line = begin & ~(cache_line_bytes - 1);
  const auto end = begin + bytes;
  for (; line < end; line += cache_line_bytes)
    detail::flush_line(reinterpret_cast<const std::byte*>(line));
}

/// Orders every earlier flush and streaming store of this thread before all later stores.
/// Cost: one sfence under adr and eadr.
inline void fence() noexcept {
  if (detail::mode.durability == Durability::none)
    asm volatile("" ::: "memory");
  else
    detail::instruction::store_fence();
}

/// flush + fence.
inline void persist(const void* address, std::size_t bytes) noexcept {
  flush(address, bytes);
  fence();
}

/// Stores an aligned 8-byte word (failure-atomic), then flushes and fences it.
/// Cost: 1 flushed line, 1 fence.
inline void store_persist(std::atomic<std::uint64_t>& word, std::uint64_t value) noexcept {
  word.store(value, std::memory_order_release);
  asm volatile("" ::: "memory");
  const auto at = reinterpret_cast<std::uintptr_t>(&word);  // aligned, so in one line
  detail::flush_line(reinterpret_cast<const std::byte*>(at & ~(cache_line_bytes - 1)));
  fence();
}

/// Streams `bytes` from `source` to `destination` past the caches (that one 8-byte aligned, bytes a
/// multiple of 8): unordered 8-byte pieces until the next fence. A plain copy under `none`.
void stream(void* destination, const void* source, std::size_t bytes) noexcept;

/// Says that [base, base + bytes) is persistent memory: whoever maps a pool calls it, so that a
/// simulated machine knows. `foreign_writes`: a library that is not ours stores there too. `part`:
/// of the parts of a pool, which are told from the last to the first, because pointers on media
/// count from what is told last.
inline void note_persistent(const void* base, std::uint64_t bytes, bool foreign_writes,
                            PoolPart part = {}) noexcept {
  detail::instruction::note_persistent(base, bytes, foreign_writes, part);
}
/// Takes it back, before the memory is unmapped.
inline void note_not_persistent(const void* base) noexcept {
  detail::instruction::note_not_persistent(base);
}

}  // namespace perdure::pm
