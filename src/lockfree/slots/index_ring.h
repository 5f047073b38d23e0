// IndexRing: a lock-free FIFO of small numbers in DRAM, for any number of threads; each number that
// it holds has a ticket, ascending in the order in which they leave.
//
// The algorithm is SCQ (Nikolaev, DISC 2019). Tail and head are counters that fetch-and-add hands
// out as tickets; ticket t belongs to cell t mod cells, in cycle t / cells.
//
//   cell, 64 bits:  | cycle 46 | safe 1 | number 17 |        number all ones: none
//
// Q1  a cell holds the number that was pushed with ticket t <=> its cycle is that of t and its
//     number is one. It is stored by one compare-and-swap, and taken by whoever drew t at the head.
// Q2  a ticket at the head that finds nothing in its cell moves the cell on to its cycle (or, while
//     an older number is still in it, marks it unsafe), so that no push can use the ticket any
//     more: who drew it at the tail draws another.
// Q3  every ticket below `head` has been drawn by some pop, so whatever is or will be stored with
//     such a ticket belongs to that pop, which has taken it or is under way.
// Q4  at most cells / 2 numbers are in the ring, and at most that many threads use it. So after
//     3 * cells / 2 - 1 failed draws in a row at the head the ring has been empty, which
//     `threshold_` counts down: pops end although pushes and pops keep overtaking each other.
//
// Deviation from SCQ: a pop that follows a failed one looks at the counters before it draws a
// ticket, so that asking an empty ring again and again does not move its head.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/assert.h"
#include "pm/thread.h"

namespace perdure::lockfree {

class IndexRing {
 public:
  static constexpr std::uint32_t none = (1U << 17) - 1;
  static constexpr std::uint64_t most_numbers = 1U << 16;

  /// For at most `numbers` (at most most_numbers) numbers at a time.
  explicit IndexRing(std::uint64_t numbers)
      : bits_(static_cast<unsigned>(std::bit_width(std::bit_ceil(least_half(numbers))))),
        cell_(std::make_unique<std::atomic<std::uint64_t>[]>(cells())),
        head_(cells()),
        tail_(cells()) {
    PERDURE_ASSERT(numbers <= most_numbers);
    for (std::uint64_t i = 0; i < cells(); ++i)
      cell_[i].store(word_of(0, true, none), std::memory_order_relaxed);
  }

  /// The ticket of the first push.
  [[nodiscard]] std::uint64_t first_ticket() const noexcept { return cells(); }
  /// Every ticket below has been drawn by a pop (Q3).
  [[nodiscard]] std::uint64_t head() const noexcept { return head_.load(); }

  /// Appends `number`; returns its ticket.
  std::uint64_t push(std::uint32_t number) noexcept {
    for (;;) {
      const std::uint64_t ticket = tail_.fetch_add(1);
      if (!put(ticket, number)) continue;
      if (threshold_.load() != full_threshold()) threshold_.store(full_threshold());
      return ticket;
    }
  }

  struct Taken {
    std::uint32_t number = none;  ///< none: the ring was empty
    std::uint64_t ticket = 0;
  };
  /// Takes the oldest number.
  [[nodiscard]] Taken pop() noexcept {
    const std::int64_t left = threshold_.load();
    if (left < 0) return {};
    if (left != full_threshold()) {
      const std::uint64_t head = head_.load();  // first: tail below an older head is below the new
      if (tail_.load() <= head) return {};
    }
    for (;;) {
      const std::uint64_t ticket = head_.fetch_add(1);
      if (const std::uint32_t number = take(ticket); number != none) return {number, ticket};
      const std::uint64_t tail = tail_.load();
      if (tail <= ticket + 1) {
        catch_up(tail, ticket + 1);
        threshold_.fetch_sub(1);
        return {};
      }
      if (threshold_.fetch_sub(1) <= 0) return {};
    }
  }

  /// Calls `visit(ticket, number)` for what it holds, in no order. No other operation may run.
  template <class Visit>
  void for_each(Visit&& visit) const {
    for (std::uint64_t i = 0; i < cells(); ++i) {
      const std::uint64_t word = cell_[place_of(i)].load(std::memory_order_relaxed);
      if (number_in(word) != none) visit(cycle_in(word) * cells() + i, number_in(word));
    }
  }
  /// Exact when no operation runs. Cost: a look at each cell.
  [[nodiscard]] std::uint64_t size() const noexcept {
    std::uint64_t count = 0;
    for_each([&](std::uint64_t, std::uint32_t) { ++count; });
    return count;
  }
  [[nodiscard]] std::uint64_t dram_bytes() const noexcept { return cells() * sizeof cell_[0]; }

