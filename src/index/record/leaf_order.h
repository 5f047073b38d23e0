// The order of a leaf's records by key: a rank by counting, without a branch on any key.
//
// Sorting 45 records costs a comparison sort some 240 comparisons, half of them mispredicted. Here
// each key is cut to the 25 bits in which this leaf's keys differ most, and its rank is the number
// of smaller ones, counted many at a time. Keys that tie in those bits are noticed and sorted
// again. Of a few records none of this is worth its beginning.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <span>

#include "index/record/record_store.h"
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

namespace detail {

/// Fills `order` by the bits that are kept of keys which differ by `range` at most; right unless
/// two are the same in these.
inline void order_by_counting(LeafCopy& copy, std::uint64_t lowest, std::uint64_t range) noexcept {
  constexpr unsigned kept_bits = 25;
  constexpr unsigned slot_bits = 6;
  const unsigned count = copy.count;
  const auto width = static_cast<unsigned>(std::bit_width(range));
  const unsigned shift = width > kept_bits ? width - kept_bits : 0;
  std::array<std::int32_t, most_leaf_records> packed;
  for (unsigned i = 0; i < count; ++i)
    packed[i] = static_cast<std::int32_t>((copy.words[i].key - lowest) >> shift << slot_bits | i);
  for (unsigned i = count; i < most_leaf_records; ++i) packed[i] = 0;
  std::array<std::int32_t, most_leaf_records> rank;
  pm::rank_by_counting(packed, count, rank);
  for (unsigned i = 0; i < count; ++i)
    copy.order[static_cast<unsigned>(rank[i])] = static_cast<std::uint8_t>(i);
}

}  // namespace detail

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
  detail::order_by_counting(copy, lowest, highest - lowest);
  const auto end = copy.order.begin() + count;
  if (!std::is_sorted(copy.order.begin(), end, less)) std::sort(copy.order.begin(), end, less);
}

/// The same for keys whose words are between `lowest` and `highest`, as far as anybody knows; puts
/// the records into `sorted`, too.
template <class Keys>
void sort_by_key(LeafCopy& copy, const RecordStore<Keys>& store, std::uint64_t lowest,
                 std::uint64_t highest, std::span<RecordWords, most_leaf_records> sorted) {
  const auto put_in_order = [&] {
    bool ascends = true;
    for (unsigned r = 0; r < copy.count; ++r) {
      sorted[r] = copy.words[copy.order[r]];
      if (r > 0) ascends &= store.less(sorted[r - 1], sorted[r]);
    }
    return ascends;
  };
  if (copy.count > few_leaf_records) {
    detail::order_by_counting(copy, lowest, highest - lowest);
    if (put_in_order()) return;
  }
  sort_by_key(copy, store);
  put_in_order();
}

}  // namespace perdure
