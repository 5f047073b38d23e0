#include "index/dptree/base_map.h"

namespace perdure::dptree {

template <class Separators>
void RadixTree<Separators>::build(const Separators& separators) {
  nodes_.clear();
  children_.clear();
  children_.reserve(separators.size());
  (void)build_range(separators, 0, static_cast<std::uint32_t>(separators.size()), 0);
}

/// A node over the separators from `first` up to `end`, which share `depth` bytes or more.
template <class Separators>
std::uint32_t RadixTree<Separators>::build_range(const Separators& separators, std::uint32_t first,
                                                 std::uint32_t end, std::uint32_t depth) {
  const Probe low = separators.probe(first);
  const Probe high = separators.probe(end - 1);
  while (depth < low.size() && depth < high.size() && low.byte(depth) == high.byte(depth)) ++depth;
  const auto number = static_cast<std::uint32_t>(nodes_.size());
  const auto children = static_cast<std::uint32_t>(children_.size());
  Node node{first, end - 1, depth, children, {}, {}, low.size() == depth, false};
  const std::uint32_t begin = first + (node.ends_here ? 1 : 0);
  // A child takes the separators of one byte, and of the bytes after it while a few suffice.
  const auto end_of_child = [&](std::uint32_t i) {
    const auto end_of_byte = [&](std::uint32_t at) {
      const std::uint8_t byte = separators.probe(at).byte(depth);
      for (++at; at < end && separators.probe(at).byte(depth) == byte;) ++at;
      return at;
    };
    std::uint32_t stop = end_of_byte(i);
    for (std::uint32_t next = stop; next < end && next - i < Separators::few;) {
      next = end_of_byte(next);
      if (next - i <= Separators::few) stop = next;
    }
    return stop;
  };
  bool has_nodes = false;
  for (std::uint32_t i = begin, next = i; i < end; i = next) {
    const std::uint8_t byte = separators.probe(i).byte(depth);
    node.bits[byte / 64] |= std::uint64_t{1} << byte % 64;
    next = end_of_child(i);
    children_.emplace_back(separators, i, next);
    has_nodes = has_nodes || next - i > Separators::few;
  }
  for (std::size_t word = 1; word < node.bits.size(); ++word)
    node.before[word] =
        static_cast<std::uint8_t>(node.before[word - 1] + pm::count_bits(node.bits[word - 1]));
  node.is_last = !has_nodes;
  nodes_.push_back(node);
  std::uint32_t child = children;
  for (std::uint32_t i = begin, next = i; has_nodes && i < end; i = next, ++child) {
    next = end_of_child(i);
    if (next - i <= Separators::few) continue;
    const std::uint32_t made = build_range(separators, i, next, depth + 1);
    children_[child].set_node(made);
  }
  return number;
}

template <class Separators>
inline auto RadixTree<Separators>::approach(const Separators& separators, Probe key) const noexcept
    -> Way {
  const auto at_leaf = [](std::uint32_t i) { return Way{nullptr, i}; };
  const auto below = [&](std::uint32_t i) { return at_leaf(i == 0 ? i : i - 1); };
  std::uint32_t checked = 0;  // bytes of the key that are those of every separator here
  for (std::uint32_t at = 0;;) {
    const Node node = nodes_[at];  // all of the line at once
    if (node.depth != checked) {
      const int order = key.compare(separators.probe(node.first), node.depth);
      if (order != 0) return order < 0 ? below(node.first) : at_leaf(node.last);
    }
    const auto lower = [&] { return node.ends_here ? at_leaf(node.first) : below(node.first); };
    if (key.size() <= node.depth) return lower();
    const unsigned byte = key.byte(node.depth);
    const std::uint64_t up_to = node.bits[byte / 64] << (63 - byte % 64);  // the byte's bit on top
    const unsigned rank = node.before[byte / 64] + pm::count_bits(up_to);
    if (rank == 0) return lower();
    // Whether the child has this byte or a lower one, it is the one with the separator. Without a
    // branch on that, which would be unpredictable.
    const Run& child = children_[node.children + rank - 1];
    const bool exact = up_to >> 63 != 0;
    if (node.is_last || child.node() == no_node || !exact) return {&child, 0};
    checked = node.depth + 1;
    at = child.node();
  }
}

template <class Separators>
LeafPlace RadixTree<Separators>::find(const Separators& separators, Probe key) const noexcept {
  return find(separators, key, approach(separators, key));
}

template class RadixTree<IntegerSeparators>;
template class RadixTree<TextSeparators>;

}  // namespace perdure::dptree
