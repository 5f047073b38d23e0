#include "pm/transaction.h"

#include <array>
#include <atomic>

#include "pm/hints.h"
#include "pm/thread.h"

namespace perdure::pm {
namespace {

struct alignas(64) SlotCounts {
  std::atomic<std::uint64_t> conflict{0};
  std::atomic<std::uint64_t> capacity{0};
  std::atomic<std::uint64_t> explicit_abort{0};
  std::atomic<std::uint64_t> other{0};
  std::atomic<std::uint64_t> left_out{0};
};
std::array<SlotCounts, max_threads> counts;
TransactionUse requested = TransactionUse::automatic;

/// For counters that one thread at a time writes.
void add(std::atomic<std::uint64_t>& counter, std::uint64_t number) noexcept {
  counter.store(counter.load(std::memory_order_relaxed) + number, std::memory_order_relaxed);
}

}  // namespace

namespace detail {

bool transactions_enabled = detail::instruction::simulated && transactions_available();

void count_abort(std::uint32_t status) noexcept {
  SlotCounts& mine = counts[thread_slot()];
  auto& counter = (status & abort_explicit) != 0    ? mine.explicit_abort
                  : (status & abort_capacity) != 0  ? mine.capacity
                  : (status & abort_may_retry) != 0 ? mine.conflict
                                                    : mine.other;
  add(counter, 1);
}

void count_left_out(std::uint32_t sections) noexcept {
  add(counts[thread_slot()].left_out, sections);
}

// Capacity aborts will repeat; status 0 may mean a page fault or a page that the hypervisor tracks,
// which an access outside the transaction cures: a few tries, then the software path.
bool wait_before_retry(std::uint32_t status, unsigned attempt) noexcept {
  constexpr unsigned hopeless_attempts = 3;
  if ((status & abort_capacity) != 0) return false;
  if ((status & (abort_explicit | abort_may_retry)) == 0 && attempt >= hopeless_attempts)
    return false;
  for (unsigned i = 0, n = 1U << (attempt < 8 ? attempt : 8); i < n; ++i) pause();
  return true;
}

}  // namespace detail

bool transactions_available() noexcept {
  if (detail::instruction::simulated) return detail::instruction::has_transactions();
  static const bool available = detail::instruction::has_transactions();
  return available;
}

void configure_transactions(TransactionUse use) noexcept {
  requested = use;
  const bool wanted = use == TransactionUse::on ||
                      (use == TransactionUse::automatic && detail::instruction::simulated);
  detail::transactions_enabled = wanted && transactions_available();
}

TransactionUse transaction_use() noexcept { return requested; }

TransactionCounts transaction_counts() noexcept {
  TransactionCounts total;
  for (const SlotCounts& slot : counts) {
    total.aborts_conflict += slot.conflict.load(std::memory_order_relaxed);
    total.aborts_capacity += slot.capacity.load(std::memory_order_relaxed);
    total.aborts_explicit += slot.explicit_abort.load(std::memory_order_relaxed);
    total.aborts_other += slot.other.load(std::memory_order_relaxed);
    total.left_out += slot.left_out.load(std::memory_order_relaxed);
  }
  return total;
}

}  // namespace perdure::pm
