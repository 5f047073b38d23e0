// Intents: what each thread is about to do, two lines for each, in turn.
//
//   byte 0       8    16        24       32    40          48     64
//        | state | id | version | record | old | checksum  | zero |
//   state: 0, or bit 63 | operation << 32 | CRC-32C of bytes 8 .. 48
//
// I1  an intent is committed when the line and the record are durable: both are flushed before one
//     fence, and recovery believes it only if the record agrees with its checksum, id and version,
//     and that checksum with the intent's: a write that found no room may have left a record in the
//     same place, and what comes next has its id and version.
// I2  stores to one line become durable in their order. The state is zeroed before the rest changes
//     and set after it, so a state that is not zero belongs to what is beside it.
// I3  a line is used again only after the fence of the write between, which has flushed the word of
//     the table that the intent was for.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "engine/store/record.h"
#include "pm/pm.h"

namespace perdure::engine {

enum class Operation : std::uint8_t { none, write, remove };

struct Intent {
  std::atomic<std::uint64_t> state;
  std::uint64_t id;
  std::uint64_t version;
  std::uint64_t record;    ///< offset of the new record; of a removal null
  std::uint64_t old;       ///< offset of the record before; null: there was none
  std::uint64_t checksum;  ///< of the new record; of a removal 0
  std::array<std::uint64_t, 2> zero;

  /// What it says, without the state.
  struct Terms {
    std::uint64_t id;
    std::uint64_t version;
    std::uint64_t record;
    std::uint64_t old;
    std::uint64_t checksum;
  };
  void write(Operation operation, const Terms& terms) noexcept {
    state.store(0, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);  // I2, for the compiler
    id = terms.id;
    version = terms.version;
    record = terms.record;
    old = terms.old;
    checksum = terms.checksum;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    state.store(state_of(operation, terms), std::memory_order_release);
    pm::flush(this, sizeof *this);
  }
  /// Durable after the next fence.
  void clear() noexcept {
    state.store(0, std::memory_order_relaxed);
    pm::flush(this, sizeof *this);
  }
  [[nodiscard]] Terms terms() const noexcept { return {id, version, record, old, checksum}; }
  /// `none` where there is none, or a damaged one.
  [[nodiscard]] Operation operation() const noexcept {
    const std::uint64_t now = state.load(std::memory_order_relaxed);
    for (const Operation operation : {Operation::write, Operation::remove})
      if (now == state_of(operation, terms())) return operation;
    return Operation::none;
  }

 private:
  [[nodiscard]] static std::uint64_t state_of(Operation operation, const Terms& terms) noexcept {
    return std::uint64_t{1} << 63 | std::uint64_t{static_cast<std::uint8_t>(operation)} << 32 |
           extend_crc(0, {reinterpret_cast<const char*>(&terms), sizeof terms});
  }
};
static_assert(sizeof(Intent) == pm::cache_line_bytes);
static_assert(offsetof(Intent, version) == 16 && offsetof(Intent, checksum) == 40);

/// Of one thread slot.
using IntentPair = std::array<Intent, 2>;

}  // namespace perdure::engine
