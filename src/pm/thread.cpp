#include "pm/thread.h"

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>

#include "pm/instructions.h"

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

std::size_t thread_slot() noexcept {
  if constexpr (detail::instruction::simulated) {
    const std::size_t simulated = detail::instruction::thread_slot();
    if (simulated != detail::instruction::no_slot) return simulated;
  }
  // A load instead of a call: every operation asks several times.
  [[gnu::tls_model("initial-exec")]] thread_local const Slot slot;
  return slot.number;
}

unsigned numa_node() noexcept { return detail::instruction::numa_node(); }

}  // namespace perdure::pm
