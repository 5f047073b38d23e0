// LineTree::check_invariants: the whole tree against every numbered invariant that a walk can see.
#include <string>

#include "index/linetree/linetree.h"

namespace perdure {

using linetree::Interval;
using linetree::LeafInfo;
using linetree::Summary;

namespace {

Error broken(const Pool& pool, const std::string& invariant, std::uint64_t offset) {
  return {ErrorCode::corrupt,
          "linetree breaks " + invariant + " at the leaf at offset " + std::to_string(offset),
          pool.path(), "restore the pool from a copy"};
}

}  // namespace

Result<void> LineTree::check_leaf(const Leaf& leaf) const {
  const std::uint64_t offset = offset_of(&leaf);
  const std::uint64_t next = leaf.successor();
  const Interval interval{leaf.lowest(),
                          next == null_offset ? ~std::uint64_t{0} : leaf_at(next)->lowest() - 1};
  const LeafInfo& info = info_of(&leaf);
  if (info.highest() != interval.last)
    return broken(pool_, "V1: the bound in DRAM is not the interval's", offset);
  for (unsigned i = 1; i < shape_.slots(); ++i) {
    const std::uint64_t key = leaf.slot(i).key.load(std::memory_order_acquire);
    if (!interval.holds(key)) {
      if (key != linetree::empty_key(interval.least) && key < interval.least)
        return broken(pool_, "L3: a key lies below the interval", offset);
      continue;
    }
    const Place place = shape_.place(key);
    const unsigned line = linetree::line_of(i);
    if (line != place.home && line != place.overflow())
      return broken(pool_, "L4: a record lies in neither of its lines", offset);
    const std::uint32_t here = leaf.matching(line, key);
    if ((here & (here - 1)) != 0 || leaf.find_in(place.beside(line), key) != linetree::no_slot)
      return broken(pool_, "L4: a key occurs twice", offset);
    if (line != place.home && !info.may_overflow(place.home))
      return broken(pool_, "V2: an overflow is not noted", offset);
  }
  if (info.records() != summarize(shape_, interval, leaf.keys()).count)
    return broken(pool_, "V3: the number of records in DRAM is wrong", offset);
  return {};
}

Result<void> LineTree::check_invariants() const {
  if (!locks_.all_free()) return broken(pool_, "S1: a stripe is held at rest", null_offset);
  std::uint64_t expected = offset_of(first());
  std::uint64_t leaves = 0;
  std::uint64_t previous = 0;
  bool has_boundary = false;
  const auto visit = [&](void* found, const std::uint64_t* low,
                         const std::uint64_t*) -> Result<void> {
    const auto& leaf = *static_cast<const Leaf*>(found);
    const std::uint64_t lo = leaf.lowest();
    if (offset_of(&leaf) != expected)
      return broken(pool_, "T1: the chain leads elsewhere than the inner tree", expected);
    if (leaves == 0 ? lo != 0 : lo <= previous)
      return broken(pool_, "L2: the lowest keys do not ascend from 0", expected);
    if (low == nullptr ? leaves != 0 : *low != lo)
      return broken(pool_, "T1: the separator is not the lowest key", expected);
    leaf.prefetch(shape_);
    expected = leaf.successor();
    has_boundary |= lo == linetree::boundary;
    previous = lo;
    ++leaves;
    return check_leaf(leaf);
  };
  Result<void> walked = inner_.check(visit);
  if (!walked) return walked;
  if (expected != null_offset)
    return broken(pool_, "T1: the chain goes on behind the last leaf", expected);
  if (!has_boundary) return broken(pool_, "L2: no leaf begins at 2^63", null_offset);

  // With other roots in the pool their blocks cannot be told from ours.
  epochs_.drain();
  const std::uint64_t live = heap_.usage().live_blocks;
  constexpr std::uint64_t other_blocks = 2;  // root and anchor
  if (pool_.roots().size() == 1 && live != leaves + other_blocks)
    return broken(pool_,
                  "T2: " + std::to_string(live) + " blocks are live and " +
                      std::to_string(leaves + other_blocks) + " reachable",
                  offset_of(first()));
  return {};
}

}  // namespace perdure
