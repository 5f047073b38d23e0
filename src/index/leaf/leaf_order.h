// The order of a leaf's records by key: a rank by counting, without a branch on any key.
//
// Sorting 45 records costs a comparison sort some 240 comparisons, half of them mispredicted. Here
// each key is cut to the 25 bits in which this leaf's keys differ most, and its rank is the number
// of smaller ones, counted many at a time. Keys that tie in those bits are noticed and sorted
// again. A few records are sorted by insertion instead.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include "index/common/record_store.h"
#include "pm/simd.h"

namespace perdure {

inline constexpr unsigned most_leaf_records = 64;
/// Up to so many are sorted by insertion.
inline constexpr unsigned few_leaf_records = 6;

/// Records copied out of a leaf.
struct LeafCopy {
  std::array<RecordWords, most_leaf_records> words;
  std::array<std::uint8_t, most_leaf_records> order;  ///< order[r]: which is the r-th smallest
  unsigned count = 0;
};

/// Ranks the first words of keys, of up to 64, by the bits that are kept of words which lie between
/// two bounds; right unless two are the same in these, or beyond the bounds.
class WordRanks {
 public:
  WordRanks(std::uint64_t lowest, std::uint64_t highest) noexcept : lowest_(lowest) {
    constexpr unsigned kept_bits = 25;
    const auto width = static_cast<unsigned>(std::bit_width(highest - lowest));
    shift_ = width > kept_bits ? width - kept_bits : 0;
  }

  void add(std::uint64_t word) noexcept {
    constexpr unsigned number_bits = 6;
    packed_[count_] = static_cast<std::int32_t>((word - lowest_) >> shift_ << number_bits | count_);
    ++count_;
  }
  /// Calls visit(rank, i) for the i-th word that was added, in the order of i.
  template <class Visit>
  void each(Visit&& visit) noexcept {
    std::fill(packed_.begin() + count_, packed_.end(), 0);
    std::array<std::int32_t, most_leaf_records> rank;
    pm::rank_by_counting(packed_, count_, rank);
    for (unsigned i = 0; i < count_; ++i) visit(static_cast<unsigned>(rank[i]), i);
  }

 private:
  const std::uint64_t lowest_;
  unsigned shift_;
  unsigned count_ = 0;
  std::array<std::int32_t, most_leaf_records> packed_;
};

/// Fills `order`. The blobs of the words are safe to read (they were validated, the caller is
/// pinned).
template <class Keys>
void sort_by_key(LeafCopy& copy, const RecordStore<Keys>& store) {
  const unsigned count = copy.count;
  const auto less = [&](std::uint8_t a, std::uint8_t b) {
    return store.less(copy.words[a], copy.words[b]);
  };
  if (count <= few_leaf_records) {
    for (unsigned i = 0; i < count; ++i) {
      unsigned at = i;
      for (; at > 0 && less(static_cast<std::uint8_t>(i), copy.order[at - 1]); --at)
        copy.order[at] = copy.order[at - 1];
      copy.order[at] = static_cast<std::uint8_t>(i);
    }
    return;
  }
  std::uint64_t lowest = ~std::uint64_t{0};
  std::uint64_t highest = 0;
  for (unsigned i = 0; i < count; ++i) {
    lowest = std::min(lowest, copy.words[i].key);
    highest = std::max(highest, copy.words[i].key);
  }
  WordRanks ranks(lowest, highest);
  for (unsigned i = 0; i < count; ++i) ranks.add(copy.words[i].key);
  ranks.each([&](unsigned rank, unsigned i) { copy.order[rank] = static_cast<std::uint8_t>(i); });
  const auto end = copy.order.begin() + count;
  if (!std::is_sorted(copy.order.begin(), end, less)) std::sort(copy.order.begin(), end, less);
}

}  // namespace perdure
