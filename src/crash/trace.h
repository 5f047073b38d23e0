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

[[nodiscard]] inline bool is_store(const Event& event) noexcept {
  return event.kind == Event::Kind::store || event.kind == Event::Kind::stream;
}
/// Also a locked instruction.
[[nodiscard]] inline bool is_fence(const Event& event) noexcept {
  return event.kind == Event::Kind::fence || event.kind == Event::Kind::locked;
}
[[nodiscard]] inline bool is_call_or_return(const Event& event) noexcept {
  return event.kind == Event::Kind::call || event.kind == Event::Kind::ret;
}

using Trace = std::vector<Event>;

/// The operations that are called in [from, to) of a trace, in this order.
[[nodiscard]] std::vector<std::uint32_t> called_in(const Trace& trace, std::size_t from,
                                                   std::size_t to);

/// Digest of a trace, without the addresses of code: the same on every machine.
[[nodiscard]] std::uint64_t digest(const Trace& trace) noexcept;

}  // namespace perdure::crash
