// EdgeIndex: where edges lie, in DRAM: edge to place, and the edges of each vertex.
//
// X1  the edges of a vertex are a ring: each knows the target of the one before it and of the one
//     after it; the vertex knows one of them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "structure/base/id_map.h"
#include "structure/graph/graph.h"

namespace perdure::structure {

/// `Where`: trivially copyable; made of nothing it is nowhere, which `operator bool` tells.
template <class Where>
class EdgeIndex {
 public:
  using Vertex = Graph::Vertex;

  explicit EdgeIndex(std::size_t expected = 0, bool huge_pages = false)
      : places_(expected, huge_pages), vertices_(0, huge_pages) {}

  /// Null: no such edge. Valid until the next `add` or `remove`.
  [[nodiscard]] Where* find(std::uint64_t edge) noexcept {
    Place* const place = places_.find(edge);
    return place == nullptr ? nullptr : &place->where;
  }
  [[nodiscard]] const Where* find(std::uint64_t edge) const noexcept {
    return const_cast<EdgeIndex*>(this)->find(edge);
  }
  /// The edge is absent.
  void add(std::uint64_t edge, const Where& where) {
    const Vertex source = Graph::source_of(edge);
    const Vertex target = Graph::target_of(edge);
    Place place{where, target, target};
    if (const Entrance* const entrance = vertices_.find(source); entrance != nullptr) {
      Place& first = at(source, entrance->target);
      place.next = entrance->target;
      place.previous = first.previous;
      at(source, first.previous).next = target;
      first.previous = target;
    } else {
      vertices_.add(source, {target, true});
    }
    places_.add(edge, place);
  }
  /// The edge is present.
  void remove(std::uint64_t edge) noexcept {
    const Vertex source = Graph::source_of(edge);
    const Vertex target = Graph::target_of(edge);
    const Place place = *places_.find(edge);
    if (place.next == target) {
      vertices_.remove(source);
    } else {
      at(source, place.previous).next = place.next;
      at(source, place.next).previous = place.previous;
      Entrance& entrance = *vertices_.find(source);
      if (entrance.target == target) entrance.target = place.next;
    }
    places_.remove(edge);
  }
  /// Calls `visit(edge, where)` for the edges that leave `source`, the oldest first.
  template <class Visit>
  void visit_edges_of(Vertex source, Visit&& visit) const {
    const Entrance* const entrance = vertices_.find(source);
    if (entrance == nullptr) return;
    Vertex target = entrance->target;
    do {
      const std::uint64_t edge = Graph::edge(source, target);
      const Place& place = *places_.find(edge);
      visit(edge, place.where);
      target = place.next;
    } while (target != entrance->target);
  }

  /// The edges in the ring of the edge's source, if the vertex knows this edge; else 0. So over all
  /// edges they sum up to `size()`.
  [[nodiscard]] std::size_t ring_entered_at(std::uint64_t edge) const {
    const Entrance* const entrance = vertices_.find(Graph::source_of(edge));
    if (entrance == nullptr || entrance->target != Graph::target_of(edge)) return 0;
    std::size_t edges = 0;
    visit_edges_of(Graph::source_of(edge), [&](std::uint64_t, const Where&) { ++edges; });
    return edges;
  }

  [[nodiscard]] std::size_t size() const noexcept { return places_.size(); }
  [[nodiscard]] std::uint64_t dram_bytes() const noexcept {
    return places_.dram_bytes() + vertices_.dram_bytes();
  }

 private:
  struct Place {
    Where where;
    Vertex next;
    Vertex previous;
    [[nodiscard]] explicit operator bool() const noexcept { return static_cast<bool>(where); }
  };
  struct Entrance {
    Vertex target;
    bool present;
    [[nodiscard]] explicit operator bool() const noexcept { return present; }
  };

  [[nodiscard]] Place& at(Vertex source, Vertex target) noexcept {
    return *places_.find(Graph::edge(source, target));
  }

  IdMap<Place> places_;
  IdMap<Entrance> vertices_;
};

}  // namespace perdure::structure
