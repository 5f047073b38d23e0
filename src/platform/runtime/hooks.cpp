// The entry points that g++ -fsanitize=thread calls before plain accesses and around functions.
// They are named after ThreadSanitizer's, whose library is not linked.
#include <cstddef>
#include <cstdint>

#include "platform/runtime/engine.h"
#include "platform/runtime/outside.h"

namespace perdure::platform::runtime {
namespace {

// The test comes before all else, and what it lets pass is a call of its own, because a hook that
// has nothing to tell should have no frame.
template <std::size_t bytes>
[[gnu::noinline]] void tell_read(const void* address, const void* pc) {
  SimulatedThread* const thread = current;
  if (thread != nullptr) [[likely]]
    engine.load(*thread, address, bytes);
  else
    read_outside(address, bytes, pc);
}

template <std::size_t bytes>
[[gnu::noinline]] void tell_write(const void* address, const void* pc) {
  SimulatedThread* const thread = current;
  if (thread != nullptr) [[likely]]
    engine.store(*thread, address, bytes, pc);
  else
    write_outside(address, bytes, pc);
}

[[gnu::noinline]] void leave_function() {
  // A helper thread may end here: its last store must not be forgotten with it.
  if (engine.guarded) engine.guard.settle();
  if (engine.profiled && current != nullptr) engine.profile.leave(*current);
}

template <std::size_t bytes, bool aligned = true>
[[gnu::always_inline]] inline void read(const void* address) {
  if (Observer::is_hooked(address) && !Observer::is_quiet<aligned>(address, bytes))
    tell_read<bytes>(address, __builtin_return_address(0));
}

template <std::size_t bytes>
[[gnu::always_inline]] inline void write(const void* address) {
  if (Observer::is_hooked(address)) tell_write<bytes>(address, __builtin_return_address(0));
}

}  // namespace
}  // namespace perdure::platform::runtime

using perdure::platform::Observer;
using perdure::platform::runtime::current;
using perdure::platform::runtime::engine;
using perdure::platform::runtime::read;
using perdure::platform::runtime::read_outside;
using perdure::platform::runtime::write;
using perdure::platform::runtime::write_outside;

extern "C" {

void __tsan_init() {}
// What code tells a race detector of orders it cannot see.
void __tsan_acquire(void*) {}
void __tsan_release(void*) {}

void __tsan_read1(void* a) { read<1>(a); }
void __tsan_read2(void* a) { read<2>(a); }
void __tsan_read4(void* a) { read<4>(a); }
void __tsan_read8(void* a) { read<8>(a); }
void __tsan_read16(void* a) { read<16>(a); }
void __tsan_write1(void* a) { write<1>(a); }
void __tsan_write2(void* a) { write<2>(a); }
void __tsan_write4(void* a) { write<4>(a); }
void __tsan_write8(void* a) { write<8>(a); }
void __tsan_write16(void* a) { write<16>(a); }

void __tsan_unaligned_read2(void* a) { read<2, false>(a); }
void __tsan_unaligned_read4(void* a) { read<4, false>(a); }
void __tsan_unaligned_read8(void* a) { read<8, false>(a); }
void __tsan_unaligned_read16(void* a) { read<16, false>(a); }
void __tsan_unaligned_write2(void* a) { write<2>(a); }
void __tsan_unaligned_write4(void* a) { write<4>(a); }
void __tsan_unaligned_write8(void* a) { write<8>(a); }
void __tsan_unaligned_write16(void* a) { write<16>(a); }

void __tsan_volatile_read1(void* a) { read<1>(a); }
void __tsan_volatile_read2(void* a) { read<2>(a); }
void __tsan_volatile_read4(void* a) { read<4>(a); }
void __tsan_volatile_read8(void* a) { read<8>(a); }
void __tsan_volatile_read16(void* a) { read<16>(a); }
void __tsan_volatile_write1(void* a) { write<1>(a); }
void __tsan_volatile_write2(void* a) { write<2>(a); }
void __tsan_volatile_write4(void* a) { write<4>(a); }
void __tsan_volatile_write8(void* a) { write<8>(a); }
void __tsan_volatile_write16(void* a) { write<16>(a); }
void __tsan_unaligned_volatile_read2(void* a) { read<2, false>(a); }
void __tsan_unaligned_volatile_read4(void* a) { read<4, false>(a); }
void __tsan_unaligned_volatile_read8(void* a) { read<8, false>(a); }
void __tsan_unaligned_volatile_read16(void* a) { read<16, false>(a); }
void __tsan_unaligned_volatile_write2(void* a) { write<2>(a); }
void __tsan_unaligned_volatile_write4(void* a) { write<4>(a); }
void __tsan_unaligned_volatile_write8(void* a) { write<8>(a); }
void __tsan_unaligned_volatile_write16(void* a) { write<16>(a); }
}

extern "C" {

void __tsan_read_range(void* a, unsigned long bytes) {
  if (!Observer::is_hooked(a)) return;
  if (current != nullptr)
    engine.load(*current, a, bytes);
  else
    read_outside(a, bytes, __builtin_return_address(0));
}
void __tsan_write_range(void* a, unsigned long bytes) {
  if (!Observer::is_hooked(a)) return;
  if (current != nullptr)
    engine.store(*current, a, bytes, __builtin_return_address(0));
  else
    write_outside(a, bytes, __builtin_return_address(0));
}
void __tsan_vptr_update(void** a, void*) { write<sizeof *a>(a); }
void __tsan_vptr_read(void** a) { read<sizeof *a>(a); }

void __tsan_func_entry(void*) {
  if (!engine.profiled) [[likely]]
    return;
  if (current != nullptr) engine.profile.enter(*current, __builtin_return_address(0));
}

void __tsan_func_exit() {
  if (engine.guarded || engine.profiled) [[unlikely]]
    perdure::platform::runtime::leave_function();
}
}
