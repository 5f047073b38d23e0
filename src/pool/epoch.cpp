#include "pool/epoch.h"

#include <algorithm>
#include <array>
#include <new>
#include <utility>
#include <vector>

#include "core/assert.h"
#include "pm/hints.h"
#include "pm/version_lock.h"
#include "pool/heap.h"

namespace perdure {
namespace {

// A slot tries to advance the epoch after so many retired objects or bytes: at first soon, so that
// small structures have their blocks back, then ever more seldom, because the fence interrupts all
// other threads, which takes tens of microseconds in a virtual machine.
constexpr std::size_t least_retired_before_advance = 64;
constexpr std::size_t more_after_each_advance = 16;
constexpr std::size_t most_retired_before_advance = 512;
constexpr std::uint64_t retired_bytes_before_advance = std::uint64_t{1} << 20;
// Of a heap, so that its size bounds what is retired: a slot tries after the first share; once all
// slots together hold the second, threads free before they go on.
constexpr std::uint64_t heap_share_before_advance = 256;
constexpr std::uint64_t heap_share_before_pressure = 16;

// A thread that was pinned when it lost its core, on a machine with more threads than cores, is
// waited for about a second. Simulated threads go on whenever another pauses.
constexpr unsigned turns_before_naps = 64;
constexpr unsigned most_turns = pm::simulated ? 1000 : 10'000;

/// For counters that one thread at a time writes.
void add(std::atomic<std::uint64_t>& counter, std::uint64_t number) noexcept {
  counter.store(counter.load(std::memory_order_relaxed) + number, std::memory_order_release);
}

void free_block(void* context, std::uint64_t object, std::size_t bytes) {
  static_cast<Heap*>(context)->free(object, bytes);
}

void free_dram(void*, std::uint64_t object, std::size_t) {
  ::operator delete[](reinterpret_cast<void*>(object), std::align_val_t{64});
}

/// So many bytes more may be retired before the next attempt, as one of a heap was last, or not.
std::uint64_t bytes_before_advance(Epochs::Destroy destroy, void* context) {
  if (destroy != free_block) return retired_bytes_before_advance;
  const std::uint64_t capacity = static_cast<const Heap*>(context)->capacity_bytes();
  return std::min(retired_bytes_before_advance, capacity / heap_share_before_advance);
}

std::uint64_t most_retired_of(const void* heap) {
  return static_cast<const Heap*>(heap)->capacity_bytes() / heap_share_before_pressure;
}

}  // namespace

struct Epochs::State {
  struct Retired {
    std::uint64_t epoch;
    std::uint64_t object;
    std::size_t bytes;
    Destroy destroy;
    void* context;
  };

  /// What a thread slot has retired (E4).
  struct alignas(64) Slot {
    // Written by who holds the thread slot.
    std::vector<Retired> list;        ///< [first, end) are retired and not freed; epochs ascend
    std::atomic<std::size_t> end{0};  ///< stored after the entry before it
    std::atomic<std::uint64_t> retired_bytes{0};       ///< ever
    std::atomic<std::uint64_t> retired_heap_bytes{0};  ///< of them, in blocks of a heap
    // The next attempt to advance comes when either is reached; and what the last one saw.
    std::size_t due_end = least_retired_before_advance;
    std::uint64_t due_bytes = 0;
    std::size_t patience = least_retired_before_advance;
    std::uint64_t epoch_then = 1;  ///< the first epoch

    // Written by who holds the lock.
    alignas(64) pm::VersionLock lock;
    std::size_t first = 0;
    std::atomic<std::uint64_t> freed_bytes{0};  ///< ever
    std::atomic<std::uint64_t> freed_heap_bytes{0};

