// Hardware transactions (Intel RTM) behind one call: `elide`.
//
// A machine without RTM, or one whose hypervisor aborts every transaction, loses nothing but the
// elision: `elide` returns false after a bounded number of attempts and the caller takes its
// software path, which must be complete in itself.
#pragma once

#include <cstdint>

#include "pm/instructions.h"

namespace perdure::pm {

/// Per-process use of hardware transactions.
enum class TransactionUse : std::uint8_t { automatic, off };

namespace detail {
extern bool transactions_enabled;

inline constexpr std::uint32_t transaction_started = ~0U;
inline constexpr std::uint32_t abort_explicit = 1U << 0;
inline constexpr std::uint32_t abort_may_retry = 1U << 1;
inline constexpr std::uint32_t abort_capacity = 1U << 3;

using instruction::transaction_begin;
using instruction::transaction_commit;
}  // namespace detail

/// True when the CPU reports RTM and a trial transaction has committed. Cost: cached.
[[nodiscard]] bool transactions_available() noexcept;

/// Switches elision on (where available) or off for the process.
void configure_transactions(TransactionUse use) noexcept;
/// What was asked for last.
[[nodiscard]] TransactionUse transaction_use() noexcept;
[[nodiscard]] inline bool transactions_on() noexcept { return detail::transactions_enabled; }

/// Inside `elide` only: gives the attempt up; nothing it wrote is kept. Never returns.
inline void abort_transaction() noexcept { detail::instruction::transaction_abort(); }

/// Counts of this process, for run records (commits are not counted: a shared counter would cost
/// more than the elision).
struct TransactionCounts {
  std::uint64_t aborts_conflict = 0;
  std::uint64_t aborts_capacity = 0;
  std::uint64_t aborts_explicit = 0;
  std::uint64_t aborts_other = 0;
};
[[nodiscard]] TransactionCounts transaction_counts() noexcept;

namespace detail {
void count_abort(std::uint32_t status) noexcept;
[[nodiscard]] bool wait_before_retry(std::uint32_t status, unsigned attempt) noexcept;
}  // namespace detail

/// Runs `section` as one hardware transaction; retries up to `attempts` times.
/// Returns true when an attempt committed; false when transactions are off or every attempt
/// aborted: then nothing of the section is visible and the caller takes its software path.
/// The section must not flush, fence, allocate or call the system, and reports through variables of
/// its caller; it calls `abort_transaction` when it meets a lock.
template <class Section>
[[nodiscard]] bool elide(unsigned attempts, Section&& section) noexcept {
  if (!transactions_on()) return false;
  for (unsigned attempt = 0; attempt < attempts; ++attempt) {
    const std::uint32_t status = detail::transaction_begin();
    if (status == detail::transaction_started) {
      section();
      detail::transaction_commit();
      return true;
    }
    detail::count_abort(status);
    if (!detail::wait_before_retry(status, attempt)) break;
  }
  return false;
}

}  // namespace perdure::pm
