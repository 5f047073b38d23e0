#include "index/dptree/base_map.h"

#include "pm/pm.h"

namespace perdure::dptree {

template <class Separators>
void RadixTree<Separators>::build(const Separators& separators) {
  nodes_.clear();
  first_leaves_.clear();
  child_nodes_.clear();
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
  const auto children = static_cast<std::uint32_t>(first_leaves_.size());
  Node node{first, end - 1, depth, children, {}, {}, none, low.size() == depth};
  bool has_nodes = false;
  std::uint32_t before = end;
  for (std::uint32_t i = first + (node.ends_here ? 1 : 0); i < end; ++i) {
    const std::uint8_t byte = separators.probe(i).byte(depth);
    std::uint64_t& bits = node.bits[byte / 64];
    if ((bits >> byte % 64 & 1) != 0) continue;
    bits |= std::uint64_t{1} << byte % 64;
    has_nodes = has_nodes || (before < i && i - before > Separators::few);
    before = i;
    first_leaves_.push_back(i);
  }
  has_nodes = has_nodes || (before < end && end - before > Separators::few);
  const auto count = static_cast<std::uint32_t>(first_leaves_.size()) - children;
  first_leaves_.push_back(end);
  for (std::size_t word = 1; word < node.bits.size(); ++word)
    node.before[word] =
        static_cast<std::uint8_t>(node.before[word - 1] + pm::count_bits(node.bits[word - 1]));
  if (has_nodes) {
    node.nodes = static_cast<std::uint32_t>(child_nodes_.size());
    child_nodes_.resize(child_nodes_.size() + count, none);
  }
  nodes_.push_back(node);
  for (std::uint32_t i = 0; has_nodes && i < count; ++i) {
    const std::uint32_t from = first_leaves_[children + i];
    const std::uint32_t to = first_leaves_[children + i + 1];
    if (to - from <= Separators::few) continue;
    const std::uint32_t child = build_range(separators, from, to, depth + 1);
    child_nodes_[node.nodes + i] = child;
  }
  return number;
}

template <class Separators>
std::size_t RadixTree<Separators>::find(const Separators& separators, Probe key) const noexcept {
  const auto below = [](std::uint32_t i) { return i == 0 ? i : i - 1; };
  std::uint32_t checked = 0;  // bytes of the key that are those of every separator here
  for (std::uint32_t at = 0;;) {
    const Node node = nodes_[at];  // all of the line at once
    if (node.depth != checked) {
      const int order = key.compare(separators.probe(node.first), node.depth);
      if (order != 0) return order < 0 ? below(node.first) : node.last;
    }
    const std::uint32_t lower = node.ends_here ? node.first : below(node.first);
    if (key.size() <= node.depth) return lower;
    const unsigned byte = key.byte(node.depth);
    const std::uint64_t up_to = node.bits[byte / 64] << (63 - byte % 64);  // the byte's bit on top
    const unsigned rank = node.before[byte / 64] + pm::count_bits(up_to);
    if (rank == 0) return lower;
    const bool exact = up_to >> 63 != 0;
    const std::uint32_t next =
        exact && node.nodes != none ? child_nodes_[node.nodes + rank - 1] : none;
    if (next == none) {
      // Without a branch on `exact`, which nobody could predict.
      const std::uint32_t* const leaves = &first_leaves_[node.children + rank - 1];
      const std::uint32_t first = leaves[exact ? 0 : 1];
      return below(first + separators.up_to(first, leaves[1], key));
    }
    checked = node.depth + 1;
    at = next;
  }
}

template class RadixTree<IntegerSeparators>;
template class RadixTree<TextSeparators>;

}  // namespace perdure::dptree
