#include "pool/epoch.h"

#include <algorithm>
#include <array>
#include <new>
#include <utility>
#include <vector>

#include "pm/hints.h"
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

/// For counters that one thread at a time writes.
void add(std::atomic<std::uint64_t>& counter, std::uint64_t number) noexcept {
  counter.store(counter.load(std::memory_order_relaxed) + number, std::memory_order_relaxed);
}

void free_block(void* context, std::uint64_t object, std::size_t bytes) {
  static_cast<Heap*>(context)->free(object, bytes);
}

void free_dram(void*, std::uint64_t object, std::size_t) {
  ::operator delete[](reinterpret_cast<void*>(object), std::align_val_t{64});
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

  /// One thread's share. It belongs to whoever holds the thread slot, or to `collect` while nobody
  /// retires; others read `bytes` and `heap_bytes`.
  struct alignas(64) Slot {
    std::vector<Retired> list;  ///< [first, end) are retired and not freed; epochs ascend
    std::size_t first = 0;
    std::size_t end = 0;
    std::atomic<std::uint64_t> bytes{0};
    std::atomic<std::uint64_t> heap_bytes{0};  ///< of them, in blocks of a heap
    // The next attempt to advance comes when either is reached; and what the last one saw.
    std::size_t due_end = least_retired_before_advance;
    std::uint64_t due_bytes = retired_bytes_before_advance;
    std::size_t patience = least_retired_before_advance;
    std::uint64_t epoch_then = 1;  ///< the first epoch
  };

  ~State() {
    for (const auto& mine : slot) delete mine.load(std::memory_order_relaxed);
  }

  /// Slots from here on have never retired anything.
  alignas(64) std::atomic<std::size_t> retiring_slots{0};
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

  void free_up_to(Slot& mine, std::uint64_t epoch) {
    constexpr std::size_t ahead = 8;
    std::uint64_t freed = 0;
    std::uint64_t freed_in_heap = 0;
    while (mine.first < mine.end && mine.list[mine.first].epoch <= epoch) {
      // To destroy an object in DRAM mostly is to write its beginning, which nobody has used since.
      if (mine.first + ahead < mine.end)
        if (const Retired& later = mine.list[mine.first + ahead]; later.destroy != free_block)
          pm::prefetch_for_write(reinterpret_cast<const void*>(later.object));
      const Retired entry = mine.list[mine.first++];
      entry.destroy(entry.context, entry.object, entry.bytes);
      freed += entry.bytes;
      if (entry.destroy == free_block) freed_in_heap += entry.bytes;
    }
    add(mine.bytes, 0 - freed);
    add(mine.heap_bytes, 0 - freed_in_heap);
    if (mine.first * 2 >= mine.end) {
      const auto begin = mine.list.begin();
      std::copy(begin + static_cast<std::ptrdiff_t>(mine.first),
                begin + static_cast<std::ptrdiff_t>(mine.end), begin);
      mine.end -= std::exchange(mine.first, 0);
    }
  }
};

// Not make_unique, which would first fill with zeros what their initialisers fill.
Epochs::Epochs()
    : pins_(std::make_unique_for_overwrite<Pins>()),
      state_(std::make_unique_for_overwrite<State>()) {}
Epochs::~Epochs() { drain(); }

bool Epochs::try_advance() noexcept {
  std::uint64_t now = pins_->global.load(std::memory_order_seq_cst);
  pm::heavy_fence();
  for (const Pins::Slot& other : pins_->slot) {
    const std::uint64_t pinned = other.epoch.load(std::memory_order_seq_cst);
    if (pinned != idle && pinned != now) return false;  // E2
  }
  pins_->global.compare_exchange_strong(now, now + 1, std::memory_order_seq_cst);
  return true;
}

void Epochs::retire(std::uint64_t object, std::size_t bytes, Destroy destroy, void* context) {
  const std::size_t number = pm::taken_thread_slot();
  State::Slot* const mine = state_->slot[number].load(std::memory_order_relaxed);
  if (mine == nullptr || mine->end == mine->list.size()) [[unlikely]]
    return retire_with_more_room(object, bytes, destroy, context);
  const std::uint64_t pinned = pins_->slot[number].epoch.load(std::memory_order_relaxed);
  PERDURE_ASSERT(pinned != idle);
  mine->list[mine->end++] = {pinned, object, bytes, destroy, context};
  const std::uint64_t total = mine->bytes.load(std::memory_order_relaxed) + bytes;
  mine->bytes.store(total, std::memory_order_relaxed);
  if (destroy == free_block) add(mine->heap_bytes, bytes);
  if (mine->end >= mine->due_end || total >= mine->due_bytes) [[unlikely]]
    free_what_may_be(number);
}

void Epochs::retire_with_more_room(std::uint64_t object, std::size_t bytes, Destroy destroy,
                                   void* context) {
  const std::size_t number = pm::taken_thread_slot();
  State::Slot* mine = state_->slot[number].load(std::memory_order_relaxed);
  if (mine == nullptr) {
    state_->slot[number].store(mine = new State::Slot, std::memory_order_release);
    state_->note_retiring(number);
  }
  mine->list.resize(std::max(2 * mine->list.size(), 2 * least_retired_before_advance));
  retire(object, bytes, destroy, context);
}

void Epochs::free_what_may_be(std::size_t number) {
  State::Slot& mine = *state_->slot[number].load(std::memory_order_relaxed);
  // Where another thread has advanced it meanwhile, its fence serves this one, too.
  if (pins_->global.load(std::memory_order_seq_cst) == mine.epoch_then) try_advance();
  const std::uint64_t now = pins_->global.load(std::memory_order_seq_cst);
  if (now != std::exchange(mine.epoch_then, now)) {
    mine.patience = std::min(mine.patience + more_after_each_advance, most_retired_before_advance);
    if (now > grace_epochs) state_->free_up_to(mine, now - grace_epochs);
  }
  mine.due_end = mine.end + mine.patience;
  mine.due_bytes = mine.bytes.load(std::memory_order_relaxed) + retired_bytes_before_advance;
}

void Epochs::retire(Heap& heap, std::uint64_t offset, std::size_t bytes) {
  retire(offset, bytes, free_block, &heap);
}

void Epochs::retire_dram(void* memory, std::size_t bytes) {
  retire(reinterpret_cast<std::uint64_t>(memory), bytes, free_dram, nullptr);
}

bool Epochs::collect() {
  for (std::uint64_t i = 0; i < grace_epochs && try_advance(); ++i) {
  }
  const std::uint64_t now = pins_->global.load(std::memory_order_seq_cst);
  bool all = true;
  state_->each([&](State::Slot& slot) {
    if (slot.first == slot.end) return;
    if (now > grace_epochs) state_->free_up_to(slot, now - grace_epochs);
    all = all && slot.first == slot.end;
  });
  return all;
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
  state_->each([&](State::Slot& slot) { state_->free_up_to(slot, ~std::uint64_t{0}); });
}

std::uint64_t Epochs::retired_bytes() const noexcept {
  std::uint64_t total = 0;
  state_->each(
      [&](const State::Slot& slot) { total += slot.bytes.load(std::memory_order_relaxed); });
  return total;
}

std::uint64_t Epochs::retired_dram_bytes() const noexcept {
  std::uint64_t total = 0;
  state_->each([&](const State::Slot& slot) {
    const std::uint64_t bytes = slot.bytes.load(std::memory_order_relaxed);
    total += bytes - std::min(bytes, slot.heap_bytes.load(std::memory_order_relaxed));
  });
  return total;
}

}  // namespace perdure
