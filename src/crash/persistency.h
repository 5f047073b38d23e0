// Persistency: what a power cut may leave on media, by the Px86 model.
//
// A line has a floor, the content that is on media for certain, and the steps made since: stores in
// the order they became visible, each within one aligned word. After a cut any prefix of the steps
// may be there; lines are independent.
//
// M1  clwb and clflushopt remember the prefix visible when they execute; it becomes the floor at
//     that thread's next fence or locked instruction, not before. clflush raises the floor at
//     once.
// M2  a streamed word is there or not, independently of other words, until its thread fences.
//     It is applied at its place among the steps, because a cached store to the same line evicts
//     it.
// M3  the stores of one committed hardware transaction to one line are one step. So is what code
//     without hooks (libpmemobj) stored to a line between two flushes of it. Under eADR all lines
//     of a transaction are one step.
// M4  eADR: a store is durable when it is visible. What may be missing is the tail of a thread's
//     stores that still waits in its store buffer: since its last fence, locked instruction, or
//     the moment another thread ran (a lower bound: real buffers drain later, which other
//     schedules try). Streamed words wait in write-combining buffers in either domain.
// M5  on request only: plain stores of one thread to one line, with nothing between them that
//     orders (an atomic store, flush, fence, call or return), may become visible in any order, as
//     the compiler likes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "crash/trace.h"

namespace perdure::crash {

/// What may be on media for one line, and which steps that leaves out.
struct Choice {
  LineContent content;
  std::uint32_t kept_steps;    ///< of the line's cached steps
  std::uint64_t kept_streams;  ///< bit i: the i-th streamed word
  std::uint64_t kept_early{};  ///< M5, bit i: the i-th cached step after the kept ones, too
};

/// A store, or the part of one that lies in one word.
struct Step {
  std::uint32_t event;  ///< place in the trace
  std::uint32_t group;  ///< steps of one transaction share it; 0: alone
  std::uint32_t run;    ///< M5: plain stores that the compiler may reorder share it; 0: alone
  std::uint8_t thread;
  std::uint8_t word;
  bool streamed;
  bool durable;        ///< streamed and fenced
  std::uint64_t mask;  ///< bits of the word that are written
  std::uint64_t value;
};

/// True when the choice holds the line's cached step of this number.
[[nodiscard]] bool is_kept(const Choice& choice, std::uint32_t number) noexcept;

/// Which of the line's steps the choice leaves out, and which it holds, by their events.
void divide(const Choice& choice, std::span<const Step> steps, std::vector<std::uint32_t>& lost,
            std::vector<std::uint32_t>& kept);

class Persistency {
 public:
  enum class Flush : std::uint8_t { clflush, clflushopt, clwb };
  /// Told whenever a floor rises: (line, new content).
  class Media {
   public:
    virtual ~Media() = default;
    [[nodiscard]] virtual LineContent read(LineNumber line) const = 0;
    virtual void write(LineNumber line, const LineContent& content) = 0;
  };

  /// `media` holds the image, all of it durable, and is kept at the floor.
  /// `reorder`: M5 holds.
  Persistency(Media& media, std::uint32_t lines, Domain domain, unsigned threads,
              bool reorder = false);

  /// A visible store to bytes [at, at + size) of one aligned word; `value` in its low bytes.
  void store(unsigned thread, std::uint64_t at, unsigned size, std::uint64_t value,
             std::uint32_t event, std::uint32_t group = 0, bool plain = false);
  void stream(unsigned thread, std::uint64_t at, std::uint64_t value, std::uint32_t event);
  void flush(unsigned thread, LineNumber line, Flush kind);
  /// sfence, mfence, or a locked read-modify-write.
  void fence(unsigned thread);
  /// A call or return: the compiler moves no store across it (M5).
  void order(unsigned thread) { ++threads_[thread].run; }
  /// Another thread runs from here on (M4).
  void switched(unsigned from);

  /// True when `fence(thread)` would raise a floor: the moment before it is a crash point.
  [[nodiscard]] bool fence_raises(unsigned thread) const;
  /// True when `switched(thread)` would.
  [[nodiscard]] bool switch_raises(unsigned thread) const;
  /// True when a flush of this kind raises a floor at once.
  [[nodiscard]] bool flush_raises(LineNumber line, Flush kind) const;
  /// True when the line has steps that no flush has remembered for this thread.
  [[nodiscard]] bool is_dirty(LineNumber line) const;
  [[nodiscard]] bool has_work(unsigned thread) const;

  /// Lines that may have more than one content, ascending.
  [[nodiscard]] const std::vector<LineNumber>& open_lines() const noexcept { return open_; }
  /// ADR: the contents a line may have, the floor first, the newest last; distinct. Valid until the
  /// line or its floor changes.
  [[nodiscard]] std::span<const Choice> choices(LineNumber line) const;
  /// Those of an open line, and the bytes in which they differ.
  struct Possible {
    std::span<const Choice> choices;
    Bytes undecided;
  };
  [[nodiscard]] Possible possible(LineNumber open) const;
  /// eADR: a store that waits in the store buffer.
  struct Buffered {
    LineNumber line;
    LineContent content;  ///< after it
    bool torn;            ///< the next one leaves the buffer with it (M3)
    std::uint32_t event;  ///< place in the trace
  };
  /// Oldest first.
  [[nodiscard]] std::vector<Buffered> buffered() const;
  [[nodiscard]] std::span<const Step> steps(LineNumber line) const;

 private:
  struct Line {
    std::vector<Step> steps;
    std::uint64_t first = 0;    ///< number of steps.front() among all the line ever had
    std::uint64_t certain = 0;  ///< cached steps before this number are on media
    // Made on demand, because lines that are stored to and never flushed stay open.
    mutable bool is_known = false;  ///< the choices, for this floor
    /// The last of them has all steps, none of which is streamed.
    mutable bool may_append = false;
    mutable LineContent floor{};
    mutable std::vector<Choice> choices;
    mutable Bytes undecided = 0;
  };
  struct Captured {
    LineNumber line;
    std::uint64_t upto;  ///< steps before this number are in the prefix
  };
  struct Waiting {
    LineNumber line;
    Step step;
  };
  struct Thread {
    std::vector<Captured> captured;
    std::vector<LineNumber> streamed;
    std::vector<Waiting> buffer;
    std::uint32_t run = 0;
  };

  Line& line_of(LineNumber line);
  void add(LineNumber line, const Step& step);
  /// Makes that of the newest step; false where all have to be made again.
  [[nodiscard]] static bool append_choice(const Line& of);
  [[nodiscard]] const Line* find(LineNumber line) const;
  void raise(LineNumber line, std::uint64_t upto);
  void drain(Thread& thread);
  void know_choices(LineNumber line, const Line& of) const;
  /// Which of the steps from number `kept` on may be there before the others of their run (M5).
  [[nodiscard]] static std::vector<std::uint64_t> early_ones(std::span<const Step> cached,
                                                             std::size_t kept, std::size_t certain);
  static void apply(const Step& step, LineContent& content) noexcept;

  Media& media_;
  Domain domain_;
  bool reorder_;
  std::vector<std::int32_t> index_;  ///< by line: its place in lines_, or -1
  std::vector<Line> lines_;
  std::vector<LineNumber> open_;  ///< every line with steps, ascending
  std::vector<Thread> threads_;
};

}  // namespace perdure::crash
