// What DRAM leaves with their records in key order share: how entries move, and how one is found.
//
// S1  entries are in the order of their keys; a key word is an integer key, or the first eight
// bytes
//     of a byte string, so several entries of byte strings may share one.
// S2  key words from the count on are 2^64 - 1.
// S3  a leaf is changed only under its lock. Readers take none: what they read counts once the
//     lock's version was validated, and what an entry leads to is followed only after that.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "core/assert.h"

namespace perdure {

/// Where a key is in its leaf, or would be.
struct LeafPosition {
  unsigned rank = 0;  ///< entries with smaller keys
  bool present = false;
};

/// A base of `Leaf`, which has `entries`, count(), key_word(i), entry(i), up_to(word), and for its
/// friend set(i, entry), unset(i) and set_count(n).
template <class Leaf, class Entry>
class SortedLeaf {
 public:
  static constexpr std::uint64_t unused_key = ~std::uint64_t{0};

  // The caller holds the lock, or the leaf is not yet visible.

  /// Adds an entry at position i; the leaf is not full.
  void insert_at(unsigned i, const Entry& added) noexcept {
    const unsigned n = self().count();
    PERDURE_ASSERT(n < Leaf::entries && i <= n);
    for (unsigned k = n; k > i; --k) self().set(k, self().entry(k - 1));
    self().set(i, added);
    self().set_count(n + 1);
  }
  void remove_at(unsigned i) noexcept {
    const unsigned n = self().count();
    PERDURE_ASSERT(i < n);
    for (unsigned k = i + 1; k < n; ++k) self().set(k - 1, self().entry(k));
    shrink(n - 1);
  }
  /// Moves the entries from `first` on to `right`, an empty leaf.
  void split(unsigned first, Leaf& right) noexcept {
    PERDURE_ASSERT(right.count() == 0);
    for (unsigned i = first, n = self().count(); i < n; ++i)
      right.insert_at(i - first, self().entry(i));
    shrink(first);
  }

  /// Where `key` with the key word `word` is. Follows entries with `key_of(entry)` where key words
  /// tie; asks `stable()` before it does, and gives up when that is false: the caller validates
  /// before it believes anything.
  template <class Key, class KeyOf, class Stable>
  [[nodiscard]] LeafPosition search(std::uint64_t word, const Key& key, KeyOf&& key_of,
                                    Stable&& stable) const noexcept {
    unsigned end = self().up_to(word);
    if (end == 0 || self().key_word(end - 1) != word) return {end, false};
    if constexpr (std::is_integral_v<Key>) return {end - 1, true};
    unsigned first = word == 0 ? 0 : std::min(end, self().up_to(word - 1));
    while (first < end) {
      const unsigned middle = first + (end - first) / 2;
      const Entry entry = self().entry(middle);
      if (!stable()) return {};
      const Key found = key_of(entry);
      if (found == key) return {middle, true};
      if (found < key)
        first = middle + 1;
      else
        end = middle;
    }
    return {first, false};
  }

 private:
  [[nodiscard]] Leaf& self() noexcept { return static_cast<Leaf&>(*this); }
  [[nodiscard]] const Leaf& self() const noexcept { return static_cast<const Leaf&>(*this); }

  void shrink(unsigned to) noexcept {
    for (unsigned i = to, n = self().count(); i < n; ++i) self().unset(i);  // S2
    self().set_count(to);
  }
};

}  // namespace perdure
