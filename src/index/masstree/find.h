// How Masstree finds a border node, and an integer in it. Inlined into every operation: the next
// operation overlaps with this one's misses only as far as the reorder buffer reaches, so
// instructions cost time; and what is handed over in memory, stored in parts and loaded as a whole,
// waits there until the stores before it have drained.
#pragma once

#include "index/masstree/masstree.h"

namespace perdure {

template <class Keys>
auto Masstree<Keys>::climb(Node* node) noexcept -> Node* {
  while (Interior* const parent = node->parent.load(std::memory_order_acquire)) node = parent;
  return node;
}

// Down to the border node that covers the slice. Null: something changes at this moment. A split
// holds the node and its parent until both are done, so a child that is not locked, below a parent
// that did not change, covers what the parent says: only a later change sends a reader to the
// right. Until the parent is validated the child is but a node: one that was there when its number
// was read (Interior::child_for), so that its memory lasts for this operation (M5).
template <class Keys>
template <class ChildOf>
[[gnu::always_inline]] inline auto Masstree<Keys>::descend(Node* node, ChildOf&& child_of) noexcept
    -> Position {
  std::uint64_t version = node->lock.peek();
  if (!pm::VersionLock::is_free(version) || node->parent.load(std::memory_order_acquire) != nullptr)
    return {};  // the latter: it was split meanwhile (M4)
  while (node->level > 0) {
    Node* const child = child_of(static_cast<const Interior&>(*node));
    pm::prefetch_range(child, sizeof(Border));
    const std::uint64_t entered = child->lock.peek();
    if (!pm::VersionLock::is_free(entered) || !node->lock.validate(version)) return {};
    node = child;
    version = entered;
  }
  return {static_cast<Border*>(node), version};
}

// Null: the layer was taken out.
template <class Keys>
[[gnu::always_inline]] inline auto Masstree<Keys>::find_border(Node* root,
                                                               std::uint64_t slice) noexcept
    -> Position {
  const auto child_of = [slice](const Interior& node) { return node.child_for(slice); };
  const auto wide_child_of = [slice](const Interior& node) { return node.child_for_wide(slice); };
  for (Node* top = root;; top = wait_for_root(root)) {
    if (top == nullptr) return {};
    const Position at = Interior::is_wide() ? descend(top, wide_child_of) : descend(top, child_of);
    if (at.border != nullptr) [[likely]]
      return at;
  }
}

// For the writer that is in the way of a descent, a while. Null: the layer was taken out.
template <class Keys>
auto Masstree<Keys>::wait_for_root(Node* root) noexcept -> Node* {
  pm::Backoff().wait();
  Node* const top = climb(root);
  return pm::VersionLock::is_obsolete(top->lock.read_begin()) ? nullptr : top;
}

// Of an integer: its only layer has one entry a slice, and its root stays.
template <class Keys>
[[gnu::always_inline]] inline auto Masstree<Keys>::find_number(std::uint64_t slice) const noexcept
    -> Number {
  for (;;) {
    const Position at = find_border(root_.load(std::memory_order_acquire), slice);
    const Number number = number_in(*at.border, slice);
    if (at.holds()) [[likely]]
      return {at, number.order, number.rank, number.place, number.taken, number.word};
  }
}

// Believe it under the lock, or once the node was validated.
template <class Keys>
[[gnu::always_inline]] inline auto Masstree<Keys>::number_in(const Border& border,
                                                             std::uint64_t slice) noexcept
    -> Number {
  const Permutation order = border.order();
  const unsigned rank = pm::count_below_in_order(border.slices.data(), order.word(), slice);
  const unsigned place = order.place(std::min(rank, masstree::width - 1));
  // One branch on both, because what is at the end is unpredictable.
  const std::uint64_t differs = border.slices[place].load(std::memory_order_acquire) ^ slice;
  const bool taken = (differs | std::uint64_t{rank >= order.count()}) == 0;
  return {{}, order, rank, place, taken, border.words[place].load(std::memory_order_acquire)};
}

}  // namespace perdure
