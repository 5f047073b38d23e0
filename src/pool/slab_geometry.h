// How the slab heap cuts chunks into blocks, class by class.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "core/rng.h"
#include "pool/size_classes.h"

namespace perdure::slab {

inline constexpr std::size_t chunk_bytes = std::size_t{64} << 10;
inline constexpr std::uint32_t most_chunks = 16;  ///< of a span

/// How a class is cut from the pool: `blocks` of its size in a span of `chunks`.
struct Geometry {
  std::uint32_t bytes = 0;
  std::uint32_t chunks = 0;
  std::uint32_t blocks = 0;
  std::uint32_t words = 0;     ///< of the bitmap
  std::uint32_t capacity = 0;  ///< blocks a slot may cache
};

// The shortest span that wastes little at its end: 1 % for nodes, because they fill the pool; more
// for big blocks, because long spans of many classes would exhaust a small pool.
constexpr Geometry geometry_of(unsigned size_class) {
  constexpr std::size_t node_bytes = 2048;
  constexpr std::size_t cached_bytes = 32 << 10;
  const std::size_t bytes = size_classes::bytes_of(size_class);
  Geometry best{};
  for (std::uint32_t chunks = 1; chunks <= most_chunks; ++chunks) {
    const std::size_t span = chunks * chunk_bytes;
    const std::size_t waste = span % bytes;
    if (span < bytes || waste > span / (bytes <= node_bytes ? 100 : 12)) continue;
    best.bytes = static_cast<std::uint32_t>(bytes);
    best.chunks = chunks;
    best.blocks = static_cast<std::uint32_t>(span / bytes);
    best.words = (best.blocks + 63) / 64;
    best.capacity = static_cast<std::uint32_t>(std::min<std::size_t>(cached_bytes / bytes, 32));
    break;
  }
  return best;
}

inline constexpr auto geometry = [] {
  std::array<Geometry, size_classes::count> table{};
  for (unsigned c = 0; c < size_classes::count; ++c) table[c] = geometry_of(c);
  return table;
}();
static_assert(std::ranges::all_of(geometry, [](const Geometry& g) { return g.blocks > 0; }));

/// What a block adds to the sum of a census (pool/heap.h).
[[nodiscard]] inline std::uint64_t census_hash(std::uint64_t offset, unsigned size_class) noexcept {
  return mix64(offset ^ std::uint64_t{size_class + 1} << 52);
}

}  // namespace perdure::slab