    [[nodiscard]] std::uint64_t bytes() const noexcept {
      const std::uint64_t freed = freed_bytes.load(std::memory_order_acquire);
      return retired_bytes.load(std::memory_order_relaxed) - freed;
    }
    [[nodiscard]] std::uint64_t heap_bytes() const noexcept {
      const std::uint64_t freed = freed_heap_bytes.load(std::memory_order_acquire);
      return retired_heap_bytes.load(std::memory_order_relaxed) - freed;
    }
    /// Moves what is left to the beginning. The caller holds thread slot and lock.
    void close_up() noexcept {
      const std::size_t from = std::exchange(first, 0);
      const std::size_t to = end.load(std::memory_order_relaxed);
      const auto begin = list.begin();
      std::copy(begin + static_cast<std::ptrdiff_t>(from), begin + static_cast<std::ptrdiff_t>(to),
                begin);
      end.store(to - from, std::memory_order_relaxed);
      due_end -= std::min(due_end, from);
    }
  };

  ~State() {
    for (const auto& mine : slot) delete mine.load(std::memory_order_relaxed);
  }

  /// Slots from here on have never retired anything.
  alignas(64) std::atomic<std::size_t> retiring_slots{0};
  /// The epoch in which a thread stayed pinned for longer than it was waited for; 0: none.
  std::atomic<std::uint64_t> stuck_epoch{0};
  /// Made when first needed: few threads of all that there may be retire anything.
  alignas(64) std::array<std::atomic<Slot*>, pm::max_threads> slot{};

  void note_retiring(std::size_t number) noexcept {
    std::size_t known = retiring_slots.load(std::memory_order_relaxed);
    while (known <= number &&
           !retiring_slots.compare_exchange_weak(known, number + 1, std::memory_order_release,
                                                 std::memory_order_relaxed)) {
    }
  }

  /// Calls visit(slot) for each that has retired anything.
  template <class Visit>
  void each(Visit&& visit) const {
    const std::size_t slots = retiring_slots.load(std::memory_order_acquire);
    for (std::size_t i = 0; i < slots; ++i)
      if (Slot* const here = slot[i].load(std::memory_order_acquire)) visit(*here);
  }

