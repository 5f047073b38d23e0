// CacheTags: the tags of one set-associative cache with LRU replacement. No data, no time.
//
// Ways of a set lie side by side in order of use, the latest first, so that a hit in the first way
// (by far the most common) compares one word, and the victim is always the last.
#pragma once

#include <bit>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/rng.h"
#include "platform/model/large_allocator.h"

namespace perdure::platform {

using LineAddress = std::uint64_t;  ///< physical address >> 6

__extension__ using Wide = unsigned __int128;

class CacheTags {
 public:
  static constexpr std::uint64_t dirty_bit = 1;      ///< differs from memory
  static constexpr std::uint64_t exclusive_bit = 2;  ///< may be written without a request
  static constexpr std::uint64_t flag_bits = dirty_bit | exclusive_bit;

  /// What left the cache. `valid` false: nothing did.
  struct Victim {
    LineAddress line = 0;
    bool valid = false;
    bool dirty = false;
  };

  /// `hashed`: sets are chosen by a hash of the line, as in a sliced LLC; else by its low bits.
  CacheTags(std::uint64_t lines, unsigned ways, bool hashed)
      : ways_(ways), sets_(lines / ways == 0 ? 1 : lines / ways), tags_(sets_ * ways, nothing) {
    hashed_ = hashed || !std::has_single_bit(sets_);
  }

  /// The flags of the line, or `absent`. Changes nothing.
  static constexpr std::uint64_t absent = ~std::uint64_t{0};
  [[nodiscard]] std::uint64_t flags(LineAddress line) const noexcept {
    const Place place = find(line);
    return place.way == ways_ ? absent : tags_[place.first + place.way] & flag_bits;
  }
  [[nodiscard]] bool holds(LineAddress line) const noexcept { return find(line).way != ways_; }

  /// Where a line is, for those that look first and touch later.
  struct Place {
    std::size_t first;
    unsigned way;
  };
  [[nodiscard, gnu::always_inline]] Place find(LineAddress line) const noexcept {
    const std::size_t first = first_of(line);
    unsigned way = 0;
    while (way < ways_ && tags_[first + way] >> 2 != line) ++way;  // `nothing` is no line's number
    return {first, way};
  }
  /// It is there, with all of `needed`.
  [[nodiscard]] bool has(Place place, std::uint64_t needed = 0) const noexcept {
    return place.way != ways_ && (tags_[place.first + place.way] & needed) == needed;
  }
  /// As `touch` of a line that is there.
  [[gnu::always_inline]] std::uint64_t touch(Place place, std::uint64_t flags) noexcept {
    std::uint64_t* const set = &tags_[place.first];
    const std::uint64_t tag = set[place.way];
    std::uint64_t moved = tag | flags;
    for (unsigned i = 0; i <= place.way; ++i) std::swap(moved, set[i]);
    return tag & flag_bits;
  }

  /// Moves the line to the front, adds `flags` to it and returns those it had; `absent` on a miss.
  std::uint64_t touch(LineAddress line, std::uint64_t flags) noexcept {
    const Place place = find(line);
    return place.way == ways_ ? absent : touch(place, flags);
  }

  /// Holds nothing, as the cache of a socket that runs no threads does.
  [[nodiscard]] bool empty() const noexcept { return lines_ == 0; }

  /// The line that `insert` of `line` would push out; meaningless when its set has room.
  [[nodiscard]] LineAddress next_victim(LineAddress line) const noexcept {
    return tags_[first_of(line) + ways_ - 1] >> 2;
  }
  /// Prefetches the line's set into the host's cache.
  void prefetch_on_host(LineAddress line) const noexcept {
    const std::uint64_t* const set = &tags_[first_of(line)];
    for (unsigned way = 0; way < ways_; way += 8) __builtin_prefetch(set + way, 1);
    __builtin_prefetch(set + ways_ - 1, 1);
  }

  /// Puts a line that is not there in front and returns what it pushed out.
  Victim insert(LineAddress line, std::uint64_t flags, unsigned victim_way = ~0U) noexcept {
    std::uint64_t* const set = &tags_[first_of(line)];
    // Another victim than the last only when the set is full.
    const unsigned way = victim_way < ways_ && set[ways_ - 1] != nothing ? victim_way : ways_ - 1;
    const std::uint64_t out = set[way];
    std::uint64_t moved = line << 2 | flags;
    for (unsigned i = 0; i <= way; ++i) std::swap(moved, set[i]);
    if (out == nothing) {
      ++lines_;
      return {};
    }
    return {out >> 2, true, (out & dirty_bit) != 0};
  }

  /// Takes the line out; `valid` says whether it was there.
  Victim remove(LineAddress line) noexcept {
    const Place place = find(line);
    if (place.way == ways_) return {};
    std::uint64_t* const set = &tags_[place.first];
    const bool dirty = (set[place.way] & dirty_bit) != 0;
    std::uint64_t moved = nothing;
    for (unsigned i = ways_; i-- > place.way;) std::swap(moved, set[i]);
    --lines_;
    return {line, true, dirty};
  }

  void clear_flags(LineAddress line, std::uint64_t flags) noexcept {
    const Place place = find(line);
    if (place.way != ways_) tags_[place.first + place.way] &= ~flags;
  }

 private:
  static constexpr std::uint64_t nothing = ~std::uint64_t{0};

  [[nodiscard, gnu::always_inline]] std::size_t first_of(LineAddress line) const noexcept {
    if (!hashed_) return static_cast<std::size_t>(line & (sets_ - 1)) * ways_;
    // The two lines of a 128 B pair go to neighbouring sets.
    if (sets_ == 1) return 0;
    const std::uint64_t pair =
        static_cast<std::uint64_t>((static_cast<Wide>(mix64(line >> 1)) * (sets_ / 2)) >> 64);
    return static_cast<std::size_t>(pair * 2 + (line & 1)) * ways_;
  }

  unsigned ways_;
  std::uint64_t sets_;
  bool hashed_;
  std::uint64_t lines_ = 0;
  std::vector<std::uint64_t, LargeAllocator<std::uint64_t>> tags_;
};

}  // namespace perdure::platform
