// IdMap: keys to places, in DRAM: a hash table of cache lines, each with as many entries as it
// holds, at most two thirds full. Keys taken out leave no mark.
//
// M1  all lines from the line that a key hashes to up to the one before its own are full. So a
// search ends in a line
//     with room; the first line mostly, where the entries are compared without a branch on any, so
//     that a core goes on to other operations while it waits for the line.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <utility>

#include "core/rng.h"
#include "pm/persist.h"
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
    for (std::size_t i = home_of(key);; i = (i + 1) & mask_) {
      Line& line = lines_[i];
      unsigned alike = 0;
      for (unsigned entry = 0; entry < width; ++entry)
        alike |= static_cast<unsigned>(line.key[entry] == key) << entry;
      for (; alike != 0; alike &= alike - 1)  // a key without a place was taken out
        if (Place& place = line.place[std::countr_zero(alike)]) return &place;
      if (!is_full(line)) return nullptr;
    }
  }
  [[nodiscard]] const Place* find(std::uint64_t key) const noexcept {
    return const_cast<IdMap*>(this)->find(key);
  }
  /// The key is absent.
  void add(std::uint64_t key, const Place& place) {
    if (++size_ * 3 > (mask_ + 1) * width * 2) resize((mask_ + 1) * width * 2);
    put(key, place);
  }
  /// The key is present.
  void remove(std::uint64_t key) noexcept {
    std::size_t hole = home_of(key);
    unsigned entry = 0;
    while (!holds(lines_[hole], key, entry)) hole = (hole + 1) & mask_;
    --size_;
    // M1: what went past a line that was full may have to come back to it.
    for (std::size_t next = hole; is_full(lines_[next]);) {
      next = (next + 1) & mask_;
      unsigned from = 0;
      if (!has_passed(lines_[next], next, hole, from)) continue;
      lines_[hole].key[entry] = lines_[next].key[from];
      lines_[hole].place[entry] = lines_[next].place[from];
      hole = next;
      entry = from;
    }
    lines_[hole].place[entry] = Place{};
  }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] std::uint64_t dram_bytes() const noexcept { return (mask_ + 1) * sizeof(Line); }

 private:
  static constexpr unsigned width =
      std::max<std::size_t>(1, pm::cache_line_bytes / (sizeof(std::uint64_t) + sizeof(Place)));
  struct alignas(pm::cache_line_bytes) Line {
    std::uint64_t key[width];
    Place place[width];
  };

  [[nodiscard]] std::size_t home_of(std::uint64_t key) const noexcept { return mix64(key) & mask_; }
  /// A bit for each entry in use. No branch on an entry: how many there are cannot be foreseen, and
  /// a core that guesses wrong does nothing else until the line is there.
  [[nodiscard]] static unsigned used(const Line& line) noexcept {
    unsigned bits = 0;
    for (unsigned entry = 0; entry < width; ++entry)
      bits |= static_cast<unsigned>(bool{line.place[entry]}) << entry;
    return bits;
  }
  [[nodiscard]] static bool is_full(const Line& line) noexcept {
    return used(line) == (1U << width) - 1;
  }
  [[nodiscard]] static bool holds(const Line& line, std::uint64_t key, unsigned& entry) noexcept {
    for (entry = 0; entry < width; ++entry)
      if (line.place[entry] && line.key[entry] == key) return true;
    return false;
  }
  /// Whether line `at` has an entry that would lie in `hole`, before it, if that had had room.
  [[nodiscard]] bool has_passed(const Line& line, std::size_t at, std::size_t hole,
                                unsigned& entry) const noexcept {
    for (entry = 0; entry < width; ++entry)
      if (line.place[entry] && ((at - home_of(line.key[entry])) & mask_) >= ((at - hole) & mask_))
        return true;
    return false;
  }
  void put(std::uint64_t key, const Place& place) noexcept {
    std::size_t i = home_of(key);
    while (is_full(lines_[i])) i = (i + 1) & mask_;
    const auto entry = static_cast<unsigned>(std::countr_one(used(lines_[i])));
    lines_[i].key[entry] = key;
    lines_[i].place[entry] = place;
  }
  /// Room for as many entries as `wanted`. Throws std::bad_alloc.
  void resize(std::size_t wanted) {
    std::size_t more = least;
    while (more * width < wanted) more *= 2;
    Result<Mapping> memory = Mapping::anonymous(more * sizeof(Line), 0);  // zero: no place
    if (!memory) throw std::bad_alloc();
    if (huge_pages_) request_huge_pages(memory->base(), more * sizeof(Line), Medium::anonymous);
    const Mapping old = std::exchange(memory_, std::move(memory).value());
    const std::span before(lines_, lines_ == nullptr ? 0 : mask_ + 1);
    lines_ = reinterpret_cast<Line*>(memory_.base());
    mask_ = more - 1;
    for (const Line& line : before)
      for (unsigned entry = 0; entry < width; ++entry)
        if (line.place[entry]) put(line.key[entry], line.place[entry]);
  }

  static constexpr std::size_t least = 4096 / pm::cache_line_bytes;  ///< a page of lines
  bool huge_pages_;
  Mapping memory_;
  Line* lines_ = nullptr;  ///< in `memory_`
  std::size_t mask_ = 0;
  std::size_t size_ = 0;
};

}  // namespace perdure::structure