  /// Frees what was retired up to `epoch`, and counts it in `frees` before it is gone from the
  /// slot's counts: who finds nothing retired finds it counted. The caller holds the slot's lock.
  static void free_up_to(Slot& of, std::uint64_t epoch, std::atomic<std::uint64_t>& frees) {
    constexpr std::size_t ahead = 8;
    std::uint64_t freed = 0;
    std::uint64_t freed_in_heap = 0;
    const std::size_t end = of.end.load(std::memory_order_acquire);
    while (of.first < end && of.list[of.first].epoch <= epoch) {
      // To destroy an object in DRAM mostly is to write its beginning, which nobody has used since.
      if (of.first + ahead < end)
        if (const Retired& later = of.list[of.first + ahead]; later.destroy != free_block)
          pm::prefetch_for_write(reinterpret_cast<const void*>(later.object));
      const Retired entry = of.list[of.first++];
      entry.destroy(entry.context, entry.object, entry.bytes);
      freed += entry.bytes;
      if (entry.destroy == free_block) freed_in_heap += entry.bytes;
    }
    if (freed_in_heap != 0) frees.fetch_add(1, std::memory_order_acq_rel);
    add(of.freed_bytes, freed);
    add(of.freed_heap_bytes, freed_in_heap);
  }
};

// Not make_unique, which would first fill with zeros what their initialisers fill.
Epochs::Epochs()
    : pins_(std::make_unique_for_overwrite<Pins>()),
      state_(std::make_unique_for_overwrite<State>()) {}
Epochs::~Epochs() { drain(); }

bool Epochs::is_held_up(std::uint64_t epoch) const noexcept {
  return std::ranges::any_of(pins_->slot, [epoch](const Pins::Slot& other) {
    const std::uint64_t pinned = other.epoch.load(std::memory_order_seq_cst);
    return pinned != idle && pinned != epoch;
  });
}

bool Epochs::try_advance() noexcept {
  std::uint64_t now = pins_->global.load(std::memory_order_seq_cst);
  pm::heavy_fence();
  if (is_held_up(now)) return false;  // E2
  pins_->global.compare_exchange_strong(now, now + 1, std::memory_order_seq_cst);
  return true;
}

void Epochs::retire(std::uint64_t object, std::size_t bytes, Destroy destroy, void* context) {
  const std::size_t number = pm::taken_thread_slot();
  State::Slot* const mine = state_->slot[number].load(std::memory_order_relaxed);
  if (mine == nullptr) [[unlikely]]
    return retire_with_more_room(object, bytes, destroy, context);
  const std::size_t end = mine->end.load(std::memory_order_relaxed);
  if (end == mine->list.size()) [[unlikely]]
    return retire_with_more_room(object, bytes, destroy, context);
  const std::uint64_t pinned = pins_->slot[number].epoch.load(std::memory_order_relaxed);
  PERDURE_ASSERT(pinned != idle);
  mine->list[end] = {pinned, object, bytes, destroy, context};
  // The counts first: whoever frees the entry subtracts from them.
  const std::uint64_t total = mine->retired_bytes.load(std::memory_order_relaxed) + bytes;
  mine->retired_bytes.store(total, std::memory_order_relaxed);
  if (destroy == free_block) add(mine->retired_heap_bytes, bytes);
  mine->end.store(end + 1, std::memory_order_release);
  if (end + 1 >= mine->due_end || total >= mine->due_bytes) [[unlikely]]
    free_what_may_be(number);
}

void Epochs::retire_with_more_room(std::uint64_t object, std::size_t bytes, Destroy destroy,
                                   void* context) {
  const std::size_t number = pm::taken_thread_slot();
  State::Slot* mine = state_->slot[number].load(std::memory_order_relaxed);
  if (mine == nullptr) {
    mine = new State::Slot;
    mine->due_bytes = bytes_before_advance(destroy, context);
    state_->slot[number].store(mine, std::memory_order_release);
    state_->note_retiring(number);
  }
  {
    const pm::LockGuard hold(mine->lock);
    if (mine->first * 2 >= mine->list.size() && mine->first != 0)
      mine->close_up();
    else
      mine->list.resize(std::max(2 * mine->list.size(), 2 * least_retired_before_advance));
  }
  retire(object, bytes, destroy, context);
}

void Epochs::free_what_may_be(std::size_t number) {
  State::Slot& mine = *state_->slot[number].load(std::memory_order_relaxed);
  const State::Retired last = mine.list[mine.end.load(std::memory_order_relaxed) - 1];
  // Where another thread has advanced it meanwhile, its fence serves this one, too.
  if (pins_->global.load(std::memory_order_seq_cst) == mine.epoch_then) try_advance();
  const std::uint64_t now = pins_->global.load(std::memory_order_seq_cst);
  if (now != std::exchange(mine.epoch_then, now)) {
    mine.patience = std::min(mine.patience + more_after_each_advance, most_retired_before_advance);
    // Whoever has the lock is freeing the same.
    if (now > grace_epochs && mine.lock.try_lock()) {
      State::free_up_to(mine, now - grace_epochs, pins_->frees);
      if (mine.first * 2 >= mine.end.load(std::memory_order_relaxed)) mine.close_up();
      mine.lock.unlock_unchanged();
    }
  }
  const std::size_t end = mine.end.load(std::memory_order_relaxed);
  mine.due_end = end + mine.patience;
  mine.due_bytes = mine.retired_bytes.load(std::memory_order_relaxed) +
                   bytes_before_advance(last.destroy, last.context);
  if (last.destroy == free_block && retired_heap_bytes() > most_retired_of(last.context))
    pins_->pressed.store(true, std::memory_order_relaxed);
}

void Epochs::retire(Heap& heap, std::uint64_t offset, std::size_t bytes) {
  retire(offset, bytes, free_block, &heap);
}

void Epochs::retire_dram(void* memory, std::size_t bytes) {
  retire(reinterpret_cast<std::uint64_t>(memory), bytes, free_dram, nullptr);
}

void Epochs::free_what_is_due() noexcept {
  const std::uint64_t now = pins_->global.load(std::memory_order_seq_cst);
  if (now <= grace_epochs) return;
  state_->each([&](State::Slot& slot) {
    if (slot.bytes() == 0) return;
    const pm::LockGuard hold(slot.lock);
    State::free_up_to(slot, now - grace_epochs, pins_->frees);
  });
}

bool Epochs::collect() {
  for (std::uint64_t i = 0; i < grace_epochs && try_advance(); ++i) {
  }
  free_what_is_due();
  return retired_bytes() == 0;
}

bool Epochs::reclaim() noexcept {
  const std::uint64_t frees = pins_->frees.load(std::memory_order_acquire);
  const std::uint64_t wanted = pins_->global.load(std::memory_order_seq_cst) + grace_epochs;
  pm::Backoff backoff;
  for (unsigned turn = 0;;) {
    free_what_is_due();
    if (pins_->frees.load(std::memory_order_acquire) != frees) return true;
    const std::uint64_t now = pins_->global.load(std::memory_order_seq_cst);
    if (now >= wanted) return false;
    if (!is_held_up(now) && try_advance()) continue;
    if (pins_->global.load(std::memory_order_seq_cst) != now) continue;
    if (state_->stuck_epoch.load(std::memory_order_relaxed) == now) return false;
    if (++turn == most_turns) {
      state_->stuck_epoch.store(now, std::memory_order_relaxed);
      return false;
    }
    if (turn < turns_before_naps)
      backoff.wait();
    else
      pm::nap();
  }
}

bool Epochs::make_room(std::uint64_t& frees) noexcept {
  if (pins_->frees.load(std::memory_order_acquire) == frees && retired_heap_bytes() != 0)
    (void)reclaim();
  const std::uint64_t now = pins_->frees.load(std::memory_order_acquire);
  return now != std::exchange(frees, now);
}

// All that is retired now, unless a thread stays pinned. Set again by the next thread that retires
// where there is still too much.
void Epochs::relieve() noexcept {
  pins_->pressed.store(false, std::memory_order_relaxed);
  for (std::uint64_t i = 0; i < grace_epochs && reclaim(); ++i) {
  }
}

// From e to e + 1 it advances when no thread is pinned at e - 1, to e + 2 when none is at e (E1).
void Epochs::wait_for_pinned() noexcept {
  const std::uint64_t wanted = pins_->global.load(std::memory_order_seq_cst) + 2;
  for (pm::Backoff backoff; pins_->global.load(std::memory_order_seq_cst) < wanted;) {
    try_advance();
    if (pins_->global.load(std::memory_order_seq_cst) < wanted) backoff.wait();
  }
}

void Epochs::drain() {
  if constexpr (checked_build)
    for (const Pins::Slot& slot : pins_->slot)
      PERDURE_ASSERT(slot.epoch.load(std::memory_order_acquire) == idle);
  state_->each([&](State::Slot& slot) {
    const pm::LockGuard hold(slot.lock);
    State::free_up_to(slot, ~std::uint64_t{0}, pins_->frees);
  });
}

std::uint64_t Epochs::retired_bytes() const noexcept {
  std::uint64_t total = 0;
  state_->each([&](const State::Slot& slot) { total += slot.bytes(); });
  return total;
}

std::uint64_t Epochs::retired_heap_bytes() const noexcept {
  std::uint64_t total = 0;
  state_->each([&](const State::Slot& slot) { total += slot.heap_bytes(); });
  return total;
}

std::uint64_t Epochs::retired_dram_bytes() const noexcept {
  std::uint64_t total = 0;
  state_->each([&](const State::Slot& slot) {
    const std::uint64_t bytes = slot.bytes();
    total += bytes - std::min(bytes, slot.heap_bytes());
  });
  return total;
}

}  // namespace perdure
