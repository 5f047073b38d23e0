// BalancedTree: removal. Included by structure/tree/operations.h.
#pragma once

#include <algorithm>

#include "structure/tree/balanced_tree.h"

namespace perdure::structure {

template <class Memory, class Kind>
void BalancedTree<Memory, Kind>::drop_value(Change& change, Value value) const {
  if constexpr (!Kind::embedded) change.drop(this->memory_.at(value));
}

template <class Memory, class Kind>
Effect BalancedTree<Memory, Kind>::take(Change& change, std::uint64_t key) {
  Path path;
  if (!descend(key, path)) return Effect::not_found;
  Node& node = *path.step[path.depth - 1].node;
  const unsigned place = path.step[path.depth - 1].at;
  const auto old = [&]() -> std::conditional_t<Kind::embedded, int, Value> {
    if constexpr (Kind::embedded)
      return 0;
    else
      return values(node)[place];
  }();
  if constexpr (!Kind::plus)
    if (node.is_leaf == 0) {  // the largest key below takes its place, and is taken from its leaf
      Node* lower = at(children(node)[place]);
      for (; lower->is_leaf == 0; lower = at(children(*lower)[lower->count]))
        path.push(lower, lower->count);
      path.push(lower, lower->count - 1);
      change.edit({range(&node.key[place], 1), range(&values(node)[place], 1)}, [&] {
        node.key[place] = lower->key[lower->count - 1];
        values(node)[place] = values(*lower)[lower->count - 1];
      });
    }
  const Step& leaf = path.step[path.depth - 1];
  erase(change, *leaf.node, leaf.at, 0);
  refill(change, path);
  if constexpr (!Kind::embedded) drop_value(change, old);
  return Effect::removed;
}

/// Takes out key `at`, its value if the node has any, and child `child` of an inner node.
template <class Memory, class Kind>
void BalancedTree<Memory, Kind>::erase(Change& change, Node& node, unsigned at, unsigned child) {
  const unsigned count = node.count;
  const bool valued = has_values(node);
  const bool inner = node.is_leaf == 0;
  const std::size_t moved = count - at - 1;
  const std::size_t children_moved = inner ? count - child : 0;
  change.edit(
      {range(&node.key[at], moved), range(valued ? &values(node)[at] : nullptr, valued ? moved : 0),
       range(inner ? &children(node)[child] : nullptr, children_moved), range(&node.count, 1)},
      [&] {
        std::copy(node.key.begin() + at + 1, node.key.begin() + count, node.key.begin() + at);
        if (valued) std::copy(values(node) + at + 1, values(node) + count, values(node) + at);
        if (inner)
          std::copy(children(node) + child + 1, children(node) + count + 1, children(node) + child);
        node.count = count - 1;
      });
}

/// From the leaf up: a node with too few keys gets one from a neighbour, or both become one (B2).
template <class Memory, class Kind>
void BalancedTree<Memory, Kind>::refill(Change& change, Path& path) {
  for (unsigned level = path.depth; level > 1; --level) {
    if (path.step[level - 1].node->count >= least) return;
    Node& parent = *path.step[level - 2].node;
    const unsigned place = path.step[level - 2].at;
    if (borrow(change, parent, place)) return;
    merge(change, parent, place > 0 ? place - 1 : place);
  }
  shrink_root(change);
}

template <class Memory, class Kind>
void BalancedTree<Memory, Kind>::shrink_root(Change& change) {
  Node* const root = at(this->top().root);
  if (root->count > 0) return;
  const bool is_leaf = root->is_leaf != 0;
  change.link(this->top().root, is_leaf ? this->memory_.template null<Node>() : children(*root)[0]);
  change.drop(root, bytes_of(is_leaf));
}

/// Moves one entry to child `at` of the parent from the child before or after it; false: neither
/// can spare one.
template <class Memory, class Kind>
bool BalancedTree<Memory, Kind>::borrow(Change& change, Node& parent, unsigned at) {
  Node& node = *this->at(children(parent)[at]);
  const bool inner = node.is_leaf == 0;
  const bool through_parent = !Kind::plus || inner;
  for (const bool before : {true, false}) {
    if (before ? at == 0 : at == parent.count) continue;
    Node& giver = *this->at(children(parent)[before ? at - 1 : at + 1]);
    if (giver.count <= least) continue;
    const unsigned divider = before ? at - 1 : at;
    const unsigned given = before ? giver.count - 1 : 0;
    const Ref<Node> child =
        inner ? children(giver)[before ? giver.count : 0] : this->memory_.template null<Node>();
    Entry entry{through_parent ? parent.key[divider] : giver.key[given], {}};
    if (has_values(node))
      entry.value = through_parent ? values(parent)[divider] : values(giver)[given];
    // B4: into the node, then up to the parent, then out of the giver.
    if (!before) {
      insert_into(change, node, node.count, entry, child);
    } else if (inner) {
      // The new child goes before the first: the first is given again as the one right of the key.
      insert_into(change, node, 0, entry, children(node)[0]);
      change.link(children(node)[0], child);
    } else {
      insert_into(change, node, 0, entry, child);
    }
    const std::uint64_t up =
        through_parent ? giver.key[given] : giver.key[before ? given : given + 1];
    if (has_values(parent)) {
      change.edit({range(&parent.key[divider], 1), range(&values(parent)[divider], 1)}, [&] {
        parent.key[divider] = up;
        values(parent)[divider] = values(giver)[given];
      });
    } else {
      change.set(parent.key[divider], up);
    }
    erase(change, giver, given, before ? giver.count : 0);
    return true;
  }
  return false;
}

/// Child `at` + 1 of the parent goes into child `at`.
template <class Memory, class Kind>
void BalancedTree<Memory, Kind>::merge(Change& change, Node& parent, unsigned at) {
  Node& left = *this->at(children(parent)[at]);
  Node& right = *this->at(children(parent)[at + 1]);
  const bool inner = left.is_leaf == 0;
  const bool valued = has_values(left);
  const unsigned from = left.count;
  const unsigned divider = !Kind::plus || inner ? 1 : 0;
  const unsigned added = divider + right.count;
  change.edit({range(&left.key[from], added),
               range(valued ? &values(left)[from] : nullptr, valued ? added : 0),
               range(inner ? &children(left)[from + 1] : nullptr, inner ? right.count + 1 : 0),
               range(&left.count, 1)},
              [&] {
                if (divider != 0) left.key[from] = parent.key[at];
                if (divider != 0 && valued) values(left)[from] = values(parent)[at];
                std::copy_n(right.key.begin(), right.count, left.key.begin() + from + divider);
                if (valued) std::copy_n(values(right), right.count, values(left) + from + divider);
                if (inner) std::copy_n(children(right), right.count + 1, children(left) + from + 1);
                left.count = from + added;
              });
  if constexpr (Kind::plus)
    if (!inner) change.link(static_cast<PlusLeaf&>(left).next, static_cast<PlusLeaf&>(right).next);
  erase(change, parent, at, at + 1);
  change.drop(&right, bytes_of(!inner));
}

}  // namespace perdure::structure
