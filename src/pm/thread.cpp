#include "pm/thread.h"

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>

namespace perdure::pm {
namespace {

std::array<std::atomic<bool>, max_threads> taken;

struct Slot {
  std::size_t number;
  Slot() : number(0) {
    for (; number < max_threads; ++number)
      if (!taken[number].exchange(true, std::memory_order_acquire)) return;
    std::fprintf(stderr, "perdure: more than %zu threads use persistent memory at once\n",
                 max_threads);
    std::abort();
  }
  ~Slot() { taken[number].store(false, std::memory_order_release); }
  Slot(const Slot&) = delete;
  Slot& operator=(const Slot&) = delete;
};

}  // namespace

namespace detail {
thread_local constinit std::size_t slot_of_thread = slot_not_taken;

std::size_t take_thread_slot() noexcept {
  thread_local const Slot slot;
  return slot_of_thread = slot.number;
}
}  // namespace detail

unsigned numa_node() noexcept { return detail::instruction::numa_node(); }

}  // namespace perdure::pm
