// FreeSlots: the slots of a ring that hold no payload, and what is known of each producer, so that
// no slot is written anew whose header is the only record of a producer's newest push.
//
// F1  a popped slot is in `free_`, or the spare of the thread that popped it, or withheld. At most
//     one is withheld for each producer: that of its newest push which was popped, until a newer
//     push of the producer is durable.
// F2  where no other slot is free, a withheld one is used, after its number is durable in the
//     producer's mark (M3). So a producer that pushes no more costs no slot.
// F3  `durable` of a producer is at most the number of its newest durable push.
// F4  only its thread makes a spare of a slot; any thread may take it, by compare-and-swap. So a
//     thread that pops and pushes uses one slot again that is in its caches, without the ring.
// No step waits for another thread: a failed compare-and-swap means that another has succeeded.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "lockfree/slots/index_ring.h"
#include "lockfree/slots/slot_store.h"

namespace perdure::lockfree {

class FreeSlots {
 public:
  static constexpr std::uint32_t none = IndexRing::none;

  explicit FreeSlots(std::uint64_t slots, bool detects)
      : free_(slots),
        spare_(std::make_unique<Spare[]>(pm::max_threads)),
        producer_(detects ? std::make_unique<Producer[]>(pm::max_threads) : nullptr) {}

  /// After a recovery, of one thread: slots that hold nothing, some of them with a newest push.
  void adopt(const SlotStore& store, const FoundSlots& found) {
    for (std::size_t i = 0; i < pm::max_threads; ++i) {
      producer_[i].durable.store(found.pushed[i], std::memory_order_relaxed);
      if (found.pushed[i] != 0) most_producers_.store(i + 1, std::memory_order_relaxed);
    }
    for (const std::uint32_t slot : found.dead) {
      const SlotHeader& header = store.header(slot);
      const std::uint64_t seq = header.seq.load();
      const bool has_tag = seq != 0 && (seq & unfinished) == 0 && header.number != 0;
      if (has_tag && store.mark(header.producer).number.load() < header.number)
        withhold(slot, header.producer, header.number);
      else
        give_back(slot);
    }
  }

  /// For one that pushes, who gives it back or fills it. none: all are in use. Cost, where only
  /// withheld slots are left: 1 flushed line, 1 fence.
  [[nodiscard]] std::uint32_t take(const SlotStore& store) noexcept {
    std::uint32_t slot = take_spare(pm::thread_slot());
    if (slot == none) slot = free_.pop().number;
    return slot != none ? slot : take_any(store);
  }
  void give_back(std::uint32_t slot) noexcept { free_.push(slot); }
  /// After a pop that need not be durable.
  void popped(std::uint32_t slot) noexcept {
    if (std::atomic<std::uint32_t>* const spare = own_spare())
      spare->store(slot, std::memory_order_release);
    else
      give_back(slot);
  }
  /// After a pop that is durable, with the header that the slot had then. Ends in a locked
  /// instruction.
  void popped(std::uint32_t slot, std::uint32_t producer, std::uint64_t number) noexcept {
    if (number != 0)
      withhold(slot, producer, number);
    else if (std::atomic<std::uint32_t>* const spare = own_spare())
      spare->exchange(slot);
    else
      give_back(slot);
  }

  /// A push is durable.
  void pushed(std::uint32_t producer, std::uint64_t number) noexcept {
    Producer& mine = producer_[producer];
    std::uint64_t before = mine.durable.load(std::memory_order_relaxed);
    while (before < number && !mine.durable.compare_exchange_weak(before, number)) {
    }
    if (before == 0) raise(most_producers_, producer + 1ULL);
    std::uint64_t held = mine.withheld.load();
    if (held != 0 && is_before(number_in(held), number & number_mask) &&
        mine.withheld.compare_exchange_strong(held, 0))
      give_back(slot_in(held));
  }
  [[nodiscard]] bool is_durable(std::uint32_t producer, std::uint64_t number) const noexcept {
    return producer_[producer].durable.load(std::memory_order_acquire) >= number;
  }
  [[nodiscard]] std::uint64_t last_push(std::uint32_t producer) const noexcept {
    if (producer_ == nullptr || producer >= pm::max_threads) return 0;
    return producer_[producer].durable.load(std::memory_order_acquire);
  }

  /// Calls `visit(slot)` for each. No other operation may run.
  template <class Visit>
  void for_each(Visit&& visit) const {
    free_.for_each([&](std::uint64_t, std::uint32_t slot) { visit(slot); });
    for (std::size_t i = 0; i < pm::max_threads; ++i)
      if (const std::uint32_t slot = spare_[i].slot.load(); slot != none) visit(slot);
    for (std::size_t i = 0; producer_ != nullptr && i < pm::max_threads; ++i)
      if (const std::uint64_t held = producer_[i].withheld.load(); held != 0) visit(slot_in(held));
  }
  [[nodiscard]] std::uint64_t dram_bytes() const noexcept {
    return free_.dram_bytes() + pm::max_threads * sizeof(Spare) +
           (producer_ == nullptr ? 0 : pm::max_threads * sizeof(Producer));
  }

