#include "lockfree/memory/reclaimer.h"

namespace perdure::lockfree {

Reclaimer::Reclaimer(FreeNodes& free)
    : free_(free),
      nodes_(free.size()),
      next_(std::make_unique<std::atomic<std::uint32_t>[]>(free.size())) {}

void Reclaimer::retire(const Guard& guard, std::uint32_t node) noexcept {
  Slot& mine = slot_[guard.slot()];
  const std::uint64_t epoch = global_.load(std::memory_order_seq_cst);  // Q2: not the announced one
  std::atomic<std::uint64_t>& list = mine.list[epoch % mine.list.size()];
  for (std::uint64_t word = list.load(std::memory_order_acquire);;) {
    // A list of an earlier epoch is four epochs old or more.
    if (word >> 32 != epoch && first_of(word) != no_node) {
      static_cast<void>(free_list(list, epoch));
      word = list.load(std::memory_order_acquire);
      continue;
    }
    next_[node].store(first_of(word), std::memory_order_relaxed);
    if (list.compare_exchange_weak(word, word_of(epoch, node), std::memory_order_acq_rel)) break;
  }
  if (++mine.retired % retired_between_advances == 0) try_advance();
}

void Reclaimer::try_advance() noexcept {
  std::uint64_t global = global_.load(std::memory_order_acquire);
  const std::uint32_t slots = slots_.load(std::memory_order_acquire);
  for (std::uint32_t slot = 0; slot < slots; ++slot) {
    const std::uint64_t announced = slot_[slot].epoch.load(std::memory_order_acquire);
    if (announced != idle && announced != global) return;
  }
  global_.compare_exchange_strong(global, global + 1, std::memory_order_acq_rel);
}

bool Reclaimer::free_list(std::atomic<std::uint64_t>& list, std::uint64_t global) noexcept {
  std::uint64_t word = list.load(std::memory_order_acquire);
  if (first_of(word) == no_node || (word >> 32) + grace_epochs > global) return false;
  if (!list.compare_exchange_strong(word, word_of(word >> 32, no_node), std::memory_order_acq_rel))
    return false;
  for (std::uint32_t node = first_of(word); node != no_node;) {
    const std::uint32_t next = next_[node].load(std::memory_order_relaxed);  // before it is free
    free_.give(node);
    node = next;
  }
  return true;
}

bool Reclaimer::collect() noexcept {
  bool freed = false;
  for (unsigned advances = 0; advances <= grace_epochs && !freed; ++advances) {
    const std::uint64_t global = global_.load(std::memory_order_acquire);
    const std::uint32_t slots = slots_.load(std::memory_order_acquire);
    for (std::uint32_t slot = 0; slot < slots; ++slot)
      for (auto& list : slot_[slot].list) freed |= free_list(list, global);
    if (!freed) try_advance();
  }
  return freed;
}

bool Reclaimer::holds_any() const noexcept {
  const std::uint32_t slots = slots_.load(std::memory_order_acquire);
  for (std::uint32_t slot = 0; slot < slots; ++slot)
    for (const auto& list : slot_[slot].list)
      if (first_of(list.load(std::memory_order_acquire)) != no_node) return true;
  return false;
}

std::uint64_t Reclaimer::retired() const noexcept {
  std::uint64_t count = 0;
  for (const Slot& slot : slot_)
    for (const auto& list : slot.list)
      for (std::uint32_t node = first_of(list.load(std::memory_order_acquire)); node != no_node;
           node = next_[node].load(std::memory_order_relaxed))
        ++count;
  return count;
}

}  // namespace perdure::lockfree
