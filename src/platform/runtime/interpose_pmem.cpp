// libpmem's functions, as libpmemobj calls them: the program exports these, and the dynamic linker
// prefers them. So the traffic of PMDK takes time, at the granularity of its flushes; what it
// stores without them is trusted (the guard takes a flushed range as it is).
//
// The choice between streaming and storing follows libpmem: streaming from 256 bytes on, unless a
// flag says otherwise.
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "platform/runtime/engine.h"
#include "platform/runtime/observer.h"
#include "pm/persist.h"

namespace {

using perdure::platform::Observer;
using perdure::platform::runtime::current;
using perdure::platform::runtime::engine;
namespace instruction = perdure::pm::detail::instruction;

constexpr unsigned no_drain_flag = 1U << 0;
constexpr unsigned nontemporal_flag = 1U << 1;
constexpr unsigned temporal_flag = 1U << 2;
constexpr unsigned write_back_flag = 1U << 3;
constexpr unsigned write_combining_flag = 1U << 4;
constexpr unsigned no_flush_flag = 1U << 5;
constexpr std::size_t streaming_threshold_bytes = 256;

void flush(const void* address, std::size_t bytes, const void* pc) {
  if (Observer* const observer = Observer::installed())
    return observer->foreign_flush(address, bytes, pc);
  if (engine.guarded) engine.guard.accept(address, bytes);
  perdure::pm::flush(address, bytes);
}

void fence(const void* pc) {
  if (Observer* const observer = Observer::installed()) return observer->foreign_fence(pc);
  perdure::pm::fence();
}

bool streams(std::size_t bytes, unsigned flags) {
  if ((flags & (nontemporal_flag | write_combining_flag)) != 0) return true;
  if ((flags & (temporal_flag | write_back_flag | no_flush_flag)) != 0) return false;
  return bytes >= streaming_threshold_bytes;
}

// The machine's part of writing [to, to + bytes); the bytes themselves are written after it.
void write(void* to, std::size_t bytes, unsigned flags) {
  if (current == nullptr || !engine.timed) return;
  auto* at = static_cast<std::byte*>(to);
  if (!streams(bytes, flags)) {
    engine.store(*current, at, bytes, __builtin_return_address(0));
    return;
  }
  while (bytes != 0) {
    const std::size_t room = 64 - reinterpret_cast<std::uintptr_t>(at) % 64;
    const std::size_t piece = bytes < room ? bytes : room;
    engine.order(*current);
    engine.machine->stream(current->number, engine.space.translate(at),
                           static_cast<unsigned>(piece));
    engine.read_clock(*current);
    at += piece;
    bytes -= piece;
  }
}

// An observer takes what was streamed for stored and flushed.
void finish(void* to, std::size_t bytes, unsigned flags, const void* pc) {
  const bool streamed = streams(bytes, flags) && Observer::installed() == nullptr;
  if (engine.guarded) engine.guard.accept(to, bytes);
  if ((flags & no_flush_flag) == 0 && !streamed) flush(to, bytes, pc);
  if ((flags & (no_drain_flag | no_flush_flag)) == 0) fence(pc);
}

void persist(const void* address, std::size_t bytes, const void* pc) {
  flush(address, bytes, pc);
  fence(pc);
}

void* move(void* to, const void* from, std::size_t bytes, unsigned flags, const void* pc);
void* set(void* to, int value, std::size_t bytes, unsigned flags, const void* pc);

}  // namespace

extern "C" {

void* __real_memmove(void* to, const void* from, std::size_t bytes) noexcept;
void* __real_memset(void* to, int value, std::size_t bytes) noexcept;

void pmem_flush(const void* address, std::size_t bytes) {
  flush(address, bytes, __builtin_return_address(0));
}
void pmem_deep_flush(const void* address, std::size_t bytes) {
  flush(address, bytes, __builtin_return_address(0));
}
void pmem_drain(void) { fence(__builtin_return_address(0)); }
int pmem_deep_drain(const void*, std::size_t) {
  fence(__builtin_return_address(0));
  return 0;
}
void pmem_persist(const void* address, std::size_t bytes) {
  persist(address, bytes, __builtin_return_address(0));
}
int pmem_deep_persist(const void* address, std::size_t bytes) {
  persist(address, bytes, __builtin_return_address(0));
  return 0;
}
int pmem_has_hw_drain(void) { return 0; }

void* pmem_memmove(void* to, const void* from, std::size_t bytes, unsigned flags) {
  return move(to, from, bytes, flags, __builtin_return_address(0));
}
void* pmem_memcpy(void* to, const void* from, std::size_t bytes, unsigned flags) {
  return move(to, from, bytes, flags, __builtin_return_address(0));
}
void* pmem_memset(void* to, int value, std::size_t bytes, unsigned flags) {
  return set(to, value, bytes, flags, __builtin_return_address(0));
}
void* pmem_memmove_persist(void* to, const void* from, std::size_t bytes) {
  return move(to, from, bytes, 0, __builtin_return_address(0));
}
void* pmem_memcpy_persist(void* to, const void* from, std::size_t bytes) {
  return move(to, from, bytes, 0, __builtin_return_address(0));
}
void* pmem_memset_persist(void* to, int value, std::size_t bytes) {
  return set(to, value, bytes, 0, __builtin_return_address(0));
}
void* pmem_memmove_nodrain(void* to, const void* from, std::size_t bytes) {
  return move(to, from, bytes, no_drain_flag, __builtin_return_address(0));
}
void* pmem_memcpy_nodrain(void* to, const void* from, std::size_t bytes) {
  return move(to, from, bytes, no_drain_flag, __builtin_return_address(0));
}
void* pmem_memset_nodrain(void* to, int value, std::size_t bytes) {
  return set(to, value, bytes, no_drain_flag, __builtin_return_address(0));
}
}

namespace {

void* move(void* to, const void* from, std::size_t bytes, unsigned flags, const void* pc) {
  if (current != nullptr && bytes != 0) engine.load(*current, from, bytes);
  write(to, bytes, flags);
  __real_memmove(to, from, bytes);
  finish(to, bytes, flags, pc);
  return to;
}

void* set(void* to, int value, std::size_t bytes, unsigned flags, const void* pc) {
  write(to, bytes, flags);
  __real_memset(to, value, bytes);
  finish(to, bytes, flags, pc);
  return to;
}

}  // namespace
