// The anchor of DPTree: the block that the root leads to, and the word that decides everything.
//
//   byte 0     64       128     136        144
//        | set[0] | set[1] | state | log[2] |
//   state: bit 0        1         2..32        33..63
//          | front log | middle | generation | version |
//
// A1  `state` says which leaves exist (the version, leaf.h B1), which of the two logs is the front
//     tree's, whether the other is the middle tree's, and the front log's generation; the middle's
//     is one less. It changes by one 8-byte store.
// A2  a rotation makes the front log the middle one, and the other, which has no record of the new
//     generation, the front.
// A3  a merge ends with one store that takes the new version, and drops the middle log if nothing
//     of it is left over.
// A4  the sets are used as a leaf's, for their `next` alone: it leads to the first leaf.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "index/dptree/leaf.h"

namespace perdure::dptree {

struct State {
  unsigned front = 0;
  bool has_middle = false;
  std::uint64_t generation = 1;
  std::uint64_t version = 0;

  static constexpr unsigned generation_shift = 2;
  static constexpr unsigned version_shift = 33;
  static constexpr std::uint64_t field_mask = (std::uint64_t{1} << 31) - 1;

  [[nodiscard]] static State from(std::uint64_t word) noexcept {
    return {static_cast<unsigned>(word & 1), (word >> 1 & 1) != 0,
            word >> generation_shift & field_mask, word >> version_shift};
  }
  [[nodiscard]] std::uint64_t word() const noexcept {
    return front | std::uint64_t{has_middle} << 1 | generation << generation_shift |
           version << version_shift;
  }
  [[nodiscard]] unsigned middle() const noexcept { return 1 - front; }
};

struct Anchor {
  std::array<LeafSet, 2> set;
  std::atomic<std::uint64_t> state;
  std::array<std::atomic<std::uint64_t>, 2> log;
};
static_assert(sizeof(Anchor) == 192 && offsetof(Anchor, state) == 128);

}  // namespace perdure::dptree
