// BalancedTree: B-tree and B+-tree, one implementation. Branching 18, keys searched one after the
// other within a node. Study pmemids, section IV-A.
//
//   Top    | loading | log | root |
//   Node   | count 4 | is_leaf 4 | key[17] | value[17] or none | child[18], next, or none |
//   value  the slot itself (B-tree, embedded), or a ref to one (B-tree referenced, B+-tree)
//
//             leaf                inner
//   B-tree    key, value          key, value, child
//   B+-tree   key, value, next    key, child
//
// B1  keys of a node ascend strictly; subtree i holds keys below key i, subtree i+1 keys above it
//     (B+-tree: not below it).
// B2  all leaves are equally deep; every node but the root has at least `least` keys.
// B3  B+-tree: `next` leads through the leaves in key order.
// B4  a node that splits is cut short only after its parent leads to the new one, and a key that
//     replaces another does so before its old place is given up: between two stores of an operation
//     records may be there twice, and are not missing.
#pragma once

#include <array>
#include <string>
#include <type_traits>
#include <utility>

#include "structure/base/structure_index.h"

namespace perdure::structure {

/// What a balanced tree is: where values are, and which nodes have them.
struct BtreeReferenced {
  static constexpr const char* name = "btree";
  static constexpr bool embedded = false;
  static constexpr bool plus = false;
};
struct BtreeEmbedded {
  static constexpr const char* name = "btree";
  static constexpr bool embedded = true;
  static constexpr bool plus = false;
};
struct BplusTree {
  static constexpr const char* name = "bplustree";
  static constexpr bool embedded = false;
  static constexpr bool plus = true;
};

template <class Memory, class Kind>
class BalancedTree : public StructureIndex<BalancedTree<Memory, Kind>, Memory> {
  using Base = StructureIndex<BalancedTree<Memory, Kind>, Memory>;
  friend Base;

 public:
  using Change = typename Base::Change;
  using Creation = typename Base::Creation;
  template <class T>
  using Ref = typename Memory::template Ref<T>;

  static constexpr unsigned branching = 18;
  static constexpr unsigned most = branching - 1;
  static constexpr unsigned least = branching / 2 - 1;
  static constexpr unsigned deepest = 24;

  using Value = std::conditional_t<Kind::embedded, Slot, Ref<Slot>>;
  struct Node {
    std::uint32_t count;
    std::uint32_t is_leaf;
    std::array<std::uint64_t, most> key;
  };
  struct ValueNode : Node {
    std::array<Value, most> value;
  };
  struct PlusLeaf : ValueNode {
    Ref<PlusLeaf> next;
  };
  struct Inner : std::conditional_t<Kind::plus, Node, ValueNode> {
    std::array<Ref<Node>, branching> child;
  };
  static_assert(sizeof(Node) == 144);
  struct Top : Anchor {
    Ref<Node> root;
  };

  static constexpr const char* name = Kind::name;
  static constexpr std::uint64_t variant = Kind::embedded;

  using Base::Base;
  ~BalancedTree() override { this->dismantle(); }

 protected:
  /// B+-tree: calls `visit(key, value)` for the records from `from` on, until it says no.
  template <class Visit>
  void visit_from(std::uint64_t from, Visit&& visit) const;

 private:
  struct Step {
    Node* node;
    unsigned at;  ///< of the key, and of the child that was descended into
  };
  struct Path {
    std::array<Step, deepest> step;
    unsigned depth = 0;
    void push(Node* node, unsigned at) noexcept { step[depth++] = {node, at}; }
  };
  struct Entry {
    std::uint64_t key;
    Value value;
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

  // Nodes.
  [[nodiscard]] Node* at(Ref<Node> ref) const noexcept { return this->memory_.at(ref); }
  [[nodiscard]] static bool has_values(const Node& node) noexcept {
    return !Kind::plus || node.is_leaf != 0;
  }
  [[nodiscard]] static Value* values(Node& node) noexcept {
    return static_cast<ValueNode&>(node).value.data();
  }
  [[nodiscard]] static Ref<Node>* children(Node& node) noexcept {
    return static_cast<Inner&>(node).child.data();
  }
  [[nodiscard]] static std::size_t bytes_of(bool is_leaf) noexcept {
    if (!is_leaf) return sizeof(Inner);
    return Kind::plus ? sizeof(PlusLeaf) : sizeof(ValueNode);
  }
  [[nodiscard]] Node* make_node(Change& change, bool is_leaf) const;
  [[nodiscard]] Slot& slot_of(Node& node, unsigned i) const noexcept {
    if constexpr (Kind::embedded)
      return values(node)[i];
    else
      return *this->memory_.at(values(node)[i]);
  }
  /// The first key not below `key`; of a B+-tree's inner node the first above it.
  [[nodiscard]] static unsigned position(const Node& node, std::uint64_t key) noexcept;
  /// The path down to `key` or to where it would be; true: the last step is at the key itself.
  bool descend(std::uint64_t key, Path& path) const noexcept;

  // Insertion.
  struct Growth {
    std::array<Node*, deepest + 1> made;  ///< by height, a new root last
  };
  void put_entry(Change& change, const Path& path, unsigned level, const Entry& entry, Node* right,
                 Growth& growth);
  static void insert_into(Change& change, Node& node, unsigned at, const Entry& entry,
                          Ref<Node> right);
  void split(Change& change, const Path& path, unsigned level, const Entry& entry, Ref<Node> right,
             Growth& growth);

  // Removal.
  void drop_value(Change& change, Value value) const;
  static void erase(Change& change, Node& node, unsigned at, unsigned child);
  void refill(Change& change, Path& path);
  [[nodiscard]] bool borrow(Change& change, Node& parent, unsigned at);
  void merge(Change& change, Node& parent, unsigned at);
  void shrink_root(Change& change);

  struct Bounds {
    std::uint64_t low;
    std::uint64_t high;
    bool has_low;
    bool has_high;
  };
  struct Check {
    unsigned leaf_depth = 0;
    const PlusLeaf* last_leaf = nullptr;
  };
  Result<void> walk_node(Walk<Memory>& walk, Ref<Node> ref, unsigned depth, Bounds bounds,
                         Check& check) const;
  void collect_below(Node& node, std::uint64_t from, std::size_t count, SlotScan& out) const;
};

}  // namespace perdure::structure
