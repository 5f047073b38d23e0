// UTree::plant: the DRAM half over a list that is whole. For recovery and bulk load.
#pragma once

#include <algorithm>
#include <vector>

#include "index/common/parallel.h"
#include "index/utree/utree.h"

namespace perdure {

template <class Keys>
template <class Visit>
Result<void> UTree<Keys>::plant(std::span<const std::uint64_t> offsets, Visit&& visit) {
  constexpr std::size_t prefetch_distance = 16;  // nodes
  const std::size_t fill =
      (3 * std::size_t{leaf_entries_} + 3) / 4;  // room before the first splits
  const std::size_t leaves = std::max<std::size_t>(1, (offsets.size() + fill - 1) / fill);
  const auto begin_of = [&](std::size_t leaf) { return offsets.size() * leaf / leaves; };
  std::vector<typename InnerTree<Keys>::Child> children(leaves);
  const auto work = [&](std::size_t begin, std::size_t end, std::size_t) -> Result<void> {
    for (std::size_t number = begin; number < end; ++number) {
      Leaf& leaf = number == 0 ? *first_ : *new_leaf();
      children[number].leaf = &leaf;
      const std::size_t first = begin_of(number);
      const std::size_t last = begin_of(number + 1);
      for (std::size_t i = first; i < last; ++i) {
        if (i + prefetch_distance < offsets.size())
          pm::prefetch(node_at(offsets[i + prefetch_distance]));
        const std::uint64_t offset = offsets[i];
        const RecordWords words = node_at(offset)->record.load();
        if (Result<void> visited = visit(i, offset, words); !visited) return visited;
        if (i == first) children[number].lowest = records_.key_of(words);
        leaf.insert_at(static_cast<unsigned>(i - first), {words.key, offset});
      }
    }
    return {};
  };
  if (Result<void> done = in_parallel(leaves, threads_, work); !done) return done;
  for (std::size_t i = 1; i < leaves; ++i)
    static_cast<Leaf*>(children[i - 1].leaf)
        ->next.store(static_cast<Leaf*>(children[i].leaf), std::memory_order_release);
  inner_.build(children);
  return {};
}

}  // namespace perdure