 private:
  struct alignas(64) Producer {
    std::atomic<std::uint64_t> durable{0};
    /// | low bits of the push's number 44 | slot + 1, 20 |; 0: none
    std::atomic<std::uint64_t> withheld{0};
  };
  struct alignas(64) Spare {
    std::atomic<std::uint32_t> slot{none};
  };
  static constexpr unsigned slot_bits = 20;
  static constexpr std::uint64_t number_mask = ~std::uint64_t{0} >> slot_bits;

  [[nodiscard]] static constexpr std::uint64_t word_of(std::uint32_t slot,
                                                       std::uint64_t number) noexcept {
    return number << slot_bits | (slot + 1);
  }
  [[nodiscard]] static constexpr std::uint32_t slot_in(std::uint64_t word) noexcept {
    return static_cast<std::uint32_t>(word & ((1U << slot_bits) - 1)) - 1;
  }
  [[nodiscard]] static constexpr std::uint64_t number_in(std::uint64_t word) noexcept {
    return word >> slot_bits;
  }

  /// Of the low bits of two numbers that a producer has used at about the same time: they may have
  /// turned over between them.
  [[nodiscard]] static constexpr bool is_before(std::uint64_t one, std::uint64_t other) noexcept {
    return one != other && ((other - one) & number_mask) <= number_mask / 2;
  }

  static void raise(std::atomic<std::uint64_t>& most, std::uint64_t to) noexcept {
    std::uint64_t known = most.load();
    while (known < to && !most.compare_exchange_weak(known, to)) {
    }
  }

  /// This thread's, if it is free (F4); else null.
  [[nodiscard]] std::atomic<std::uint32_t>* own_spare() noexcept {
    const std::size_t thread = pm::thread_slot();
    std::atomic<std::uint32_t>& mine = spare_[thread].slot;
    if (mine.load(std::memory_order_relaxed) != none) return nullptr;
    if (most_threads_.load(std::memory_order_relaxed) <= thread) raise(most_threads_, thread + 1);
    return &mine;
  }
  [[nodiscard]] std::uint32_t take_spare(std::size_t thread) noexcept {
    std::atomic<std::uint32_t>& spare = spare_[thread].slot;
    std::uint32_t slot = spare.load(std::memory_order_acquire);
    return slot != none && spare.compare_exchange_strong(slot, none) ? slot : none;
  }
  [[gnu::noinline]] std::uint32_t take_any(const SlotStore& store) noexcept {
    const std::uint64_t most = most_threads_.load();
    for (std::uint64_t i = 0; i < most; ++i)
      if (const std::uint32_t slot = take_spare(i); slot != none) return slot;
    return producer_ == nullptr ? none : take_withheld(store);
  }

  void withhold(std::uint32_t slot, std::uint32_t producer, std::uint64_t number) noexcept {
    Producer& its = producer_[producer];
    if (its.durable.load(std::memory_order_acquire) > number) {
      give_back(slot);
      return;
    }
    raise(most_producers_, producer + 1ULL);
    const std::uint64_t mine = word_of(slot, number);
    std::uint64_t held = its.withheld.load();
    do {
      if (held != 0 && !is_before(number_in(held), number_in(mine))) {
        give_back(slot);
        return;
      }
    } while (!its.withheld.compare_exchange_weak(held, mine));
    if (held != 0) give_back(slot_in(held));
  }

  std::uint32_t take_withheld(const SlotStore& store) noexcept {
    const std::uint64_t most = most_producers_.load();
    for (std::uint64_t i = 0; i < most; ++i) {
      std::uint64_t held = producer_[i].withheld.load();
      if (held == 0 || !producer_[i].withheld.compare_exchange_strong(held, 0)) continue;
      const std::uint32_t slot = slot_in(held);
      Mark& mark = store.mark(i);
      const std::uint64_t number = store.header(slot).number;
      std::uint64_t kept = mark.number.load();
      while (kept < number && !mark.number.compare_exchange_weak(kept, number)) {
      }
      pm::persist(&mark, sizeof mark);  // F2: also where another thread has stored a later number
      return slot;
    }
    return none;
  }

  IndexRing free_;
  std::unique_ptr<Spare[]> spare_;  ///< by thread
  std::unique_ptr<Producer[]> producer_;
  std::atomic<std::uint64_t> most_threads_{0};    ///< numbers of threads with spares are below
  std::atomic<std::uint64_t> most_producers_{0};  ///< numbers of producers are below
};

}  // namespace perdure::lockfree
