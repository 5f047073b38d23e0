// IdMap: keys to places, in DRAM: open addressing with linear probing, at most two thirds full,
// keys taken out without leaving a mark.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/rng.h"

namespace perdure::structure {

/// `Place`: trivially copyable; made of nothing it is no place, which `operator bool` tells.
template <class Place>
class IdMap {
 public:
  explicit IdMap(std::size_t expected = 0) { resize(expected * 3 / 2); }

  /// Null: absent. Valid until the next change.
  [[nodiscard]] Place* find(std::uint64_t key) noexcept {
    Entry& entry = entries_[index_of(key)];
    return entry.place ? &entry.place : nullptr;
  }
  [[nodiscard]] const Place* find(std::uint64_t key) const noexcept {
    return const_cast<IdMap*>(this)->find(key);
  }
  /// The key is absent.
  void add(std::uint64_t key, const Place& place) {
    if (++size_ * 3 > entries_.size() * 2) resize(entries_.size() * 2);
    entries_[index_of(key)] = {key, place};
  }
  /// The key is present.
  void remove(std::uint64_t key) noexcept {
    std::size_t hole = index_of(key);
    for (std::size_t next = hole;;) {
      next = (next + 1) & mask_;
      if (!entries_[next].place) break;
      // What lies behind moves up, unless its own place is behind the hole.
      const std::size_t home = home_of(entries_[next].key);
      if (((next - home) & mask_) < ((next - hole) & mask_)) continue;
      entries_[hole] = entries_[next];
      hole = next;
    }
    entries_[hole].place = Place{};
    --size_;
  }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] std::uint64_t dram_bytes() const noexcept {
    return entries_.capacity() * sizeof(Entry);
  }

 private:
  struct Entry {
    std::uint64_t key;
    Place place;
  };

  [[nodiscard]] std::size_t home_of(std::uint64_t key) const noexcept { return mix64(key) & mask_; }
  /// Where the key is, or where it goes.
  [[nodiscard]] std::size_t index_of(std::uint64_t key) const noexcept {
    std::size_t i = home_of(key);
    while (entries_[i].place && entries_[i].key != key) i = (i + 1) & mask_;
    return i;
  }
  void resize(std::size_t wanted) {
    std::size_t slots = 16;
    while (slots < wanted) slots *= 2;
    std::vector<Entry> old(slots, Entry{});
    old.swap(entries_);
    mask_ = slots - 1;
    for (const Entry& entry : old)
      if (entry.place) entries_[index_of(entry.key)] = entry;
  }

  std::vector<Entry> entries_;
  std::size_t mask_ = 0;
  std::size_t size_ = 0;
};

}  // namespace perdure::structure
