// IdMap: keys to places, in DRAM: open addressing with linear probing, at most two thirds full,
// keys taken out without leaving a mark.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

#include "core/rng.h"
#include "pool/mapping.h"

namespace perdure::structure {

/// `Place`: trivially copyable; made of nothing it is no place, which `operator bool` tells.
template <class Place>
class IdMap {
 public:
  explicit IdMap(std::size_t expected = 0, bool huge_pages = false) : huge_pages_(huge_pages) {
    resize(expected * 3 / 2);
  }

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
    if (++size_ * 3 > slots() * 2) resize(slots() * 2);
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
  [[nodiscard]] std::uint64_t dram_bytes() const noexcept { return slots() * sizeof(Entry); }

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
  [[nodiscard]] std::size_t slots() const noexcept { return mask_ + 1; }
  /// Throws std::bad_alloc.
  void resize(std::size_t wanted) {
    std::size_t more = least;
    while (more < wanted) more *= 2;
    Result<Mapping> memory = Mapping::anonymous(more * sizeof(Entry), 0);  // zero: no place
    if (!memory) throw std::bad_alloc();
    if (huge_pages_) request_huge_pages(memory->base(), more * sizeof(Entry), Medium::anonymous);
    const Mapping old = std::exchange(memory_, std::move(memory).value());
    const Entry* const before = entries_;
    const std::size_t end = entries_ == nullptr ? 0 : slots();
    entries_ = reinterpret_cast<Entry*>(memory_.base());
    mask_ = more - 1;
    for (std::size_t i = 0; i < end; ++i)
      if (before[i].place) entries_[index_of(before[i].key)] = before[i];
  }

  static constexpr std::size_t least = std::bit_floor(4096 / sizeof(Entry));  ///< within a page
  bool huge_pages_;
  Mapping memory_;
  Entry* entries_ = nullptr;  ///< in `memory_`
  std::size_t mask_ = 0;
  std::size_t size_ = 0;
};

}  // namespace perdure::structure
