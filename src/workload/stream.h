// Streams of operations: what each thread does, generated block by block outside the timed path.
//
//   OperationStream stream(workload, {.thread = t, .threads = n});
//   stream.begin(repetition, workload.operations);
//   while ((steps = stream.fill(block)) != 0) { ... time the loop over block ... }
//   stream.settle(executed);          // only if the last block was not run to its end
//
// S1  A stream depends on the workload, thread and threads alone; threads share nothing, and thread
//     t draws from Rng(seed, t).
// S2  With a limit of N operations the kinds sum over all threads to apportion(dealt_mix(), N)
// exactly, in
//     random order; without one every deck of repeating_deck(dealt_mix()) is exact.
// S3  Inserts take ids that no other thread takes and that were never loaded: an insert fails only
//     when a key file or key set has run out of keys (fresh_exhausted()).
// S4  Lookups, upserts, updates and scans pick among the loaded ids and those this thread has
//     inserted so far. Under zipfian and self_similar a new id is the least popular, under latest
//     the most; under sequential only loaded ids are walked. With none of either, an upsert takes
//     a fresh id and the others an absent one.
// S5  Removes take each id at most once, under any distribution (under a skewed one nearly every
//     remove would hit a key already gone): first this thread's part of the loaded ids in random
//     order (in id order under sequential), then its own inserts, oldest first. With both used up a
//     remove takes a key already removed, and fails.
// S6  Nothing avoids removed ids. So a lookup or update fails exactly when its key was removed
//     before, by any thread, and not upserted since; without removes in the mix nothing fails.
//     With a key range S3 to S6 do not hold: every id is drawn from the whole range.
// S7  fill(), settle() and begin() never allocate.
// S8  With a batch of N kinds come in runs of N, each drawn as a single operation is; fewer only
//     where no more of a kind are left. So S2 holds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "core/rng.h"
#include "workload/distribution.h"
#include "workload/keys.h"
#include "workload/mix.h"
#include "workload/permutation.h"
#include "workload/workload.h"

namespace perdure::workload {

/// One operation on integer keys.
struct IntegerStep {
  std::uint64_t key;
  std::uint64_t value;       ///< insert, upsert, update
  std::uint32_t scan_count;  ///< scan
  Operation operation;
};
static_assert(sizeof(IntegerStep) == 24, "the timed loop reads one step per operation");

/// One operation on byte-string keys; the views point into the block's arena or the key file.
struct BytesStep {
  std::string_view key;
  std::string_view value;    ///< insert, upsert, update
  std::uint32_t scan_count;  ///< scan
  Operation operation;
};

/// One operation on integer keys whose values are byte strings; the view points into the block's
/// arena.
struct SlotStep {
  std::uint64_t key;
  std::string_view value;    ///< insert, upsert, update
  std::uint32_t scan_count;  ///< scan
  Operation operation;
};

/// Steps with text and the text they point to; allocated once, refilled for ever.
template <class Step>
class TextBlock {
 public:
  /// Room for `steps` steps and `arena_bytes` of text, or for one step if that is more.
  TextBlock(const Workload& workload, std::size_t steps, std::size_t arena_bytes);

  [[nodiscard]] std::span<const Step> steps() const noexcept { return {steps_.data(), size_}; }
  /// The memory that the keys and values of the steps lie in; the next fill() has its own.
  [[nodiscard]] std::unique_ptr<char[]> take_text() {
    return std::exchange(arena_, std::unique_ptr<char[]>(new char[arena_bytes_]));
  }

 private:
  friend class OperationStream;
  friend class LoadStream;
  void clear() noexcept { size_ = used_ = 0; }
  [[nodiscard]] bool has_room() const noexcept {
    return size_ < steps_.size() && used_ + step_bytes_ <= arena_bytes_;
  }
  void append(const KeySpace& keys, const ValueCodec& values, Operation operation, std::uint64_t id,
              std::uint64_t value_word, std::uint32_t scan_count) noexcept;
  void set_key(BytesStep& step, const KeySpace& keys, std::uint64_t id) noexcept;
  void set_key(SlotStep& step, const KeySpace& keys, std::uint64_t id) noexcept;

  std::vector<Step> steps_;
  std::size_t size_ = 0;
  std::size_t step_bytes_;  ///< the most text one step needs
  std::size_t arena_bytes_;
  std::size_t used_ = 0;
  std::unique_ptr<char[]> arena_;
};
using BytesBlock = TextBlock<BytesStep>;
using SlotBlock = TextBlock<SlotStep>;

/// Which of the threads this is, and where fresh ids begin.
struct Place {
  unsigned thread = 0;
  unsigned threads = 1;
  /// The lowest id run-phase inserts may take; 0 means `records`. A driver that reuses a pool
  /// passes one more than the highest id it holds (KeySpace::id_of), so that inserts stay fresh.
  std::uint64_t first_fresh_id = 0;
};

class OperationStream {
 public:
  /// The workload is validated and its key file open; it must outlive the stream.
  OperationStream(const Workload& workload, Place place);

