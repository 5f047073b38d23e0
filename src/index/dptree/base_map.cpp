#include "index/dptree/base_map.h"

#include <algorithm>

#include "core/assert.h"

namespace perdure::dptree {
namespace {

std::uint8_t byte_at(std::string_view text, std::uint32_t i) noexcept {
  return static_cast<std::uint8_t>(text[i]);
}

}  // namespace

template <class Separators>
void RadixTree::build(const Separators& separators) {
  nodes_.clear();
  bytes_.clear();
  children_.clear();
  root_ = build_range(separators, 0, static_cast<std::uint32_t>(separators.size()), 0);
}

template <class Separators>
std::uint32_t RadixTree::build_range(const Separators& separators, std::uint32_t first,
                                     std::uint32_t end, std::uint32_t depth) {
  if (end - first == 1) return first | leaf_bit;
  const std::string_view low = separators.text(first);
  const std::string_view high = separators.text(end - 1);
  while (depth < low.size() && low[depth] == high[depth]) ++depth;
  const auto number = static_cast<std::uint32_t>(nodes_.size());
  nodes_.push_back({first, end - 1, depth, 0, 0, 0, low.size() == depth});
  std::vector<std::uint8_t> bytes;
  std::vector<std::uint32_t> begins;
  for (std::uint32_t i = first + (low.size() == depth ? 1 : 0); i < end; ++i) {
    const std::uint8_t byte = byte_at(separators.text(i), depth);
    if (!bytes.empty() && bytes.back() == byte) continue;
    bytes.push_back(byte);
    begins.push_back(i);
  }
  std::vector<std::uint32_t> children;
  for (std::size_t i = 0; i < begins.size(); ++i)
    children.push_back(
        build_range(separators, begins[i], i + 1 < begins.size() ? begins[i + 1] : end, depth + 1));
  Node& node = nodes_[number];
  node.count = static_cast<std::uint32_t>(children.size());
  node.bytes = static_cast<std::uint32_t>(bytes_.size());
  node.children = static_cast<std::uint32_t>(children_.size());
  children_.insert(children_.end(), children.begin(), children.end());
  if (node.count <= counted) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  } else {
    // Entry b: children whose byte is not above b, less one, because 256 does not fit.
    for (unsigned b = 0; b < 256; ++b) {
      const auto up_to = std::ranges::upper_bound(bytes, static_cast<std::uint8_t>(b));
      const auto rank = up_to - bytes.begin();
      bytes_.push_back(static_cast<std::uint8_t>(rank == 0 ? 0 : rank - 1));
    }
  }
  return number;
}

/// Children whose byte is not above `byte`. In the table a rank of 0 is told from 1 by the caller.
std::uint32_t RadixTree::rank_of(const Node& node, std::uint8_t byte) const noexcept {
  const std::uint8_t* const at = &bytes_[node.bytes];
  if (node.count > counted) return at[byte] + std::uint32_t{1};
  std::uint32_t rank = 0;
  for (std::uint32_t i = 0; i < node.count; ++i) rank += at[i] <= byte;
  return rank;
}

template <class Separators>
std::size_t RadixTree::find(const Separators& separators, std::string_view key) const noexcept {
  const auto below = [](std::size_t i) { return i == 0 ? i : i - 1; };
  std::uint32_t at = root_;
  std::size_t checked = 0;  // bytes of the key that are those of every separator here
  while ((at & leaf_bit) == 0) {
    const Node& node = nodes_[at];
    if (const std::size_t shared = node.depth - checked; shared != 0) {
      const std::string_view low = separators.text(node.first);
      const int order = key.substr(checked, shared).compare(low.substr(checked, shared));
      if (order != 0) return order < 0 ? below(node.first) : node.last;
    }
    if (key.size() <= node.depth) return node.ends_here ? node.first : below(node.first);
    const std::uint8_t byte = byte_at(key, node.depth);
    const std::uint32_t rank = rank_of(node, byte);
    const auto child_byte = [&](std::uint32_t child) {
      return byte_at(separators.text(first_of(child)), node.depth);
    };
    if (rank == 0) return node.ends_here ? node.first : below(node.first);
    const std::uint32_t child = children_[node.children + rank - 1];
    const std::uint8_t reached = child_byte(child);
    if (reached > byte) return node.ends_here ? node.first : below(node.first);
    if (reached < byte)
      return rank < node.count ? first_of(children_[node.children + rank]) - 1 : node.last;
    checked = node.depth + std::size_t{1};
    at = child;
  }
  const std::uint32_t leaf = at & ~leaf_bit;
  return key < separators.text(leaf) ? below(leaf) : leaf;
}

template void RadixTree::build(const IntegerSeparators&);
template void RadixTree::build(const TextSeparators&);
template std::size_t RadixTree::find(const IntegerSeparators&, std::string_view) const noexcept;
template std::size_t RadixTree::find(const TextSeparators&, std::string_view) const noexcept;

}  // namespace perdure::dptree
