// Graph: an index whose records are the directed edges of a graph. The key names the edge, the
// value is what is known of it, its properties.
//
//   key  | source 32 | target 32 |      so that the edges of a vertex are neighbours in key order
//
// G1  a vertex is there as long as an edge leaves it; there is at most one edge from one vertex to
//     another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "index/index.h"

namespace perdure::structure {

class Graph {
 public:
  using Vertex = std::uint32_t;

  virtual ~Graph() = default;

  /// The graph that `index` is; null: its records are no edges.
  [[nodiscard]] static Graph* of(SlotIndex& index) noexcept { return dynamic_cast<Graph*>(&index); }

  [[nodiscard]] static constexpr std::uint64_t edge(Vertex source, Vertex target) noexcept {
    return std::uint64_t{source} << 32 | target;
  }
  [[nodiscard]] static constexpr Vertex source_of(std::uint64_t edge) noexcept {
    return static_cast<Vertex>(edge >> 32);
  }
  [[nodiscard]] static constexpr Vertex target_of(std::uint64_t edge) noexcept {
    return static_cast<Vertex>(edge);
  }

  /// ok | exists | out_of_space | invalid.
  Outcome insert_edge(Vertex source, Vertex target, std::string_view properties = {}) {
    return edges().insert(edge(source, target), properties);
  }
  /// ok | not_found.
  Outcome delete_edge(Vertex source, Vertex target) { return edges().remove(edge(source, target)); }

  /// Appends to a cleared `out` the edges that leave `source`, all of one moment: each with its key
  /// (`target_of`) and its properties. In key order if the index is ordered. Returns out.size().
  virtual std::size_t neighbours(Vertex source, SlotScan& out) = 0;

  /// All edges, as the index that they are.
  [[nodiscard]] virtual SlotIndex& edges() noexcept = 0;
};

}  // namespace perdure::structure
