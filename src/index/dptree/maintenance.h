// When a DPTree rotates and merges, who does it, and what becomes of a full pool.
//
// D4  a merge reserves all leaves it needs before it writes anything, so it ends. Changes without
//     room are left over in `leftovers_`, and keep the middle tree and its log, or are carried over
//     to the front tree and its log. What is in the middle tree and not left over is in the base
//     tree, too.
// D5  blobs that a log mentions are freed only after the log was dropped.
// D6  memory that a thread may still read is freed only after a grace period. While a merge's is
//     not all freed, the worker tries again each millisecond, or without one a change in 256.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/result.h"
#include "index/dptree/leftovers.h"
#include "index/dptree/merge.h"
#include "index/dptree/parts.h"
#include "index/dptree/retired.h"
#include "index/dptree/split_claims.h"
#include "index/dptree/workers.h"

namespace perdure::dptree {

/// What a merge has done: nothing, for there was nothing to do or no room for any of it; a part;
/// or all, with nothing left over.
enum class MergeResult : std::uint8_t { nothing, part, all };

enum class MergePurpose : std::uint8_t {
  usual,
  make_room,  ///< what is left over is carried over, so that the front tree can be merged
  settle,     ///< all that can be merged is
};

template <class Keys>
class Maintenance {
 public:
  Maintenance(Parts<Keys>& parts, std::uint64_t workers)
      : parts_(parts), claims_(parts), retired_(parts.epochs), workers_(workers) {}

  /// After a change: true when `run` may have something to do. The caller is pinned.
  [[nodiscard]] bool may_be_due(const Buffer<Keys>& front, std::uint64_t hash) const noexcept {
    constexpr std::uint64_t changes_before_collecting = 256;
    const bool may_collect =
        !workers_.exist() && front.log().changes_beside(hash) % changes_before_collecting == 0;
    return may_collect || front.log().is_full_beside(hash, 1) ||
           (!workers_.exist() && workers_.is_sharing());
  }
  /// Merges a full front tree: the worker does; without one, the thread whose change filled it.
  void run();
  /// Merges that have freed anything until now.
  [[nodiscard]] std::uint64_t merges() const noexcept { return retired_.merges(); }
  /// Empties the logs as far as it can; false: that made no room, and neither did any merge since
  /// there were `merges`.
  [[nodiscard]] bool make_room(std::uint64_t merges);
  /// Merges all that can be merged, and frees all that is retired.
  void settle();
  /// Into an empty tree, past logs and buffer trees. Power-cut states: empty, or all records.
  [[nodiscard]] Result<void> load(std::span<const typename Keys::Record> records);

  /// Starts the workers, of a tree that is new or recovered.
  void start();
  void stop() { workers_.stop(); }

  [[nodiscard]] Leftovers& leftovers() noexcept { return leftovers_; }
  [[nodiscard]] const Leftovers& leftovers() const noexcept { return leftovers_; }
  [[nodiscard]] SplitClaims<Keys>& claims() noexcept { return claims_; }
  [[nodiscard]] const SplitClaims<Keys>& claims() const noexcept { return claims_; }
  [[nodiscard]] Workers& workers() noexcept { return workers_; }

  // The caller holds `merging`.
  /// The front tree becomes the middle tree. Power-cut states: before, or after; both hold the same
  /// records (A2).
  void rotate();
  /// Merges the middle tree; without one, the front tree.
  [[nodiscard]] MergeResult merge_one(MergePurpose purpose);

 private:
  void merge_what_is_full();
  [[nodiscard]] MergeResult merge_middle(MergePurpose purpose);
  [[nodiscard]] std::vector<LoggedChange> changes_to_merge(const Snapshot<Keys>& trees) const;
  void note_leftovers(std::span<const std::size_t> left, std::span<const LoggedChange> changes);
  [[nodiscard]] bool carry_over(const Snapshot<Keys>& trees, std::span<const std::size_t> left,
                                std::span<const LoggedChange> changes);
  void drop_middle(const Snapshot<Keys>& trees, std::vector<RecordWords>& dropped,
                   std::uint64_t records);
  void keep_what_is_logged(Buffer<Keys>& middle, std::vector<RecordWords>& dropped);
  void collect_retired(unsigned attempts);
  void collect_what_is_left();
  [[nodiscard]] Result<void> load_settled(std::span<const typename Keys::Record> records);

  /// This many changes are worth a merge, which looks at all leaves.
  [[nodiscard]] std::uint64_t paying_changes() const noexcept {
    return parts_.snapshot().base->size() / 16;
  }
  /// Splits for which a merge joins leaves, where the heap has no room for another leaf: a share
  /// of all, because the next merge looks at all leaves again.
  [[nodiscard]] std::size_t splits_to_join_for() const noexcept {
    constexpr std::size_t leaves_per_split = 128;
    return 1 + parts_.snapshot().base->size() / leaves_per_split;
  }
  /// Whether enough records are gone that a look for leaves to join is worth it.
  [[nodiscard]] bool may_join(MergePurpose purpose) const noexcept {
    return leftovers_.removed() > (purpose == MergePurpose::settle ? 0 : paying_changes());
  }

  Parts<Keys>& parts_;
  Leftovers leftovers_;
  SplitClaims<Keys> claims_;
  Retired retired_;
  Workers workers_;
};

extern template class Maintenance<IntegerKeys>;
extern template class Maintenance<ByteKeys>;

}  // namespace perdure::dptree
