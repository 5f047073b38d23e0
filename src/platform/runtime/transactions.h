// Transactions: what hardware transactional memory does, over hooked accesses.
//
// A transaction keeps the lines it has read and written, and the old bytes of every store. An
// access of another thread that conflicts undoes it at once (the requester wins, as with Intel's
// RTM); its thread continues at its `transaction_begin`, which then returns the status of the
// abort.
//
// T1  a line in the table has a reader or a writer that is not undone; a thread whose transaction
//     is undone has no line there.
// T2  memory outside the transaction's own stack below its begin holds, after an abort, what it
//     held at the begin; the stack above it too, whether hooked or not.
//
// Capacity: the written lines of one L1 set are at most its ways; all lines read are at most the
// lines of L2.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "platform/model/machine.h"
#include "platform/runtime/simulated_thread.h"
#include "pm/thread.h"

namespace perdure::platform::runtime {

inline constexpr unsigned line_bits = 6;

[[nodiscard]] inline std::uint64_t line_number(const void* address) noexcept {
  return reinterpret_cast<std::uintptr_t>(address) >> line_bits;
}

/// Status as the instruction returns it.
inline constexpr std::uint32_t started = ~std::uint32_t{0};

/// The last lines of a kind, each in the slot of its number: no search for what is met all the
/// time.
class RecentLines {
 public:
  [[nodiscard]] bool has(std::uint64_t number) const noexcept {
    return slots_[number % slots_.size()] == number;
  }
  void note(std::uint64_t number) noexcept { slots_[number % slots_.size()] = number; }
  void clear() noexcept { slots_.fill(~std::uint64_t{0}); }

 private:
  std::array<std::uint64_t, 32> slots_{};
};

struct Transaction {
  struct Undo {
    std::byte* address;
    std::uint32_t bytes;
    std::uint32_t position;  ///< in `old_bytes`
  };

  std::uint32_t depth = 1;
  bool undone = false;
  AbortCause cause = AbortCause::other;
  std::byte* frame = nullptr;    ///< stack pointer to continue at
  std::vector<std::byte> stack;  ///< the bytes from `frame` up
  std::vector<Undo> undo;
  std::vector<std::byte> old_bytes;
  std::vector<std::uint64_t> lines;
  std::vector<std::uint8_t> written_in_set;
  std::size_t lines_read = 0;
  RecentLines read;     ///< in the table with this thread as a reader
  RecentLines written;  ///< in the table with this thread as the writer
  CallNode* node = nullptr;
};

/// Lines of all transactions under way: open addressing, linear probing.
class LineTable {
 public:
  static constexpr unsigned most_threads = pm::max_threads;
  struct Line {
    std::uint64_t number = 0;  ///< 0: empty
    std::array<std::uint64_t, most_threads / 64> readers{};
    std::uint32_t writer = no_writer;
  };
  static constexpr std::uint32_t no_writer = ~std::uint32_t{0};

  LineTable() : slots_(std::size_t{1} << 10) {}
  /// False: no transaction has the line. True: one may have it.
  [[nodiscard]] bool may_hold(std::uint64_t number) const noexcept {
    return lines_at_[number % lines_at_.size()] != 0;
  }
  [[nodiscard]] Line* find(std::uint64_t number) noexcept;
  [[nodiscard]] Line& find_or_add(std::uint64_t number);
  void remove(Line* line) noexcept;

 private:
  [[nodiscard]] std::size_t home(std::uint64_t number) const noexcept {
    return (number * 0x9e3779b97f4a7c15ULL >> 20) & (slots_.size() - 1);
  }
  void grow();

  std::vector<Line> slots_;
  std::size_t used_ = 0;
  std::array<std::uint32_t, 4096> lines_at_{};  ///< in the table, by the number's low bits
};

class Transactions {
 public:
  void start(unsigned threads, const CacheShape& l1, const CacheShape& l2);

  /// A transaction is under way somewhere.
  [[nodiscard]] bool any() const noexcept { return under_way_ != 0; }

  /// `frame`: the stack pointer to continue at after an abort. Returns `started`.
  std::uint32_t begin(SimulatedThread& thread, std::byte* frame, const std::byte* caller_frame);
  void commit(SimulatedThread& thread);
  /// Undoes the thread's own transaction and continues at its begin.
  [[noreturn]] void abort(SimulatedThread& thread, AbortCause cause);
  /// For what no transaction survives (flush, system call); nothing outside one.
  void forbid(SimulatedThread& thread, AbortCause cause) {
    if (thread.transaction != nullptr) abort(thread, cause);
  }

  void on_load(SimulatedThread& thread, const void* address);
  void on_store(SimulatedThread& thread, const void* address, std::size_t bytes);
  // True when `on_load` or `on_store` would change nothing. A thread that has a line as its reader
  // or writer need not look for others: a later access of theirs would have undone the thread.
  [[nodiscard]] bool ignore_load(const SimulatedThread& thread, const void* address) const noexcept;
  [[nodiscard]] bool ignore_store(const SimulatedThread& thread,
                                  const void* address) const noexcept;
  /// With the model off nothing else runs inside a transaction: only what undo needs.
  void on_untimed_store(SimulatedThread& thread, const void* address, std::size_t bytes) {
    remember(*thread.transaction, thread, address, bytes);
  }

  /// The thread runs again: continues at its begin if it was undone meanwhile.
  void after_switch(SimulatedThread& thread) {
    if (thread.transaction->undone) resume(thread);
  }

 private:
  void remember(Transaction& transaction, const SimulatedThread& thread, const void* address,
                std::size_t bytes);
  void undo(SimulatedThread& victim, AbortCause cause);
  void leave_lines(unsigned thread, Transaction& transaction) noexcept;
  void undo_others(SimulatedThread& thread, std::uint64_t line, bool readers_too);
  [[noreturn]] void resume(SimulatedThread& thread);

  unsigned under_way_ = 0;
  std::size_t written_lines_ = 0;
  std::size_t l1_sets_ = 64;
  std::uint8_t l1_ways_ = 8;
  std::size_t most_lines_read_ = 16384;
  LineTable lines_;
  std::vector<Transaction> of_thread_;
};

inline bool Transactions::ignore_load(const SimulatedThread& thread,
                                      const void* address) const noexcept {
  if (!any()) return true;
  const std::uint64_t number = line_number(address);
  if (thread.transaction != nullptr) return thread.transaction->read.has(number);
  return written_lines_ == 0 || !lines_.may_hold(number);
}

inline bool Transactions::ignore_store(const SimulatedThread& thread,
                                       const void* address) const noexcept {
  if (!any()) return true;
  const std::uint64_t number = line_number(address);
  if (thread.transaction == nullptr) return !lines_.may_hold(number);
  const auto* const at = static_cast<const std::byte*>(address);
  return at >= thread.stack && at < thread.transaction->frame &&  // nothing to remember (T2)
         thread.transaction->written.has(number);
}

}  // namespace perdure::platform::runtime
