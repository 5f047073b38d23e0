#include "index/dptree/base_map.h"

#include <algorithm>
#include <bit>

namespace perdure::dptree {

template <class Separators>
void RadixTree<Separators>::build(const Separators& separators) {
  nodes_.clear();
  children_.clear();
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
  Node node{first, end - 1, depth, 0, {}, {}, low.size() == depth};
  std::vector<Child> children;
  for (std::uint32_t i = first + (node.ends_here ? 1 : 0); i < end; ++i) {
    const std::uint8_t byte = separators.probe(i).byte(depth);
    std::uint64_t& bits = node.bits[byte / 64];
    if ((bits >> byte % 64 & 1) != 0) continue;
    bits |= std::uint64_t{1} << byte % 64;
    children.push_back({i, no_node});
  }
  for (std::size_t word = 1; word < node.bits.size(); ++word)
    node.before[word] =
        static_cast<std::uint8_t>(node.before[word - 1] + std::popcount(node.bits[word - 1]));
  nodes_.push_back(node);
  children.push_back({end, no_node});
  for (std::size_t i = 0; i + 1 < children.size(); ++i)
    if (children[i + 1].first - children[i].first > 1)
      children[i].node =
          build_range(separators, children[i].first, children[i + 1].first, depth + 1);
  nodes_[number].children = static_cast<std::uint32_t>(children_.size());
  children_.insert(children_.end(), children.begin(), children.end());
  return number;
}

template <class Separators>
std::size_t RadixTree<Separators>::find(const Separators& separators, Probe key) const noexcept {
  const auto below = [](std::size_t i) { return i == 0 ? i : i - 1; };
  std::uint32_t checked = 0;  // bytes of the key that are those of every separator here
  for (std::uint32_t at = 0;;) {
    const Node& node = nodes_[at];
    if (node.depth != checked) {
      const int order = key.compare(separators.probe(node.first), node.depth);
      if (order != 0) return order < 0 ? below(node.first) : node.last;
    }
    const std::size_t lower = node.ends_here ? node.first : below(node.first);
    if (key.size() <= node.depth) return lower;
    const unsigned byte = key.byte(node.depth);
    const std::uint64_t up_to = node.bits[byte / 64] << (63 - byte % 64);  // the byte's bit on top
    const auto rank = node.before[byte / 64] + static_cast<unsigned>(std::popcount(up_to));
    if (rank == 0) return lower;
    const Child* const child = &children_[node.children + rank - 1];
    const bool exact = up_to >> 63 != 0;
    if (!exact || child->node == no_node) {
      // Without a branch on `exact`, which nobody could predict.
      const std::size_t found = exact ? child[0].first : child[1].first - std::size_t{1};
      return found - static_cast<std::size_t>(found != 0 && separators.is_above(found, key));
    }
    checked = node.depth + 1;
    at = child->node;
  }
}

template class RadixTree<IntegerSeparators>;
template class RadixTree<TextSeparators>;

}  // namespace perdure::dptree
