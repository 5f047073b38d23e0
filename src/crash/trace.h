// Trace: what a run did to persistent memory, in the order it became visible, and between which
// calls and returns. Everything the explorer judges follows from the first image and this list.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "crash/line.h"

namespace perdure::crash {

struct Event {
  enum class Kind : std::uint8_t {
    store,   ///< at, size, value: within one aligned word
    stream,  ///< at, value: one word
    flush,   ///< at: begin of the line; size: a Persistency::Flush
    fence,   ///< sfence, mfence
    locked,  ///< a locked read-modify-write: a fence to the model, but not the programmer's
    call,    ///< at: number of the operation
    ret,
    run,  ///< from here on `thread` runs
  };
  Kind kind;
  std::uint8_t thread;
  std::uint8_t size;
  std::uint32_t at;  ///< pool offset
  std::uint64_t value;
  const void* pc;
  bool plain = false;  ///< a store that is no atomic access: the compiler may move it
  /// Stores of one number, other than 0, become visible together, and persist so within a line.
  std::uint32_t group = 0;
};
[[nodiscard]] const char* name_of(Event::Kind kind) noexcept;

using Trace = std::vector<Event>;

/// Digest of a trace, without the addresses of code: the same on every machine.
[[nodiscard]] std::uint64_t digest(const Trace& trace) noexcept;

}  // namespace perdure::crash
