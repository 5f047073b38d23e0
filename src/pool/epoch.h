// Epochs: memory is freed only when no thread can still read it.
//
// A thread pins the current epoch for the length of an operation (`Guard`). A block is retired in
// the epoch e that its thread has pinned, and freed once the global epoch has come to e + 3:
//   a reader pinned at e or e + 1 may still have found the block;
//   e + 2 is reached only after the retiring thread has unpinned, so whoever pins then sees it
//   unlinked without any fence in `retire`;
//   e + 3 is reached only after every reader pinned at e + 1 or before has unpinned.
//
// E1  a pinned slot holds the global epoch or the one before.
// E2  the global epoch advances only when every pinned slot holds it.
// E3  a block retired at e is freed only when the global epoch is at least e + 3.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/assert.h"
#include "pm/asymmetric_fence.h"
#include "pm/thread.h"

namespace perdure {

class Heap;

class Epochs {
 public:
  /// What to call for a retired object, which is an address: `destroy(context, object, bytes)`.
  using Destroy = void (*)(void* context, std::uint64_t object, std::size_t bytes);

  Epochs();
  /// Frees everything still retired; no thread may be pinned.
  ~Epochs();
  Epochs(const Epochs&) = delete;
  Epochs& operator=(const Epochs&) = delete;

  /// Pins this thread for its lifetime. Not reentrant within one Epochs. Cost: one store, no
  /// fence (asymmetric_fence.h).
  class Guard {
   public:
    [[gnu::always_inline]] explicit Guard(Epochs& epochs) noexcept : slot_(epochs.pin()) {}
    ~Guard() { slot_.store(idle, std::memory_order_release); }
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

   private:
    std::atomic<std::uint64_t>& slot_;
  };

  /// Frees `object` after a grace period. The caller is pinned and has unlinked it.
  void retire(std::uint64_t object, std::size_t bytes, Destroy destroy, void* context);
  /// The same for a block of a heap.
  void retire(Heap& heap, std::uint64_t offset, std::size_t bytes);
  /// The same for memory of operator new[std::align_val_t{64}].
  void retire_dram(void* memory, std::size_t bytes);

  /// Lets the grace period pass, unless a thread is pinned, and frees what has outlived it,
  /// whichever thread retired it. True: nothing is left. The caller is not pinned, and no other
  /// thread retires or collects meanwhile. Cost: three heavy fences.
  [[nodiscard]] bool collect();

  /// Returns when every thread that is pinned now has let go. The caller is not pinned.
  void wait_for_pinned() noexcept;

  /// Frees all that is retired; no thread may be pinned. Used at close and by tests.
  void drain();
  [[nodiscard]] std::uint64_t retired_bytes() const noexcept;
  /// The same without blocks of heaps, which count them as long as they are not freed.
  [[nodiscard]] std::uint64_t retired_dram_bytes() const noexcept;

 private:
  static constexpr std::uint64_t idle = 0;
  static constexpr std::uint64_t grace_epochs = 3;  ///< E3
  struct State;
  /// What pinning takes: every operation does it.
  struct Pins {
    struct alignas(64) Slot {
      std::atomic<std::uint64_t> epoch{idle};
    };
    alignas(64) std::atomic<std::uint64_t> global{1};
    std::array<Slot, pm::max_threads> slot;
  };

  [[nodiscard]] std::atomic<std::uint64_t>& pin() noexcept;
  /// False when a thread is pinned elsewhere.
  bool try_advance() noexcept;
  [[gnu::noinline, gnu::cold]] void retire_with_more_room(std::uint64_t object, std::size_t bytes,
                                                          Destroy destroy, void* context);
  /// Of what the thread with this slot has retired.
  [[gnu::noinline]] void free_what_may_be(std::size_t number);

  std::unique_ptr<Pins> pins_;
  std::unique_ptr<State> state_;
};

// The epoch is read again after the pin. Whoever finds it already advanced sees the pin, because
// its heavy fence fell behind our light one; so the epoch gets at most one ahead of the pin (E1).
[[gnu::always_inline]] inline std::atomic<std::uint64_t>& Epochs::pin() noexcept {
  std::atomic<std::uint64_t>& mine = pins_->slot[pm::thread_slot()].epoch;
  PERDURE_ASSERT(mine.load(std::memory_order_relaxed) == idle);
  std::uint64_t now = pins_->global.load(std::memory_order_acquire);
  for (;;) {
    mine.store(now, std::memory_order_release);
    pm::light_fence();
    const std::uint64_t still = pins_->global.load(std::memory_order_seq_cst);
    if (still == now) return mine;
    now = still;
  }
}

}  // namespace perdure
