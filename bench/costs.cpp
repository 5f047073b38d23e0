#include "costs.h"

#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <cstring>

#include "core/rng.h"
#include "pm/pm.h"

namespace perdure::bench {
namespace {

using Clock = std::chrono::steady_clock;

/// Runs `step(i)` `count` times; ns each.
template <class Step>
double time_each(std::uint64_t count, Step&& step) {
  const auto start = Clock::now();
  for (std::uint64_t i = 0; i < count; ++i) step(i);
  return std::chrono::duration<double, std::nano>(Clock::now() - start).count() /
         static_cast<double>(count);
}

class Memory {
 public:
  Memory(std::uint64_t bytes, bool huge_pages) : bytes_(bytes) {
    void* const mapped =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) return;
    madvise(mapped, bytes, huge_pages ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    std::memset(mapped, 0, bytes);
    words_ = static_cast<std::atomic<std::uint64_t>*>(mapped);
  }
  ~Memory() {
    if (words_ != nullptr) munmap(words_, bytes_);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  /// The first word of the line that `random` chooses.
  std::atomic<std::uint64_t>& line(std::uint64_t random) const {
    return words_[random % (bytes_ / 64) * 8];
  }

 private:
  std::uint64_t bytes_;
  std::atomic<std::uint64_t>* words_ = nullptr;
};

double dependent_miss(const Memory& memory, std::uint64_t& sink) {
  return time_each(2'000'000, [&](std::uint64_t i) {
    // The loaded word is 0, but the core cannot know it before it has come.
    sink = memory.line(mix64(i) + sink).load(std::memory_order_relaxed);
  });
}

}  // namespace

MachineCosts measure_costs(std::uint64_t bytes) {
  MachineCosts costs;
  std::uint64_t sink = 0;
  {
    const Memory small(bytes, false);
    costs.dependent_miss_4k_ns = dependent_miss(small, sink);
  }
  const Memory memory(bytes, true);
  costs.dependent_miss_ns = dependent_miss(memory, sink);
  std::uint64_t sum = 0;
  costs.independent_miss_ns = time_each(4'000'000, [&](std::uint64_t i) {
    sum += memory.line(mix64(~i)).load(std::memory_order_relaxed);
  });
  sink += sum;
  costs.persist_cold_ns = time_each(500'000, [&](std::uint64_t i) {
    auto& word = memory.line(mix64(i + 12345));
    word.store(0, std::memory_order_relaxed);
    pm::persist(&word, 8);
  });
  // Measured directly, not as a difference: cores overlap a load with the fence before it.
  constexpr std::uint64_t cached_bytes = 128 << 10;
  const Memory cached(cached_bytes, false);
  costs.persist_warm_ns =
      time_each(500'000, [&](std::uint64_t i) { pm::store_persist(cached.line(i), i); });
  return costs;
}

}  // namespace perdure::bench