  /// Starts repetition `repetition` of `operations` over all threads (0: without end). Draws from
  /// Rng(seed, thread) again for repetition 0 and from another seed for the others. Keys inserted
  /// and removed before stay so: the index still holds the effects of earlier repetitions.
  void begin(unsigned repetition, std::uint64_t operations) noexcept;

  /// Forgets everything, as constructed: for a new index. Call begin() next.
  void restart() noexcept;

  /// Writes the next steps into `block`; returns how many: block.size(), fewer at the end of the
  /// operations, then 0. Integer keys only.
  [[nodiscard]] std::size_t fill(std::span<IntegerStep> block) noexcept;
  /// The same with text; also stops when the arena is full. The step's kind of key must be the
  /// workload's.
  template <class Step>
  [[nodiscard]] std::size_t fill(TextBlock<Step>& block) noexcept;

  /// Takes back all but the first `executed` steps of the last fill(): inserts that were never run
  /// are fresh again. For a run that stops by the clock.
  void settle(std::size_t executed) noexcept;

  /// Operations of this repetition not yet generated; 2^64-1 without a limit.
  [[nodiscard]] std::uint64_t remaining() const noexcept;
  /// How many keys this thread has inserted, over all repetitions.
  [[nodiscard]] std::uint64_t inserted() const noexcept { return state_.inserted; }
  /// How many keys this thread has removed, over all repetitions.
  [[nodiscard]] std::uint64_t removed() const noexcept { return state_.removed; }
  /// True once a key file or key set had no key left for an insert: such inserts take a key already
  /// present and fail. A driver warns.
  [[nodiscard]] bool fresh_exhausted() const noexcept { return state_.fresh_exhausted; }

 private:
  struct Draw {
    Operation operation;
    std::uint64_t id;
    std::uint64_t value_word;
    std::uint32_t scan_count;
  };
  /// Everything that changes, so that settle() can go back to the start of a block.
  struct State {
    Rng rng{0};
    Deck deck;
    RankSampler sampler;
    std::uint64_t inserted = 0;
    std::uint64_t removed = 0;
    std::uint64_t walked = 0;                ///< sequential
    Operation run_kind = Operation::lookup;  ///< of the batch under way
    std::uint64_t run_left = 0;              ///< how many of it are still to come
    std::uint64_t writes = 0;                ///< versions of values when nobody verifies
    bool fresh_exhausted = false;
  };

  [[nodiscard]] bool ended() noexcept;
  [[nodiscard]] Draw next() noexcept;
  [[nodiscard]] Operation next_kind() noexcept;
  [[nodiscard]] std::uint64_t present_id() noexcept;
  [[nodiscard]] std::uint64_t fresh_id() noexcept;
  [[nodiscard]] std::uint64_t ranged_id() noexcept { return state_.rng.below(workload_.key_range); }
  [[nodiscard]] std::uint64_t removable_id() noexcept;
  [[nodiscard]] std::uint64_t absent_id() noexcept;
  [[nodiscard]] std::uint64_t own_id(std::uint64_t k) const noexcept;

  const Workload& workload_;
  Place place_;
  KeySpace keys_;
  ValueCodec values_;
  Permutation ranks_;     ///< rank -> loaded id
  Permutation removals_;  ///< order of removal -> loaded id
  OperationCounts endless_deck_{};
  std::uint64_t fresh_limit_;  ///< inserts this thread can make before the keys run out
  bool endless_ = true;
  State state_;
  State block_start_;
};

/// The records to load, in load order: thread t of n inserts every n-th. Values have version 0.
class LoadStream {
 public:
  LoadStream(const Workload& workload, unsigned thread, unsigned threads);

  /// As OperationStream::fill; every step is an insert.
  [[nodiscard]] std::size_t fill(std::span<IntegerStep> block) noexcept;
  template <class Step>
  [[nodiscard]] std::size_t fill(TextBlock<Step>& block) noexcept;
  [[nodiscard]] std::uint64_t remaining() const noexcept;

 private:
  [[nodiscard]] std::uint64_t next_id() noexcept;

  const Workload& workload_;
  KeySpace keys_;
  ValueCodec values_;
  Permutation order_;
  std::uint64_t position_;
  unsigned threads_;
};

}  // namespace perdure::workload
