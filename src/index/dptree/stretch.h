// A stretch: the base leaves that one thread writes of a merge, and what they become.
//
// A leaf that is changed in place: values go where they were, new records to slots without a bit,
// the order and the bitmap to the other set. Where all that changes is values, order and bitmap
// stay what they are, and so does the set. A leaf whose successor changes gets its other set, too,
// so the work goes from right to left.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "index/dptree/merge_plan.h"

namespace perdure::dptree {

template <class Keys>
class Stretch {
 public:
  using Key = typename Keys::Key;

  /// What it has written.
  struct Result {
    std::vector<std::pair<Key, LeafLink>> leaves;  ///< of the new version, from the right
    std::vector<std::uint64_t> old_leaves;         ///< that the new version does not use
    std::vector<RecordWords> dropped;              ///< records that it has no more
    std::uint64_t records = 0;
  };

  /// Of the leaves from `begin` on to before `end`, for which `blocks` were planned up to its end.
  Stretch(const MergePlan<Keys>& plan, std::size_t begin, std::size_t end, std::size_t blocks)
      : plan_(plan),
        parts_(plan.parts()),
        base_(plan.base()),
        begin_(begin),
        end_(end),
        blocks_left_(blocks),
        next_(end < base_.size() ? base_.leaf(end).offset() : null_offset) {}

  /// Writes the leaves, from right to left; durable with the next fence.
  void write() noexcept;
  /// The first leaf of the stretch or right of it.
  [[nodiscard]] std::uint64_t first() const noexcept { return next_; }
  [[nodiscard]] const Result& result() const noexcept { return result_; }

 private:
  struct NewRecord {
    RecordWords words;
    std::uint64_t hash;
  };

  void prefetch_sets(std::size_t leaf) const noexcept;
  void prefetch_records(std::size_t leaf) const noexcept;
  void write_leaf(std::size_t leaf);
  void merge_records(std::size_t leaf);
  void absorb(std::size_t leaf);
  [[nodiscard]] std::optional<unsigned> change_in_place(std::size_t leaf, const LeafView& view,
                                                        unsigned which);
  void write_grown_set(const LeafView& view, unsigned which, const Slots& kept);
  void write_merged_set(const LeafView& view, unsigned which);
  void write_set(const LeafView& view, unsigned which, std::size_t count, const Slots& live,
                 std::uint64_t complete);
  void write_pieces(std::size_t leaf, std::size_t pieces);
  void write_piece(std::uint64_t offset, std::size_t begin, std::size_t end);
  [[nodiscard]] std::uint64_t version() const noexcept { return base_.version + 1; }
  [[nodiscard]] Key key_of(std::size_t merged) const noexcept {
    return parts_.records.key_of(merged_[merged].words);
  }

  const MergePlan<Keys>& plan_;
  Parts<Keys>& parts_;
  const BaseMap<Keys>& base_;
  const std::size_t begin_;
  const std::size_t end_;
  std::size_t blocks_left_;  ///< of the plan's blocks, those for leaves left of the one at hand
  std::uint64_t next_;       ///< the leaf right of the one at hand
  std::vector<MergedRecord> merged_;  ///< of the leaf at hand
  std::vector<NewRecord> new_;        ///< to the leaf at hand
  Result result_;
};

extern template class Stretch<IntegerKeys>;
extern template class Stretch<ByteKeys>;

}  // namespace perdure::dptree
