#include "structure/rbtree/rbtree.h"

#include <string>

#include "structure/base/modes.h"

namespace perdure::structure {

template <class Memory>
const Slot* Rbtree<Memory>::find(std::uint64_t key) const noexcept {
  const Node* node = at(this->top().root);
  while (node != nullptr && node->key != key) node = at(node->child[node->key < key]);
  return node == nullptr ? nullptr : &node->slot;
}

template <class Memory>
void Rbtree<Memory>::collect(std::uint64_t from, std::size_t count, SlotScan& out) const {
  // The nodes whose left part has been handed out, or lies below `from`, and they have not.
  std::array<const Node*, deepest + 1> waiting;
  unsigned waits = 0;
  for (const Node* node = at(this->top().root); node != nullptr;
       node = at(node->child[node->key < from]))
    if (node->key >= from) waiting[waits++] = node;
  while (waits > 0 && out.size() < count) {
    const Node* const node = waiting[--waits];
    out.append(node->key, node->slot.value());
    for (const Node* next = at(node->child[1]); next != nullptr; next = at(next->child[0]))
      waiting[waits++] = next;
  }
}

template <class Memory>
Result<void> Rbtree<Memory>::walk(Walk<Memory>& walk) const {
  Check check;
  const auto height = walk_below(walk, this->top().root, true, 0, check);
  return height ? Result<void>{} : height.error();
}

template <class Memory>
Result<unsigned> Rbtree<Memory>::walk_below(Walk<Memory>& walk, Ref<Node> ref, bool under_red,
                                            unsigned depth, Check& check) const {
  if (!ref) return 1U;
  const Node* const node = walk.template enter<Node>(ref);
  if (node == nullptr || depth > deepest) return corrupt("B1: a link leads to no node of its own");
  if (node->red > 1 || (node->red == 1 && under_red))
    return corrupt("B2: a red node under a red one, or a red root");
  if (!node->slot.is_sound()) return corrupt("B1: a value is longer than a slot");
  const auto left = walk_below(walk, node->child[0], node->red == 1, depth + 1, check);
  if (!left) return left;
  if (check.any && node->key <= check.last_key) return corrupt("B1: a key is out of order");
  check.last_key = node->key;
  check.any = true;
  walk.count_record();
  const auto right = walk_below(walk, node->child[1], node->red == 1, depth + 1, check);
  if (!right) return right;
  if (*left != *right) return corrupt("B2: black heights differ");
  return *left + (node->red == 0 ? 1 : 0);
}

template <class Memory>
auto Rbtree<Memory>::descend(std::uint64_t key, Path& path) const noexcept -> Node* {
  path.push(nullptr, 0);
  Node* node = at(this->top().root);
  while (node != nullptr && node->key != key) {
    const unsigned side = node->key < key ? 1 : 0;
    path.push(node, side);
    node = at(node->child[side]);
  }
  return node;
}

template <class Memory>
auto Rbtree<Memory>::rotate(Change& change, const Step& above, Node& node, unsigned side) -> Node* {
  Node* const up = at(node.child[1 - side]);
  change.link(node.child[1 - side], up->child[side]);
  change.link(up->child[side], this->memory_.ref(&node));
  change.link(link_of(above), this->memory_.ref(up));
  return up;
}

template <class Memory>
Effect Rbtree<Memory>::put(Change& change, std::uint64_t key, std::string_view value, Put how) {
  Path path;
  if (Node* const found = descend(key, path); found != nullptr) {
    if (how == Put::insert) return Effect::exists;
    this->rewrite(change, found->slot, value);
    return Effect::replaced;
  }
  if (how == Put::update) return Effect::not_found;
  auto* const node = change.template make<Node>();
  node->key = key;
  node->red = path.size > 1 ? 1 : 0;
  node->slot.write(value);
  node->child.fill(this->memory_.template null<Node>());
  change.link(link_of(path.step[path.size - 1]), this->memory_.ref(node));
  after_insert(change, path);
  return Effect::added;
}

/// The path's last link leads to a red node, whose parent may be red, too.
template <class Memory>
void Rbtree<Memory>::after_insert(Change& change, Path& path) {
  while (path.size >= 3 && is_red(path.step[path.size - 1].node)) {
    Node& parent = *path.step[path.size - 1].node;
    const auto [grand, side] = path.step[path.size - 2];
    Node* const uncle = at(grand->child[1 - side]);
    if (!is_red(uncle)) {
      Node* up = &parent;
      if (path.step[path.size - 1].side != side)
        up = rotate(change, path.step[path.size - 2], parent, side);
      paint(change, *up, false);
      paint(change, *grand, true);
      rotate(change, path.step[path.size - 3], *grand, 1 - side);
      return;
    }
    paint(change, parent, false);
    paint(change, *uncle, false);
    path.size -= 2;
    if (path.size > 1) paint(change, *grand, true);  // the root stays black
  }
}

template <class Memory>
Effect Rbtree<Memory>::take(Change& change, std::uint64_t key) {
  Path path;
  Node* const node = descend(key, path);
  if (node == nullptr) return Effect::not_found;
  if (unlink(change, path, *node)) after_remove(change, path);
  change.drop(node);
  return Effect::removed;
}

template <class Memory>
bool Rbtree<Memory>::unlink(Change& change, Path& path, Node& node) {
  Ref<Node>& link = link_of(path.step[path.size - 1]);
  if (!node.child[0] || !node.child[1]) {
    change.link(link, node.child[node.child[0] ? 0 : 1]);
    return node.red == 0;
  }
  // The next larger node takes its place and its colour; what goes from there is the next one's.
  const unsigned place = path.size;
  path.push(nullptr, 1);
  Node* next = at(node.child[1]);
  while (next->child[0]) {
    path.push(next, 0);
    next = at(next->child[0]);
  }
  path.step[place].node = next;
  const bool black = next->red == 0;
  if (path.size > place + 1) {
    change.link(link_of(path.step[path.size - 1]), next->child[1]);
    change.link(next->child[1], node.child[1]);
  }
  change.link(next->child[0], node.child[0]);
  paint(change, *next, node.red != 0);
  change.link(link, this->memory_.ref(next));
  return black;
}

/// Ways through the path's last link meet one black node less than those beside it.
template <class Memory>
void Rbtree<Memory>::after_remove(Change& change, Path& path) {
  for (;; --path.size) {
    Node* const below = at(link_of(path.step[path.size - 1]));
    if (is_red(below)) return paint(change, *below, false);
    if (path.size < 2) return;
    const auto [parent, side] = path.step[path.size - 1];
    Node* beside = at(parent->child[1 - side]);
    if (is_red(beside)) {
      paint(change, *beside, false);
      paint(change, *parent, true);
      rotate(change, path.step[path.size - 2], *parent, side);
      path.step[path.size - 1] = {beside, side};
      path.push(parent, side);
      beside = at(parent->child[1 - side]);
    }
    Node* const inner = at(beside->child[side]);
    Node* const outer = at(beside->child[1 - side]);
    if (!is_red(inner) && !is_red(outer)) {
      paint(change, *beside, true);
      continue;
    }
    if (!is_red(outer)) {
      paint(change, *inner, false);
      paint(change, *beside, true);
      beside = rotate(change, {parent, 1 - side}, *beside, 1 - side);
    }
    paint(change, *beside, parent->red != 0);
    paint(change, *parent, false);
    paint(change, *at(beside->child[1 - side]), false);
    rotate(change, path.step[path.size - 2], *parent, side);
    return;
  }
}

namespace {

PERDURE_REGISTER_INDEX(rbtree, IndexInfo{.name = "rbtree",
                                         .title = "Red-black tree (Islam et al., MSST 2020)",
                                         .options = options(),
                                         .modes = modes<Family<Rbtree>>(Tearing::structure)});

}  // namespace
}  // namespace perdure::structure
