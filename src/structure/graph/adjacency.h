// Adjacency: a graph as lists of edges, one for each vertex that edges leave, the vertices in a
// hash table of chains. Study pmemids, section III, figure 2(a).
//
//   Top     | loading | log | table |
//   table   | head[0] | head[1] | ... | head[buckets-1] |      see structure/base/table.h
//   Vertex  | id 8 | next 8 or 16 | first 8 or 16 |
//   Edge    | target 8 | next 8 or 16 | slot 128 |
//
// A1  an edge exists <=> it is in the list of its source, which is in the chain of its bucket; no
//     vertex is in a chain twice, no target in a list.
// A2  an edge, and its source where that is new, are whole before the one word that makes them
//     reachable leads to them: the vertex's first edge, or the bucket's head.
// A3  a vertex has an edge: with the last one the vertex itself leaves its chain.
// A4  the word that leads to an edge, or to the vertex whose only one it is, is the only one a
//     delete changes.
#pragma once

#include "core/rng.h"
#include "structure/base/structure_index.h"
#include "structure/base/table.h"
#include "structure/graph/graph.h"

namespace perdure::structure {

template <class Memory>
class Adjacency final : public StructureIndex<Adjacency<Memory>, Memory>, public Graph {
  using Base = StructureIndex<Adjacency<Memory>, Memory>;
  friend Base;

 public:
  using Change = typename Base::Change;
  using Creation = typename Base::Creation;
  template <class T>
  using Ref = typename Memory::template Ref<T>;

  struct Edge {
    std::uint64_t target;
    Ref<Edge> next;
    Slot slot;
  };
  struct Node {  // of a vertex
    std::uint64_t id;
    Ref<Node> next;
    Ref<Edge> first;
  };
  static_assert(sizeof(Edge) == 136 + sizeof(Ref<Edge>));
  using Heads = Table<Memory, Ref<Node>>;
  struct Top : Anchor {
    Ref<typename Heads::Directory> table;
  };

  static constexpr const char* name = "graph_adjacency";
  static constexpr std::uint64_t variant = 0;

  using Base::Base;
  ~Adjacency() override { this->dismantle(); }

  std::size_t neighbours(Vertex source, SlotScan& out) override;
  [[nodiscard]] SlotIndex& edges() noexcept override { return *this; }

 private:
  void prepare(Creation& creation, const IndexOptions& options);
  [[nodiscard]] bool reopen(Walk<Memory>& walk, std::uint64_t buckets);
  [[nodiscard]] std::uint64_t table_size() const noexcept { return heads_.size(); }
  [[nodiscard]] Result<void> walk(Walk<Memory>& walk) const;
  [[nodiscard]] Result<void> walk_edges(Walk<Memory>& walk, const Node& vertex) const;
  void clear(Creation& creation);
  [[nodiscard]] std::uint64_t extra_dram_bytes() const noexcept { return heads_.dram_bytes(); }

  [[nodiscard]] const Slot* find(std::uint64_t key) const noexcept;
  Effect put(Change& change, std::uint64_t key, std::string_view value, Put how);
  Effect take(Change& change, std::uint64_t key);
  void collect(std::uint64_t, std::size_t, SlotScan&) const {}  // unordered

  [[nodiscard]] std::uint64_t bucket_of(std::uint64_t vertex) const noexcept {
    return place_of(mix64(vertex), heads_.size());
  }
  // The link that leads to a vertex or an edge; the last of its chain or list if there is none.
  [[nodiscard]] Ref<Node>& link_to(std::uint64_t vertex) const noexcept;
  [[nodiscard]] Ref<Edge>& link_to(Node& vertex, std::uint64_t target) const noexcept;
  template <class T>
  [[nodiscard]] T* at(Ref<T> ref) const noexcept {
    return this->memory_.at(ref);
  }

  Heads heads_;
};

}  // namespace perdure::structure
