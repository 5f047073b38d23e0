// NumberEpochs: numbers (of nodes) are free again only when no thread can still read what they
// name. No operation waits: a thread that stays pinned keeps numbers from becoming free, nothing
// else.
//
// N1  a pinned thread announces the epoch by an exchange before its first load of what is shared.
// It
//     may announce an older epoch than the present one.
// N2  the epoch goes from e to e + 1 only when every thread that is pinned has announced e.
// N3  what is retired in epoch r (read after it was unlinked) is freed in epoch r + 2 or later:
//     whoever may hold it was pinned before it was unlinked, so has announced r or less, and keeps
//     the epoch from r + 2.
// N4  limbo list r mod 4 is emptied only by a thread that is pinned and has seen epoch r + 2, and
// so
//     keeps the epoch from r + 4, in which the list is used again.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "core/assert.h"
#include "pm/thread.h"

namespace perdure::lockfree {

class NumberEpochs {
 public:
  explicit NumberEpochs(std::uint64_t numbers)
      : next_(std::make_unique<std::atomic<std::uint32_t>[]>(numbers)) {
    for (Limbo& limbo : limbo_) limbo.first.store(none, std::memory_order_relaxed);
  }

  class Guard {
   public:
    explicit Guard(NumberEpochs& epochs) noexcept : slot_(epochs.pin()) {}
    ~Guard() { slot_.store(idle, std::memory_order_release); }
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

   private:
    std::atomic<std::uint64_t>& slot_;
  };

  /// The caller is pinned and has unlinked `number`.
  void retire(std::uint32_t number) noexcept {
    Limbo& limbo = limbo_[epoch_.load() % limbo_.size()];
    std::uint32_t first = limbo.first.load(std::memory_order_relaxed);
    do {
      next_[number].store(first, std::memory_order_relaxed);
    } while (!limbo.first.compare_exchange_weak(first, number));
  }

  /// Moves on by an epoch if no thread holds it up, and gives what is then free to `free(number)`.
  /// The caller is pinned. Cost: a look at each thread's slot.
  template <class Free>
  void advance(Free&& free) noexcept {
    std::uint64_t epoch = epoch_.load();
    const std::uint64_t most = most_slots_.load();
    for (std::uint64_t i = 0; i < most; ++i) {
      const std::uint64_t announced = slot_[i].epoch.load();
      if (announced != idle && announced != epoch) return;
    }
    if (!epoch_.compare_exchange_strong(epoch, epoch + 1)) return;
    // Of epoch - 1: the caller has announced `epoch`, so N4 holds.
    std::uint32_t number = limbo_[(epoch - 1) % limbo_.size()].first.exchange(none);
    while (number != none) {
      const std::uint32_t next = next_[number].load(std::memory_order_relaxed);
      free(number);
      number = next;
    }
  }

  /// What is retired. No other operation may run.
  template <class Visit>
  void for_each(Visit&& visit) const {
    for (const Limbo& limbo : limbo_)
      for (std::uint32_t number = limbo.first.load(); number != none; number = next_[number].load())
        visit(number);
  }
  [[nodiscard]] static constexpr std::uint64_t dram_bytes(std::uint64_t numbers) noexcept {
    return numbers * sizeof(std::uint32_t) + sizeof(NumberEpochs);
  }

 private:
  static constexpr std::uint64_t idle = 0;
  static constexpr std::uint32_t none = ~std::uint32_t{0};
  struct alignas(64) Slot {
    std::atomic<std::uint64_t> epoch{idle};
  };
  struct alignas(64) Limbo {
    std::atomic<std::uint32_t> first;
  };

  [[nodiscard]] std::atomic<std::uint64_t>& pin() noexcept {
    const std::size_t thread = pm::thread_slot();
    std::uint64_t most = most_slots_.load(std::memory_order_relaxed);
    while (most <= thread && !most_slots_.compare_exchange_weak(most, thread + 1)) {
    }
    std::atomic<std::uint64_t>& mine = slot_[thread].epoch;
    PERDURE_ASSERT(mine.load(std::memory_order_relaxed) == idle);
    mine.exchange(epoch_.load());  // N1
    return mine;
  }

  std::unique_ptr<std::atomic<std::uint32_t>[]> next_;  ///< in a limbo list
  alignas(64) std::atomic<std::uint64_t> epoch_{2};
  alignas(64) std::atomic<std::uint64_t> most_slots_{0};  ///< threads' slots are below
  std::array<Limbo, 4> limbo_;
  std::array<Slot, pm::max_threads> slot_;
};

}  // namespace perdure::lockfree
