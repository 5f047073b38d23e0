// The entry points of g++ -fsanitize=thread for atomic operations. Unlike those of plain accesses
// they carry the operation out, too.
//
// On x86 a sequentially consistent store is a locked exchange, and loads are plain ones, whatever
// their order: a thread that polls reaches shared parts when somebody else has written.
#include <cstddef>
#include <cstdint>

#include "platform/runtime/engine.h"
#include "platform/runtime/outside.h"

namespace {

using perdure::platform::Observer;
using perdure::platform::runtime::atomic_outside;
using perdure::platform::runtime::current;
using perdure::platform::runtime::engine;

using Word8 = std::uint8_t;
using Word16 = std::uint16_t;
using Word32 = std::uint32_t;
using Word64 = std::uint64_t;
__extension__ using Word128 = unsigned __int128;

constexpr int sequentially_consistent = __ATOMIC_SEQ_CST;

void tell_load(const void* address, std::size_t bytes, const void* pc) {
  if (current != nullptr) {
    if (!engine.timed) engine.poll_untimed(*current);
    engine.load(*current, address, bytes);
  } else {
    atomic_outside(address, bytes, Observer::Atomic::load, pc);
  }
}

void tell_store(const void* address, std::size_t bytes, bool locked, const void* pc) {
  if (current == nullptr)
    atomic_outside(address, bytes, locked ? Observer::Atomic::update : Observer::Atomic::store, pc);
  else if (locked)
    engine.locked(*current, address, bytes, pc);
  else
    engine.store(*current, address, bytes, pc);
}

// As in hooks.cpp, who has something to tell ends in another function.
template <class Word>
[[gnu::noinline]] Word told_load(const volatile Word* at, const void* pc) {
  tell_load(const_cast<const Word*>(at), sizeof *at, pc);
  return __atomic_load_n(at, __ATOMIC_SEQ_CST);
}

template <class Word>
[[gnu::noinline]] void told_store(volatile Word* at, Word value, bool locked, const void* pc) {
  tell_store(const_cast<Word*>(at), sizeof *at, locked, pc);
  __atomic_store_n(at, value, __ATOMIC_RELEASE);
}

// Always with the strongest order: watchers on other threads look on.
template <class Word>
[[gnu::always_inline]] inline Word load(const volatile Word* at) {
  const auto* const address = const_cast<const Word*>(at);
  if (Observer::is_hooked_atomic(address) && !Observer::is_quiet<true>(address, sizeof *at))
    return told_load(at, __builtin_return_address(0));
  return __atomic_load_n(at, __ATOMIC_SEQ_CST);
}

template <class Word>
[[gnu::always_inline]] inline void store(volatile Word* at, Word value, int order) {
  if (Observer::is_hooked_atomic(const_cast<Word*>(at))) [[likely]]
    return told_store(at, value, order == sequentially_consistent, __builtin_return_address(0));
  __atomic_store_n(at, value, __ATOMIC_RELEASE);
}

template <class Word>
[[gnu::always_inline]] inline void before_update(volatile Word* at) {
  if (Observer::is_hooked_atomic(const_cast<Word*>(at)))
    tell_store(const_cast<Word*>(at), sizeof *at, true, __builtin_return_address(0));
}

template <class Word>
[[gnu::always_inline]] inline bool compare_exchange(volatile Word* at, Word* expected,
                                                    Word desired) {
  before_update(at);
  return __atomic_compare_exchange_n(at, expected, desired, false, __ATOMIC_SEQ_CST,
                                     __ATOMIC_SEQ_CST);
}

}  // namespace

#define PERDURE_ATOMIC_UPDATE(bits, name, builtin)                                          \
  Word##bits __tsan_atomic##bits##_##name(volatile Word##bits* at, Word##bits value, int) { \
    before_update(at);                                                                      \
    return builtin(at, value, __ATOMIC_SEQ_CST);                                            \
  }
#define PERDURE_ATOMICS(bits)                                                                      \
  Word##bits __tsan_atomic##bits##_load(const volatile Word##bits* at, int) { return load(at); }   \
  void __tsan_atomic##bits##_store(volatile Word##bits* at, Word##bits value, int order) {         \
    store(at, value, order);                                                                       \
  }                                                                                                \
  PERDURE_ATOMIC_UPDATE(bits, exchange, __atomic_exchange_n)                                       \
  PERDURE_ATOMIC_UPDATE(bits, fetch_add, __atomic_fetch_add)                                       \
  PERDURE_ATOMIC_UPDATE(bits, fetch_sub, __atomic_fetch_sub)                                       \
  PERDURE_ATOMIC_UPDATE(bits, fetch_and, __atomic_fetch_and)                                       \
  PERDURE_ATOMIC_UPDATE(bits, fetch_or, __atomic_fetch_or)                                         \
  PERDURE_ATOMIC_UPDATE(bits, fetch_xor, __atomic_fetch_xor)                                       \
  PERDURE_ATOMIC_UPDATE(bits, fetch_nand, __atomic_fetch_nand)                                     \
  int __tsan_atomic##bits##_compare_exchange_strong(volatile Word##bits* at, Word##bits* expected, \
                                                    Word##bits desired, int, int) {                \
    return compare_exchange(at, expected, desired);                                                \
  }                                                                                                \
  int __tsan_atomic##bits##_compare_exchange_weak(volatile Word##bits* at, Word##bits* expected,   \
                                                  Word##bits desired, int, int) {                  \
    return compare_exchange(at, expected, desired);                                                \
  }

extern "C" {

PERDURE_ATOMICS(8)
PERDURE_ATOMICS(16)
PERDURE_ATOMICS(32)
PERDURE_ATOMICS(64)

void __tsan_atomic_thread_fence(int order) {
  if (order == sequentially_consistent) {
    if (Observer* const observer = Observer::installed()) {
      observer->fence(__builtin_return_address(0));
    } else if (current != nullptr && engine.timed) {
      engine.machine->full_fence(current->number);
      engine.read_clock(*current);
    }
  }
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
void __tsan_atomic_signal_fence(int) { __atomic_signal_fence(__ATOMIC_SEQ_CST); }
}