 private:
  static constexpr unsigned number_bits = 17;
  static constexpr std::uint64_t safe_bit = std::uint64_t{1} << number_bits;
  static constexpr unsigned cycle_shift = number_bits + 1;
  static constexpr unsigned line_bits = 3;  ///< cells of a cache line

  [[nodiscard]] static constexpr std::uint64_t least_half(std::uint64_t numbers) noexcept {
    return numbers < pm::max_threads ? pm::max_threads : numbers;  // Q4
  }
  [[nodiscard]] static constexpr std::uint64_t word_of(std::uint64_t cycle, bool safe,
                                                       std::uint32_t number) noexcept {
    return cycle << cycle_shift | (safe ? safe_bit : 0) | number;
  }
  [[nodiscard]] static constexpr std::uint64_t cycle_in(std::uint64_t word) noexcept {
    return word >> cycle_shift;
  }
  [[nodiscard]] static constexpr bool is_safe(std::uint64_t word) noexcept {
    return (word & safe_bit) != 0;
  }
  [[nodiscard]] static constexpr std::uint32_t number_in(std::uint64_t word) noexcept {
    return static_cast<std::uint32_t>(word) & none;
  }

  [[nodiscard]] std::uint64_t cells() const noexcept { return std::uint64_t{1} << bits_; }
  [[nodiscard]] std::int64_t full_threshold() const noexcept {
    return static_cast<std::int64_t>(3 * (cells() / 2) - 1);
  }
  /// Neighbouring tickets have cells in different lines, because different threads use them.
  [[nodiscard]] std::uint64_t place_of(std::uint64_t ticket) const noexcept {
    const std::uint64_t i = ticket & (cells() - 1);
    return (i << line_bits & (cells() - 1)) | i >> (bits_ - line_bits);
  }

  /// False: a pop that drew the ticket has been here (Q2).
  [[nodiscard]] bool put(std::uint64_t ticket, std::uint32_t number) noexcept {
    std::atomic<std::uint64_t>& cell = cell_[place_of(ticket)];
    const std::uint64_t cycle = ticket >> bits_;
    std::uint64_t found = cell.load();
    while (cycle_in(found) < cycle && number_in(found) == none &&
           (is_safe(found) || head_.load() <= ticket))
      if (cell.compare_exchange_weak(found, word_of(cycle, true, number))) return true;
    return false;
  }

  /// What was pushed with the ticket, or none, and never will be (Q2).
  [[nodiscard]] std::uint32_t take(std::uint64_t ticket) noexcept {
    std::atomic<std::uint64_t>& cell = cell_[place_of(ticket)];
    const std::uint64_t cycle = ticket >> bits_;
    std::uint64_t found = cell.load();
    for (;;) {
      if (cycle_in(found) == cycle) {
        if (number_in(found) == none) return none;
        cell.fetch_or(none);  // the cycle stays, so no other changes the number meanwhile
        return number_in(found);
      }
      if (cycle_in(found) > cycle) return none;
      const std::uint64_t passed = number_in(found) == none
                                       ? word_of(cycle, is_safe(found), none)
                                       : word_of(cycle_in(found), false, number_in(found));
      if (cell.compare_exchange_weak(found, passed)) return none;
    }
  }

  /// Pops have drawn more tickets than pushes: the next push need not try them one by one.
  void catch_up(std::uint64_t tail, std::uint64_t head) noexcept {
    while (!tail_.compare_exchange_weak(tail, head)) {
      head = head_.load();
      tail = tail_.load();
      if (tail >= head) return;
    }
  }

  const unsigned bits_;
  const std::unique_ptr<std::atomic<std::uint64_t>[]> cell_;
  alignas(64) std::atomic<std::uint64_t> head_;
  alignas(64) std::atomic<std::uint64_t> tail_;
  alignas(64) std::atomic<std::int64_t> threshold_{-1};
};

}  // namespace perdure::lockfree
