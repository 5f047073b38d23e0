// The mix: which share of the operations is of which kind, exact to the operation.
//
// Shares are kept in parts per billion, so that what a user writes with up to nine decimals is
// exact and 0.1 + 0.2 + 0.7 is exactly 1.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "core/result.h"
#include "core/rng.h"

namespace perdure::workload {

[[nodiscard]] inline Error usage(std::string what, std::string_view where, std::string remedy) {
  return {ErrorCode::usage, std::move(what), std::string(where), std::move(remedy)};
}

enum class Operation : std::uint8_t {
  lookup,           ///< a key that was inserted
  lookup_negative,  ///< a key that never was: "not found" is its success
  insert,           ///< a fresh key
  upsert,           ///< a key that was inserted
  update,           ///< a key that was inserted
  remove,           ///< each key at most once, see stream.h
  scan,             ///< from a key that was inserted
  push,             ///< of a queue
  pop,              ///< of a queue
};
inline constexpr std::size_t operation_kinds = 9;
/// The first of them are those of indexes, of which mixes are made.
inline constexpr std::size_t index_operation_kinds = 7;

/// "lookup", "lookup_negative", ...: the names of flags, files and run records.
[[nodiscard]] const char* name_of(Operation operation) noexcept;

/// The operation of an index of that name. Errors: usage, with `where` and what may have been
/// meant.
[[nodiscard]] Result<Operation> parse_operation(std::string_view name, std::string_view where);

/// One number per kind of operation.
template <class T>
struct PerOperation {
  std::array<T, operation_kinds> of{};

  [[nodiscard]] T& operator[](Operation operation) noexcept {
    return of[static_cast<std::size_t>(operation)];
  }
  [[nodiscard]] const T& operator[](Operation operation) const noexcept {
    return of[static_cast<std::size_t>(operation)];
  }
  [[nodiscard]] T total() const noexcept {
    T sum{};
    for (const T& x : of) sum += x;
    return sum;
  }
  friend bool operator==(const PerOperation&, const PerOperation&) = default;
};

using OperationCounts = PerOperation<std::uint64_t>;

inline constexpr std::uint64_t whole_share = 1'000'000'000;

struct Mix {
  PerOperation<std::uint64_t> parts_per_billion{};  ///< sums to whole_share

  /// Only lookups.
  [[nodiscard]] static Mix lookups_only() noexcept {
    Mix mix;
    mix.parts_per_billion[Operation::lookup] = whole_share;
    return mix;
  }
  /// A queue's: not what each thread does, but what all do together.
  [[nodiscard]] static Mix pushes_and_pops() noexcept {
    Mix mix;
    mix.parts_per_billion[Operation::push] = whole_share / 2;
    mix.parts_per_billion[Operation::pop] = whole_share / 2;
    return mix;
  }
  [[nodiscard]] bool has(Operation operation) const noexcept {
    return parts_per_billion[operation] != 0;
  }
  [[nodiscard]] double share(Operation operation) const noexcept {
    return static_cast<double>(parts_per_billion[operation]) / static_cast<double>(whole_share);
  }
  friend bool operator==(const Mix&, const Mix&) = default;
};

/// Reads "lookup=0.9,insert=0.1". Rejects an unknown or repeated name, more than nine decimals and
/// any sum but exactly 1. Errors: usage, with `where`.
[[nodiscard]] Result<Mix> parse_mix(std::string_view text, std::string_view where = "--mix");

/// Reads one share, "0.9" or "1", into parts per billion. Errors: usage, with `where`.
[[nodiscard]] Result<std::uint64_t> parse_share(std::string_view text, std::string_view where);

/// The error for a mix that does not sum to exactly 1, or nothing.
[[nodiscard]] Result<void> check_sum(const Mix& mix, std::string_view where);

/// "lookup=0.9,insert=0.1": what parse_mix reads back.
[[nodiscard]] std::string text_of(const Mix& mix);

/// Every share rounded down to whole parts of `steps`, and what is left of all given to lookups:
/// the mix of a harness that picks each operation by a small random number. 0: as it is.
[[nodiscard]] Mix in_steps(const Mix& mix, std::uint64_t steps) noexcept;

/// How many of `operations` are of each kind: exact shares, rounded by largest remainder, so that
/// the counts sum to `operations`. `operations` < 2^63.
[[nodiscard]] OperationCounts apportion(const Mix& mix, std::uint64_t operations) noexcept;

/// The part of `counts` that thread `thread` of `threads` does: over all threads every kind sums to
/// its count, and two threads' totals differ by at most one.
[[nodiscard]] OperationCounts thread_part(const OperationCounts& counts, unsigned thread,
                                          unsigned threads) noexcept;

/// Deals a multiset of operations in uniformly random order without storing it: each kind is drawn
/// with the probability of what is left of it, which is what a shuffle does.
class Deck {
 public:
  Deck() = default;
  explicit Deck(const OperationCounts& counts) noexcept : left_(counts), total_(counts.total()) {}

  [[nodiscard]] std::uint64_t left() const noexcept { return total_; }

  /// Takes one more of a kind, if any is left.
  [[nodiscard]] bool take(Operation kind) noexcept {
    std::uint64_t& left = left_[kind];
    if (left == 0) return false;
    --left;
    --total_;
    return true;
  }
  /// The next operation; left() must not be 0.
  [[nodiscard]] Operation deal(Rng& rng) noexcept {
    std::uint64_t at = rng.below(total_--);
    std::size_t kind = 0;
    while (at >= left_.of[kind]) at -= left_.of[kind++];
    --left_.of[kind];
    return static_cast<Operation>(kind);
  }

 private:
  OperationCounts left_{};
  std::uint64_t total_ = 0;
};

/// The deck of a run without a fixed number of operations: the smallest multiple of the mix's
/// common denominator that is at least 4096, so that every deck holds the exact shares; times
/// `batch`, so that it holds whole batches.
[[nodiscard]] OperationCounts repeating_deck(const Mix& mix, std::uint64_t batch = 1) noexcept;

}  // namespace perdure::workload
