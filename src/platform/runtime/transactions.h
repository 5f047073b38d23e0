// Transactions: what hardware transactional memory does, over hooked accesses.
//
// A transaction keeps the lines it has read and written, and the old bytes of every store. An
// access of another thread that conflicts undoes it at once (the requester wins, as with Intel's
// RTM); its thread goes on at its `transaction_begin`, which then returns the status of the abort.
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

namespace perdure::platform::runtime {

/// Status as the instruction returns it.
inline constexpr std::uint32_t started = ~std::uint32_t{0};

struct Transaction {
  static constexpr std::uint64_t no_line = ~std::uint64_t{0};
  struct Undo {
    std::byte* address;
    std::uint32_t bytes;
    std::uint32_t position;  ///< in `old_bytes`
  };

  std::uint32_t depth = 1;
  bool undone = false;
  AbortCause cause = AbortCause::other;
  std::byte* frame = nullptr;    ///< stack pointer to go on at
  std::vector<std::byte> stack;  ///< the bytes from `frame` up
  std::vector<Undo> undo;
  std::vector<std::byte> old_bytes;
  std::vector<std::uint64_t> lines;
  std::vector<std::uint8_t> written_in_set;
  std::size_t lines_read = 0;
  std::uint64_t last_read = no_line;
  std::uint64_t last_written = no_line;
  CallNode* node = nullptr;
};

/// Lines of all transactions under way: open addressing, linear probing.
class LineTable {
 public:
  static constexpr unsigned most_threads = 128;
  struct Line {
    std::uint64_t number = 0;  ///< 0: empty
    std::array<std::uint64_t, most_threads / 64> readers{};
    std::uint32_t writer = no_writer;
  };
  static constexpr std::uint32_t no_writer = ~std::uint32_t{0};

  LineTable() : slots_(std::size_t{1} << 10) {}
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
};

class Transactions {
 public:
  void start(unsigned threads, const CacheShape& l1, const CacheShape& l2);

  /// A transaction is under way somewhere.
  [[nodiscard]] bool any() const noexcept { return under_way_ != 0; }

  /// `frame`: the stack pointer to go on at after an abort. Returns `started`.
  std::uint32_t begin(SimulatedThread& thread, std::byte* frame, const std::byte* caller_frame);
  void commit(SimulatedThread& thread);
  /// Undoes the thread's own transaction and goes on at its begin.
  [[noreturn]] void abort(SimulatedThread& thread, AbortCause cause);
  /// For what no transaction survives (flush, system call); nothing outside one.
  void forbid(SimulatedThread& thread, AbortCause cause) {
    if (thread.transaction != nullptr) abort(thread, cause);
  }

  void on_load(SimulatedThread& thread, const void* address);
  void on_store(SimulatedThread& thread, const void* address, std::size_t bytes);
  /// With the model off nothing else runs inside a transaction: only what undo needs.
  void on_untimed_store(SimulatedThread& thread, const void* address, std::size_t bytes) {
    remember(*thread.transaction, thread, address, bytes);
  }

  /// The thread runs again: goes on at its begin if it was undone meanwhile.
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

}  // namespace perdure::platform::runtime
