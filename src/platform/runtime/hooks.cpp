// The entry points that g++ -fsanitize=thread calls before plain accesses and around functions.
// They are named after ThreadSanitizer's, whose library is not linked.
#include <cstddef>
#include <cstdint>

#include "platform/runtime/engine.h"
#include "platform/runtime/outside.h"

namespace perdure::platform::runtime {
namespace {

[[gnu::always_inline]] inline void read(const void* address, std::size_t bytes) {
  SimulatedThread* const thread = current;
  if (thread != nullptr) [[likely]]
    engine.load(*thread, address, bytes);
  else
    read_outside(address, bytes, __builtin_return_address(0));
}

[[gnu::always_inline]] inline void write(const void* address, std::size_t bytes) {
  SimulatedThread* const thread = current;
  if (thread != nullptr) [[likely]]
    engine.store(*thread, address, bytes, __builtin_return_address(0));
  else
    write_outside(address, bytes, __builtin_return_address(0));
}

}  // namespace
}  // namespace perdure::platform::runtime

using perdure::platform::runtime::current;
using perdure::platform::runtime::engine;
using perdure::platform::runtime::read;
using perdure::platform::runtime::write;

extern "C" {

void __tsan_init() {}
// What code tells a race detector of orders it cannot see.
void __tsan_acquire(void*) {}
void __tsan_release(void*) {}

void __tsan_read1(void* a) { read(a, 1); }
void __tsan_read2(void* a) { read(a, 2); }
void __tsan_read4(void* a) { read(a, 4); }
void __tsan_read8(void* a) { read(a, 8); }
void __tsan_read16(void* a) { read(a, 16); }
void __tsan_write1(void* a) { write(a, 1); }
void __tsan_write2(void* a) { write(a, 2); }
void __tsan_write4(void* a) { write(a, 4); }
void __tsan_write8(void* a) { write(a, 8); }
void __tsan_write16(void* a) { write(a, 16); }

void __tsan_unaligned_read2(void* a) { read(a, 2); }
void __tsan_unaligned_read4(void* a) { read(a, 4); }
void __tsan_unaligned_read8(void* a) { read(a, 8); }
void __tsan_unaligned_read16(void* a) { read(a, 16); }
void __tsan_unaligned_write2(void* a) { write(a, 2); }
void __tsan_unaligned_write4(void* a) { write(a, 4); }
void __tsan_unaligned_write8(void* a) { write(a, 8); }
void __tsan_unaligned_write16(void* a) { write(a, 16); }

void __tsan_volatile_read1(void* a) { read(a, 1); }
void __tsan_volatile_read2(void* a) { read(a, 2); }
void __tsan_volatile_read4(void* a) { read(a, 4); }
void __tsan_volatile_read8(void* a) { read(a, 8); }
void __tsan_volatile_read16(void* a) { read(a, 16); }
void __tsan_volatile_write1(void* a) { write(a, 1); }
void __tsan_volatile_write2(void* a) { write(a, 2); }
void __tsan_volatile_write4(void* a) { write(a, 4); }
void __tsan_volatile_write8(void* a) { write(a, 8); }
void __tsan_volatile_write16(void* a) { write(a, 16); }
void __tsan_unaligned_volatile_read2(void* a) { read(a, 2); }
void __tsan_unaligned_volatile_read4(void* a) { read(a, 4); }
void __tsan_unaligned_volatile_read8(void* a) { read(a, 8); }
void __tsan_unaligned_volatile_read16(void* a) { read(a, 16); }
void __tsan_unaligned_volatile_write2(void* a) { write(a, 2); }
void __tsan_unaligned_volatile_write4(void* a) { write(a, 4); }
void __tsan_unaligned_volatile_write8(void* a) { write(a, 8); }
void __tsan_unaligned_volatile_write16(void* a) { write(a, 16); }

void __tsan_read_range(void* a, unsigned long bytes) { read(a, bytes); }
void __tsan_write_range(void* a, unsigned long bytes) { write(a, bytes); }
void __tsan_vptr_update(void** a, void*) { write(a, sizeof *a); }
void __tsan_vptr_read(void** a) { read(a, sizeof *a); }

void __tsan_func_entry(void*) {
  if (!engine.profiled) [[likely]]
    return;
  if (current != nullptr) engine.profile.enter(*current, __builtin_return_address(0));
}

void __tsan_func_exit() {
  // A helper thread may end here: its last store must not be forgotten with it.
  if (engine.guarded) [[unlikely]]
    engine.guard.settle();
  if (engine.profiled && current != nullptr) [[unlikely]]
    engine.profile.leave(*current);
}
}
