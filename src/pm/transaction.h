// Hardware transactions (Intel RTM) behind one call: `elide`, or `AdaptiveElision::run` where it is
// made again and again.
//
// A machine without RTM, or one whose hypervisor aborts every transaction, loses nothing but the
// elision: `elide` returns false after a bounded number of attempts and the caller takes its
// software path, which must be complete in itself. The attempts are not free, 0.1 microseconds each
// and more, so a caller whose sections always abort should not pay for them at each operation.
//
// Nor are transactions that commit. Nothing overlaps with their begin and end, so that the misses
// of one operation no longer hide in those of the next: natively LB+-Tree and FPTree are faster
// without them. What the published indexes gain from transactions, readers that write nothing, the
// software paths have too. So by default transactions are left out natively, and used under
// simulation, which reproduces what was published.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "pm/instructions.h"
#include "pm/thread.h"

namespace perdure::pm {

/// Per-process use of hardware transactions.
enum class TransactionUse : std::uint8_t {
  automatic,  ///< on under simulation, off natively
  on,         ///< where the machine has them
  off,
};

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

/// Chooses for the process. At its start: `automatic`.
void configure_transactions(TransactionUse use) noexcept;
/// What was configured last.
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
  std::uint64_t left_out = 0;  ///< sections that `AdaptiveElision` was to leave out after failures
};
[[nodiscard]] TransactionCounts transaction_counts() noexcept;

namespace detail {
void count_abort(std::uint32_t status) noexcept;
[[nodiscard]] bool wait_before_retry(std::uint32_t status, unsigned attempt) noexcept;
void count_left_out(std::uint32_t sections) noexcept;
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

/// `elide` for all sections of one index, which remembers for each thread whether they commit. A
/// CPU or hypervisor can abort every transaction for as long as the process lives, or all that
/// touch certain pages, and VZEROUPPER in a section always does; so a thread whose sections fail
/// leaves some out, tries again, and leaves out more:
///
///   a section that fails     penalty = 2 * penalty + 1, at most `most_left_out`
///   a section that commits   penalty = penalty / 2
///   either                   the next `penalty` sections of the thread are left out
///
/// While there is a penalty a section has `attempts_after_a_failure` attempts at most. So sections
/// that never commit cost that many aborts in 1024 operations, one that fails among others that
/// commit costs one left out, and 2046 operations after the last failure nothing is left out any
/// more. State is kept by thread slot: any number of threads, and nothing survives the object.
class AdaptiveElision {
 public:
  static constexpr std::uint32_t most_left_out = 1023;
  static constexpr unsigned attempts_after_a_failure = 4;

  /// As `elide`; false without an attempt when the section is left out. Cost beyond that: one line
  /// of DRAM that is the thread's own, and only read while all goes well.
  template <class Section>
  [[nodiscard]] bool run(unsigned attempts, Section&& section) noexcept {
    if (!transactions_on()) return false;
    Share& mine = shares_[thread_slot()];
    if (mine.to_leave_out != 0) {
      --mine.to_leave_out;
      return false;
    }
    const bool has_failed = mine.penalty != 0;
    const bool committed =
        elide(has_failed ? std::min(attempts, attempts_after_a_failure) : attempts, section);
    if (!committed || has_failed) mine.judge(committed);
    return committed;
  }

 private:
  struct alignas(64) Share {
    std::uint32_t to_leave_out = 0;
    std::uint32_t penalty = 0;

    void judge(bool committed) noexcept {
      penalty = committed ? penalty / 2 : std::min(2 * penalty + 1, most_left_out);
      to_leave_out = penalty;
      if (penalty != 0) detail::count_left_out(penalty);
    }
  };

  std::array<Share, max_threads> shares_;
};

}  // namespace perdure::pm
