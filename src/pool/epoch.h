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
// E3  a block retired at e is freed only when the global epoch is at least e + 3, by whichever
//     thread: a reader that might hold it has let go before any thread can have seen that epoch.
// E4  what a thread slot has retired lies in a list. Only who holds the thread slot appends to it,
//     without a lock, and makes it longer or moves it, under the list's lock. Whoever holds that
//     lock may free from its beginning: so a full pool is served from the lists of all threads, of
//     those that have ended, too. Who holds the lock waits for nobody but the heap.
// E5  no thread waits here while it is pinned, and none waits without end (`make_room`): a thread
//     that is pinned may hold the lock of a leaf, and whoever wants that leaf may be pinned.
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
  /// whichever thread retired it. True: nothing is left. The caller is not pinned. Cost: three
  /// heavy fences.
  [[nodiscard]] bool collect();

  // A full pool (index/common/with_room.h). What is retired still takes room, so a heap may refuse
  // a block although a grace period later it would have one.

  /// How often blocks of a heap were freed here; an operation asks before it begins.
  [[nodiscard]] std::uint64_t frees() const noexcept {
    return pins_->frees.load(std::memory_order_acquire);
  }
  /// The heap has refused a block to an operation that began when there were `frees`: frees what
  /// threads have retired, and waits a while for those that are pinned. True: blocks have been
  /// freed since, by whomever, and `frees` counts them. False: there is nothing to free, or a
  /// thread stays pinned, a second about; it is not waited for again until it lets go. The caller
  /// is not pinned and holds no lock. Cost where nothing is retired: a look at each list.
  [[nodiscard]] bool make_room(std::uint64_t& frees) noexcept;
  /// More than a 16th of the pool is retired; a thread that is about to begin an operation calls
  /// `relieve`.
  [[nodiscard]] bool is_pressed() const noexcept {
    return pins_->pressed.load(std::memory_order_relaxed);
  }
  /// Frees until less is retired, as `make_room` does.
  [[gnu::cold]] void relieve() noexcept;

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
    std::atomic<std::uint64_t> frees{0};
    std::atomic<bool> pressed{false};
    std::array<Slot, pm::max_threads> slot;
  };

  [[nodiscard]] std::atomic<std::uint64_t>& pin() noexcept;
  /// False when a thread is pinned elsewhere.
  bool try_advance() noexcept;
  [[gnu::noinline, gnu::cold]] void retire_with_more_room(std::uint64_t object, std::size_t bytes,
                                                          Destroy destroy, void* context);
  /// Of what the thread with this slot has retired.
  [[gnu::noinline]] void free_what_may_be(std::size_t number);
  /// Of all threads' what may be freed in the present epoch.
  void free_what_is_due() noexcept;
  /// True when a thread is pinned to an epoch before this one; without a fence, so it may be told
  /// too late.
  [[nodiscard]] bool is_held_up(std::uint64_t epoch) const noexcept;
  /// Advances and frees until something is free; false: nothing is to be had.
  bool reclaim() noexcept;
  [[nodiscard]] std::uint64_t retired_heap_bytes() const noexcept;

  std::unique_ptr<Pins> pins_;
  std::unique_ptr<State> state_;
};

// The epoch is read again after the pin. Whoever finds it already advanced sees the pin, because
// its heavy fence came after our light one; so the epoch gets at most one ahead of the pin (E1).
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
