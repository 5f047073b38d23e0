#include "platform/runtime/transactions.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "platform/runtime/engine.h"
#include "platform/runtime/observer.h"

extern "C" {
// Copies the saved bytes over the stack at `frame`, makes it the stack pointer, and returns
// `status` to whoever called perdure_transaction_begin (transaction_begin.S holds the counterpart).
[[noreturn]] void perdure_transaction_resume(std::byte* frame, const std::byte* saved,
                                             std::size_t bytes, std::uint32_t status) noexcept;
std::uint32_t perdure_transaction_started(std::byte* frame, const std::byte* caller_frame) noexcept;
}

// Begin: pushes what calls preserve, and hands the address of that to the runtime. An abort brings
// the pushed words back with the rest of the stack, so both returns come through the same pops.
asm(R"(
.text
.globl perdure_transaction_begin
.type perdure_transaction_begin, @function
perdure_transaction_begin:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, %rdi
  movq %rbp, %rsi
  subq $8, %rsp
  call perdure_transaction_started
  addq $8, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size perdure_transaction_begin, .-perdure_transaction_begin

.globl perdure_transaction_resume
.type perdure_transaction_resume, @function
perdure_transaction_resume:
  movq %rdi, %rsp
  movl %ecx, %eax
  movq %rdx, %rcx
  cld
  rep movsb
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size perdure_transaction_resume, .-perdure_transaction_resume
)");

