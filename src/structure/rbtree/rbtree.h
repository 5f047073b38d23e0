// Rbtree: a red-black tree, rebalanced at once by every insert and remove. Study pmemids,
// section IV-A.
//
//   Top   | loading | log | root |
//   Node  | key 8 | red 8 | child[2] | slot 128 |
//
// There are no links to parents: an operation keeps its path.
//
// B1  keys in child[0] are below a node's, those in child[1] above.
// B2  the root is black, a red node's children are black, and every way down from a node to a null
//     link meets as many black nodes.
#pragma once

#include <array>

#include "structure/base/structure_index.h"

namespace perdure::structure {

template <class Memory>
class Rbtree final : public StructureIndex<Rbtree<Memory>, Memory> {
  using Base = StructureIndex<Rbtree<Memory>, Memory>;
  friend Base;

 public:
  using Change = typename Base::Change;
  using Creation = typename Base::Creation;
  template <class T>
  using Ref = typename Memory::template Ref<T>;

  struct Node {
    std::uint64_t key;
    std::uint64_t red;
    std::array<Ref<Node>, 2> child;
    Slot slot;
  };
  static_assert(sizeof(Node) == 144 + 2 * sizeof(Ref<Node>));
  struct Top : Anchor {
    Ref<Node> root;
  };

  static constexpr const char* name = "rbtree";
  static constexpr std::uint64_t variant = 0;
  /// Twice the height of a balanced tree of 2^60 nodes.
  static constexpr unsigned deepest = 122;

  using Base::Base;
  ~Rbtree() override { this->dismantle(); }

 private:
  struct Step {
    Node* node;  ///< null: the link is the root's
    unsigned side;
  };
  /// Links from the root's on; each is in the node that the one before leads to.
  struct Path {
    std::array<Step, deepest + 2> step;
    unsigned size = 0;
    void push(Node* node, unsigned side) noexcept { step[size++] = {node, side}; }
  };

  void prepare(Creation&, const IndexOptions&) {
    this->top().root = this->memory_.template null<Node>();
  }
  [[nodiscard]] Result<void> walk(Walk<Memory>& walk) const;
  void clear(Creation& creation) {
    creation.link(this->top().root, this->memory_.template null<Node>());
  }

  [[nodiscard]] const Slot* find(std::uint64_t key) const noexcept;
  Effect put(Change& change, std::uint64_t key, std::string_view value, Put how);
  Effect take(Change& change, std::uint64_t key);
  void collect(std::uint64_t from, std::size_t count, SlotScan& out) const;

  [[nodiscard]] Node* at(Ref<Node> ref) const noexcept { return this->memory_.at(ref); }
  [[nodiscard]] Ref<Node>& link_of(const Step& step) const noexcept {
    return step.node == nullptr ? this->top().root : step.node->child[step.side];
  }
  [[nodiscard]] static bool is_red(const Node* node) noexcept {
    return node != nullptr && node->red != 0;
  }
  static void paint(Change& change, Node& node, bool red) {
    if ((node.red != 0) != red) change.set(node.red, red ? 1 : 0);
  }
  /// The path to the link that leads to `key`, or to the null link where it would be.
  Node* descend(std::uint64_t key, Path& path) const noexcept;
  void after_insert(Change& change, Path& path);
  /// Unlinks `node`, to which the path leads; true: a black node is missing below the path's end.
  [[nodiscard]] bool unlink(Change& change, Path& path, Node& node);
  void after_remove(Change& change, Path& path);
  /// Turns child[!side] of `node`, to which `above` leads, up over it.
  Node* rotate(Change& change, const Step& above, Node& node, unsigned side);

  struct Check {
    std::uint64_t last_key = 0;
    bool any = false;
  };
  /// The black height below the ref.
  Result<unsigned> walk_below(Walk<Memory>& walk, Ref<Node> ref, bool under_red, unsigned depth,
                              Check& check) const;
};

}  // namespace perdure::structure
