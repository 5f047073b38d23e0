// BalancedTree: lookups, scans, the walk, and insertion. Included where a tree is instantiated.
#pragma once

#include <algorithm>
#include <cstddef>

#include "structure/tree/balanced_tree.h"
#include "structure/tree/removal.h"

namespace perdure::structure {

template <class Memory, class Kind>
unsigned BalancedTree<Memory, Kind>::position(const Node& node, std::uint64_t key) noexcept {
  const std::uint32_t count = node.count;
  unsigned at = 0;
  while (at < count && node.key[at] < key) ++at;
  if (Kind::plus && node.is_leaf == 0 && at < count && node.key[at] == key) ++at;
  return at;
}

template <class Memory, class Kind>
bool BalancedTree<Memory, Kind>::descend(std::uint64_t key, Path& path) const noexcept {
  for (Node* node = at(this->top().root); node != nullptr;) {
    const unsigned place = position(*node, key);
    path.push(node, place);
    if (has_values(*node) && place < node->count && node->key[place] == key) return true;
    node = node->is_leaf != 0 ? nullptr : at(children(*node)[place]);
  }
  return false;
}

template <class Memory, class Kind>
const Slot* BalancedTree<Memory, Kind>::find(std::uint64_t key) const noexcept {
  for (Node* node = at(this->top().root); node != nullptr;) {
    const unsigned place = position(*node, key);
    if (has_values(*node) && place < node->count && node->key[place] == key)
      return &slot_of(*node, place);
    node = node->is_leaf != 0 ? nullptr : at(children(*node)[place]);
  }
  return nullptr;
}

template <class Memory, class Kind>
template <class Visit>
void BalancedTree<Memory, Kind>::visit_from(std::uint64_t from, Visit&& visit) const {
  static_assert(Kind::plus);
  Node* node = at(this->top().root);
  if (node == nullptr) return;
  while (node->is_leaf == 0) node = at(children(*node)[position(*node, from)]);
  for (auto* leaf = static_cast<PlusLeaf*>(node); leaf != nullptr;
       leaf = this->memory_.at(leaf->next))
    for (unsigned i = 0; i < leaf->count; ++i)
      if (leaf->key[i] >= from && !visit(leaf->key[i], slot_of(*leaf, i).value())) return;
}

template <class Memory, class Kind>
void BalancedTree<Memory, Kind>::collect(std::uint64_t from, std::size_t count,
                                         SlotScan& out) const {
  if constexpr (Kind::plus) {
    visit_from(from, [&](std::uint64_t key, std::string_view value) {
      out.append(key, value);
      return out.size() < count;
    });
  } else if (Node* const root = at(this->top().root); root != nullptr) {
    collect_below(*root, from, count, out);
  }
}

template <class Memory, class Kind>
void BalancedTree<Memory, Kind>::collect_below(Node& node, std::uint64_t from, std::size_t count,
                                               SlotScan& out) const {
  for (unsigned i = position(node, from); i <= node.count && out.size() < count; ++i) {
    if (node.is_leaf == 0) collect_below(*at(children(node)[i]), from, count, out);
    if (i < node.count && out.size() < count) out.append(node.key[i], slot_of(node, i).value());
  }
}

template <class Memory, class Kind>
Result<void> BalancedTree<Memory, Kind>::walk(Walk<Memory>& walk) const {
  Check check;
  if (!this->top().root) return {};
  if (auto sound = walk_node(walk, this->top().root, 1, {}, check); !sound) return sound;
  if (Kind::plus && check.last_leaf->next) return corrupt("B3: the last leaf leads on");
  return {};
}

template <class Memory, class Kind>
Result<void> BalancedTree<Memory, Kind>::walk_node(Walk<Memory>& walk, Ref<Node> ref,
                                                   unsigned depth, Bounds bounds,
                                                   Check& check) const {
  const auto wrong = [&](const char* what) {
    return corrupt(std::string(what) + " at depth " + std::to_string(depth));
  };
  Node* const node = walk.template enter_sized<Node>(
      ref, sizeof(Node), [](const Node& seen) { return bytes_of(seen.is_leaf != 0); });
  if (node == nullptr || depth > deepest) return wrong("B1: a child is no node of its own");
  if (node->is_leaf > 1 || node->count > most || node->count < (depth > 1 ? least : 1))
    return wrong("B2: a node has too few keys or too many");
  for (unsigned i = 0; i < node->count; ++i) {
    const std::uint64_t key = node->key[i];
    const bool above = !bounds.has_low || (Kind::plus ? key >= bounds.low : key > bounds.low);
    if (!above || (bounds.has_high && key >= bounds.high) || (i > 0 && key <= node->key[i - 1]))
      return wrong("B1: a key is out of order");
    if (!has_values(*node)) continue;
    if constexpr (!Kind::embedded)
      if (walk.template enter<Slot>(values(*node)[i]) == nullptr)
        return wrong("B1: a key leads to no value of its own");
    if (!slot_of(*node, i).is_sound()) return wrong("B1: a value is longer than a slot");
    walk.count_record();
  }
  if (node->is_leaf != 0) {
    if (check.leaf_depth == 0) check.leaf_depth = depth;
    if (check.leaf_depth != depth) return wrong("B2: leaves are not equally deep");
    if constexpr (Kind::plus) {
      auto* const leaf = static_cast<PlusLeaf*>(node);
      if (check.last_leaf != nullptr && check.last_leaf->next != this->memory_.ref(leaf))
        return wrong("B3: a leaf does not lead to its neighbour");
      check.last_leaf = leaf;
    }
    return {};
  }
  for (unsigned i = 0; i <= node->count; ++i) {
    Bounds inner = bounds;
    if (i > 0) inner.low = node->key[i - 1], inner.has_low = true;
    if (i < node->count) inner.high = node->key[i], inner.has_high = true;
    if (auto sound = walk_node(walk, children(*node)[i], depth + 1, inner, check); !sound)
      return sound;
  }
  return {};
}

template <class Memory, class Kind>
auto BalancedTree<Memory, Kind>::make_node(Change& change, bool is_leaf) const -> Node* {
  Node* node = nullptr;
  if (!is_leaf) {
    auto* const inner = change.template make<Inner>();
    inner->child.fill(this->memory_.template null<Node>());  // R1
    node = inner;
  } else if constexpr (Kind::plus) {
    auto* const leaf = change.template make<PlusLeaf>();
    leaf->next = this->memory_.template null<PlusLeaf>();
    node = leaf;
  } else {
    node = change.template make<ValueNode>();
  }
  node->is_leaf = is_leaf;
  node->count = 0;
  if constexpr (!Kind::embedded)
    if (has_values(*node))
      std::fill_n(values(*node), most, this->memory_.template null<Slot>());  // R1
  return node;
}

template <class Memory, class Kind>
Effect BalancedTree<Memory, Kind>::put(Change& change, std::uint64_t key, std::string_view value,
                                       Put how) {
  Path path;
  if (descend(key, path)) {
    if (how == Put::insert) return Effect::exists;
    const Step& found = path.step[path.depth - 1];
    this->rewrite(change, slot_of(*found.node, found.at), value);
    return Effect::replaced;
  }
  if (how == Put::update) return Effect::not_found;
  // All nodes first (C1): one beside each full one from the leaf up, and a root above the last.
  Growth growth;
  unsigned level = path.depth;
  unsigned made = 0;
  for (; level > 0 && path.step[level - 1].node->count == most; --level)
    growth.made[made++] = make_node(change, path.step[level - 1].node->is_leaf != 0);
  if (level == 0) growth.made[made] = make_node(change, path.depth == 0);
  Entry entry{key, {}};
  if constexpr (Kind::embedded) {
    entry.value.write(value);
  } else {
    Slot* const slot = change.template make<Slot>();
    slot->write(value);
    entry.value = this->memory_.ref(slot);
  }
  put_entry(change, path, path.depth, entry, nullptr, growth);
  return Effect::added;
}

/// Puts `entry`, and the subtree to its right, into the node at `level` of the path; level 0: into
/// a new root.
template <class Memory, class Kind>
void BalancedTree<Memory, Kind>::put_entry(Change& change, const Path& path, unsigned level,
                                           const Entry& entry, Node* right, Growth& growth) {
  const Ref<Node> right_ref =
      right == nullptr ? this->memory_.template null<Node>() : this->memory_.ref(right);
  if (level == 0) {
    Node& root = *growth.made[path.depth];
    root.count = 1;
    root.key[0] = entry.key;
    if (has_values(root)) values(root)[0] = entry.value;
    if (root.is_leaf == 0) {
      children(root)[0] = this->top().root;
      children(root)[1] = right_ref;
    }
    change.link(this->top().root, this->memory_.ref(&root));
    return;
  }
  const Step& step = path.step[level - 1];
  if (step.node->count < most)
    insert_into(change, *step.node, step.at, entry, right_ref);
  else
    split(change, path, level, entry, right_ref, growth);
}

template <class Memory, class Kind>
void BalancedTree<Memory, Kind>::insert_into(Change& change, Node& node, unsigned at,
                                             const Entry& entry, Ref<Node> right) {
  const unsigned count = node.count;
  const bool valued = has_values(node);
  const bool inner = node.is_leaf == 0;
  const std::size_t moved = count - at + 1;
  change.edit(
      {range(&node.key[at], moved), range(valued ? &values(node)[at] : nullptr, valued ? moved : 0),
       range(inner ? &children(node)[at + 1] : nullptr, inner ? moved : 0), range(&node.count, 1)},
      [&] {
        std::copy_backward(&node.key[at], &node.key[count], &node.key[count] + 1);
        node.key[at] = entry.key;
        if (valued) {
          Value* const value = values(node);
          std::copy_backward(value + at, value + count, value + count + 1);
          value[at] = entry.value;
        }
        if (inner) {
          Ref<Node>* const child = children(node);
          std::copy_backward(child + at + 1, child + count + 1, child + count + 2);
          child[at + 1] = right;
        }
        node.count = count + 1;
      });
}

/// The full node keeps the lower half, a new one gets the upper half; the key between them goes up,
/// a leaf's of a B+-tree as a copy. B4: the parent first.
template <class Memory, class Kind>
void BalancedTree<Memory, Kind>::split(Change& change, const Path& path, unsigned level,
                                       const Entry& entry, Ref<Node> right, Growth& growth) {
  Node& node = *path.step[level - 1].node;
  const unsigned place = path.step[level - 1].at;
  Node& upper = *growth.made[path.depth - level];
  const bool valued = has_values(node);
  const bool inner = node.is_leaf == 0;
  constexpr unsigned middle = branching / 2;
  const bool copies_up = Kind::plus && !inner;
  const unsigned first = copies_up ? middle : middle + 1;
  // Entry i of the node as it would be with room for one more.
  const auto key_at = [&](unsigned i) {
    return i == place ? entry.key : node.key[i < place ? i : i - 1];
  };
  const auto value_at = [&](unsigned i) -> const Value& {
    return i == place ? entry.value : values(node)[i < place ? i : i - 1];
  };
  const auto child_at = [&](unsigned i) {
    return i == place + 1 ? right : children(node)[i <= place ? i : i - 1];
  };
  upper.count = branching - first;
  for (unsigned i = first; i < branching; ++i) {
    upper.key[i - first] = key_at(i);
    if (valued) values(upper)[i - first] = value_at(i);
  }
  if (inner)
    for (unsigned i = first; i <= branching; ++i) children(upper)[i - first] = child_at(i);
  if constexpr (Kind::plus)
    if (!inner) static_cast<PlusLeaf&>(upper).next = static_cast<PlusLeaf&>(node).next;
  Entry up{key_at(middle), {}};
  if (valued) up.value = value_at(middle);
  put_entry(change, path, level - 1, up, &upper, growth);
  if constexpr (Kind::plus)
    if (!inner)
      change.link(static_cast<PlusLeaf&>(node).next,
                  this->memory_.ref(static_cast<PlusLeaf*>(&upper)));
  const unsigned moved = place < middle ? middle - place : 0;
  change.edit({range(&node.key[place < most ? place : 0], moved),
               range(valued && moved != 0 ? &values(node)[place] : nullptr, valued ? moved : 0),
               range(inner && moved != 0 ? &children(node)[place + 1] : nullptr, inner ? moved : 0),
               range(&node.count, 1)},
              [&] {
                node.count = middle;
                if (moved == 0) return;
                std::copy_backward(&node.key[place], &node.key[middle - 1], &node.key[middle]);
                node.key[place] = entry.key;
                if (valued) {
                  Value* const value = values(node);
                  std::copy_backward(value + place, value + middle - 1, value + middle);
                  value[place] = entry.value;
                }
                if (inner) {
                  Ref<Node>* const child = children(node);
                  std::copy_backward(child + place + 1, child + middle, child + middle + 1);
                  child[place + 1] = right;
                }
              });
}

}  // namespace perdure::structure