namespace perdure::platform::runtime {
namespace {

// What Intel's manual gives for RTM's status word.
constexpr std::uint32_t status_explicit = 1U << 0 | 1U << 24;
constexpr std::uint32_t status_conflict = 1U << 1 | 1U << 2;
constexpr std::uint32_t status_capacity = 1U << 3;

std::uint32_t status_of(AbortCause cause) noexcept {
  switch (cause) {
    case AbortCause::conflict:
      return status_conflict;
    case AbortCause::capacity:
      return status_capacity;
    case AbortCause::explicit_abort:
      return status_explicit;
    case AbortCause::flush:
    case AbortCause::other:
      break;
  }
  return 0;
}

}  // namespace

LineTable::Line* LineTable::find(std::uint64_t number) noexcept {
  for (std::size_t at = home(number);; at = (at + 1) & (slots_.size() - 1)) {
    if (slots_[at].number == number) return &slots_[at];
    if (slots_[at].number == 0) return nullptr;
  }
}

LineTable::Line& LineTable::find_or_add(std::uint64_t number) {
  if (used_ * 2 >= slots_.size()) grow();
  std::size_t at = home(number);
  for (; slots_[at].number != number; at = (at + 1) & (slots_.size() - 1)) {
    if (slots_[at].number != 0) continue;
    slots_[at] = Line{.number = number};
    ++used_;
    ++lines_at_[number % lines_at_.size()];
    break;
  }
  return slots_[at];
}

// Moves later lines of the same run back over the gap, so that every line stays reachable.
void LineTable::remove(Line* line) noexcept {
  --lines_at_[line->number % lines_at_.size()];
  const std::size_t mask = slots_.size() - 1;
  auto gap = static_cast<std::size_t>(line - slots_.data());
  for (std::size_t at = (gap + 1) & mask; slots_[at].number != 0; at = (at + 1) & mask) {
    if (((at - home(slots_[at].number)) & mask) < ((at - gap) & mask)) continue;
    slots_[gap] = slots_[at];
    gap = at;
  }
  slots_[gap].number = 0;
  --used_;
}

void LineTable::grow() {
  std::vector<Line> old(slots_.size() * 2);
  old.swap(slots_);
  used_ = 0;
  lines_at_.fill(0);
  for (const Line& line : old)
    if (line.number != 0) find_or_add(line.number) = line;
}

void Transactions::start(unsigned threads, const CacheShape& l1, const CacheShape& l2) {
  constexpr std::uint64_t line_bytes = 1U << line_bits;
  l1_ways_ = static_cast<std::uint8_t>(l1.ways);
  l1_sets_ = std::max<std::size_t>(1, l1.bytes / line_bytes / std::max(1U, l1.ways));
  most_lines_read_ = l2.bytes / line_bytes;
  of_thread_.resize(threads);
}

std::uint32_t Transactions::begin(SimulatedThread& thread, std::byte* frame,
                                  const std::byte* caller_frame) {
  if (thread.transaction != nullptr) {  // a nested one is part of the outer one
    ++thread.transaction->depth;
    return started;
  }
  // A spilled register of the caller may change inside the transaction, unseen by any hook.
  constexpr std::ptrdiff_t pushed_words_bytes = 7 * 8;
  constexpr std::ptrdiff_t most_frame_bytes = 16384;
  std::ptrdiff_t bytes = caller_frame - frame + 16;
  if (bytes < pushed_words_bytes || bytes > most_frame_bytes) bytes = most_frame_bytes;
  bytes = std::min(bytes, thread.stack_top - frame);

  Transaction& mine = of_thread_[thread.number];
  mine.depth = 1;
  mine.undone = false;
  mine.frame = frame;
  mine.stack.assign(frame, frame + bytes);
  mine.undo.clear();
  mine.old_bytes.clear();
  mine.lines.clear();
  mine.written_in_set.assign(l1_sets_, 0);
  mine.lines_read = 0;
  mine.read.clear();
  mine.written.clear();
  mine.node = thread.node;
  if (engine.timed) {
    engine.machine->transaction_begin(thread.number);
    engine.read_clock(thread);
  }
  thread.transaction = &mine;
  ++under_way_;
  engine.choose_hooks();
  return started;
}

void Transactions::commit(SimulatedThread& thread) {
  Transaction& mine = *thread.transaction;
  if (--mine.depth != 0) return;
  if (engine.timed) {
    engine.machine->transaction_commit(thread.number);
    engine.read_clock(thread);
  }
  leave_lines(thread.number, mine);
  thread.transaction = nullptr;
  --under_way_;
  engine.choose_hooks();
}

void Transactions::abort(SimulatedThread& thread, AbortCause cause) {
  undo(thread, cause);
  resume(thread);
}

void Transactions::undo(SimulatedThread& victim, AbortCause cause) {
  Transaction& mine = *victim.transaction;
  for (std::size_t i = mine.undo.size(); i-- > 0;) {
    const Transaction::Undo& entry = mine.undo[i];
    std::copy_n(mine.old_bytes.data() + entry.position, entry.bytes, entry.address);
    if (engine.guarded) engine.guard.accept(entry.address, entry.bytes);
  }
  leave_lines(victim.number, mine);
  mine.undone = true;
  mine.cause = cause;
  victim.loads.forget();
  --under_way_;
  engine.choose_hooks();
}

void Transactions::resume(SimulatedThread& thread) {
  Transaction& mine = *thread.transaction;
  if (engine.timed) {
    engine.machine->transaction_abort(thread.number, mine.cause);
    engine.read_clock(thread);
  }
  if (engine.profiled) engine.profile.unwind(thread, mine.node);
  thread.transaction = nullptr;
  perdure_transaction_resume(mine.frame, mine.stack.data(), mine.stack.size(),
                             status_of(mine.cause));
}

void Transactions::leave_lines(unsigned thread, Transaction& transaction) noexcept {
  const std::uint64_t mine = std::uint64_t{1} << (thread % 64);
  for (const std::uint64_t number : transaction.lines) {
    LineTable::Line* line = lines_.find(number);
    if (line == nullptr) continue;  // entered twice: read, then written
    line->readers[thread / 64] &= ~mine;
    if (line->writer == thread) {
      line->writer = LineTable::no_writer;
      --written_lines_;
    }
    const bool unused = line->writer == LineTable::no_writer &&
                        std::ranges::all_of(line->readers, [](auto word) { return word == 0; });
    if (unused) lines_.remove(line);
  }
  transaction.lines.clear();
}

// Undoes all other transactions that have the line; the table may have moved afterwards.
void Transactions::undo_others(SimulatedThread& thread, std::uint64_t number, bool readers_too) {
  if (!lines_.may_hold(number)) return;
  const LineTable::Line* found = lines_.find(number);
  if (found == nullptr) return;
  const LineTable::Line line = *found;
  auto& threads = engine.scheduler.threads();
  if (line.writer != LineTable::no_writer && line.writer != thread.number)
    undo(*threads[line.writer], AbortCause::conflict);
  if (!readers_too) return;
  for (unsigned word = 0; word < line.readers.size(); ++word) {
    for (std::uint64_t left = line.readers[word]; left != 0; left &= left - 1) {
      const unsigned reader = word * 64 + static_cast<unsigned>(__builtin_ctzll(left));
      if (reader == thread.number || reader == line.writer) continue;
      undo(*threads[reader], AbortCause::conflict);
    }
  }
}

void Transactions::on_load(SimulatedThread& thread, const void* address) {
  const std::uint64_t number = line_number(address);
  Transaction* const mine = thread.transaction;
  if (mine != nullptr && mine->read.has(number)) return;
  if (written_lines_ != 0) undo_others(thread, number, false);
  if (mine == nullptr) return;
  mine->read.note(number);
  LineTable::Line& line = lines_.find_or_add(number);
  const std::uint64_t bit = std::uint64_t{1} << (thread.number % 64);
  std::uint64_t& readers = line.readers[thread.number / 64];
  if ((readers & bit) != 0) return;
  readers |= bit;
  mine->lines.push_back(number);
  if (++mine->lines_read > most_lines_read_) abort(thread, AbortCause::capacity);
}

void Transactions::on_store(SimulatedThread& thread, const void* address, std::size_t bytes) {
  const std::uint64_t number = line_number(address);
  Transaction* const mine = thread.transaction;
  if (mine == nullptr || !mine->written.has(number)) undo_others(thread, number, true);
  if (mine == nullptr) return;
  remember(*mine, thread, address, bytes);
  if (mine->written.has(number)) return;
  mine->written.note(number);
  LineTable::Line& line = lines_.find_or_add(number);
  if (line.writer == thread.number) return;
  line.writer = thread.number;
  ++written_lines_;
  mine->lines.push_back(number);
  const std::uint64_t physical = engine.space.translate(address) >> line_bits;
  if (++mine->written_in_set[physical % l1_sets_] > l1_ways_) abort(thread, AbortCause::capacity);
}

void Transactions::remember(Transaction& transaction, const SimulatedThread& thread,
                            const void* address, std::size_t bytes) {
  auto* const at = static_cast<std::byte*>(const_cast<void*>(address));
  // T2: below the begin lies what runs inside, and this very function.
  if (at >= thread.stack && at < transaction.frame) return;
  const auto position = static_cast<std::uint32_t>(transaction.old_bytes.size());
  transaction.old_bytes.insert(transaction.old_bytes.end(), at, at + bytes);
  transaction.undo.push_back({at, static_cast<std::uint32_t>(bytes), position});
}

}  // namespace perdure::platform::runtime

extern "C" std::uint32_t perdure_transaction_started(std::byte* frame,
                                                     const std::byte* caller_frame) noexcept {
  using namespace perdure::platform::runtime;
  using perdure::platform::Observer;
  SimulatedThread* const thread = current;
  if (thread == nullptr && Observer::installed() != nullptr)
    return Observer::installed()->transaction_begin(frame, caller_frame);
  if (thread == nullptr || !engine.has_transactions) return 0;
  return engine.transactions.begin(*thread, frame, caller_frame);
}
