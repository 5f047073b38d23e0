// EdgeTree: a graph as a B+-tree of its edges: structure/tree/balanced_tree.h with edges for keys,
// so that the neighbours of a vertex are one scan.
#pragma once

#include "structure/graph/graph.h"
#include "structure/tree/balanced_tree.h"

namespace perdure::structure {

struct EdgeTreeKind : BplusTree {
  static constexpr const char* name = "graph_bplustree";
};

template <class Memory>
class EdgeTree final : public BalancedTree<Memory, EdgeTreeKind>, public Graph {
  using Tree = BalancedTree<Memory, EdgeTreeKind>;

 public:
  using Tree::Tree;

  std::size_t neighbours(Vertex source, SlotScan& out) override {
    return this->read([&] {
      this->visit_from(edge(source, 0), [&](std::uint64_t key, std::string_view properties) {
        if (source_of(key) != source) return false;
        out.append(key, properties);
        return true;
      });
      return out.size();
    });
  }
  [[nodiscard]] SlotIndex& edges() noexcept override { return *this; }
};

}  // namespace perdure::structure
