// LineTree::check_invariants: the whole tree against every numbered invariant that a walk can see.
#include <string>

#include "index/linetree/linetree.h"

namespace perdure {

using linetree::LeafInfo;
using linetree::Summary;

namespace {

Error broken(const Pool& pool, const std::string& invariant, std::uint64_t offset) {
  return {ErrorCode::corrupt,
          "linetree breaks " + invariant + " at the leaf at offset " + std::to_string(offset),
          pool.path(), "restore the pool from a copy"};
}

}  // namespace

// `high` is the next leaf's lowest key, null in the last leaf.
template <class Keys>
Result<void> LineTree<Keys>::check_leaf(const Leaf& leaf, const Key* high) const {
  const std::uint64_t offset = offset_of(&leaf);
  const LeafInfo& info = info_of(&leaf);
  const std::uint64_t empty = Kind::commit_word(Kind::empty(leaf.lowest()));
  const Key low = linetree::lowest_key(records_, leaf);
  if constexpr (!has_text_keys<Keys>)
    if (info.highest() != (high == nullptr ? ~std::uint64_t{0} : *high - 1))
      return broken(pool_, "V1: the bound in DRAM is not the interval's", offset);
  std::uint32_t live = 0;
  for (unsigned i = 1; i < shape_.slots(); ++i) {
    const RecordWords words = leaf.slot(i).load();
    if (Kind::commit_word(words) == empty) continue;
    if constexpr (has_text_keys<Keys>)
      if (Result<void> sane = records_.check(Kind::record(words)); !sane)
        return broken(pool_, "L6: " + sane.error().what, offset);
    const Key key = records_.key_of(Kind::record(words));
    if (key < low) return broken(pool_, "L3: a key lies below the interval", offset);
    if (high != nullptr && !(key < *high)) {
      if constexpr (has_text_keys<Keys>)
        return broken(pool_, "L6: a stale slot leads to a blob", offset);
      continue;
    }
    ++live;
    if constexpr (Store::has_blobs && !has_text_keys<Keys>)
      if (Result<void> sane = records_.check(words); !sane) return sane;
    const Probe probe(shape_, key);
    const unsigned line = linetree::line_of(i);
    if (Kind::commit_word(Kind::slot(Kind::record(words), probe)) != Kind::commit_word(words))
      return broken(pool_, "L6: a tag is not its key's", offset);
    if (line != probe.place.home && line != probe.place.overflow())
      return broken(pool_, "L4: a record lies in neither of its lines", offset);
    const auto always = [] { return true; };
    if (search_line(leaf, line, probe, always) != i ||
        search_line(leaf, probe.place.beside(line), probe, always) != linetree::no_slot)
      return broken(pool_, "L4: a key occurs twice", offset);
    if (line != probe.place.home && !info.may_overflow(probe.place.home))
      return broken(pool_, "V2: an overflow is not noted", offset);
  }
  if (info.records() != live)
    return broken(pool_, "V3: the number of records in DRAM is wrong", offset);
  return {};
}

template <class Keys>
Result<void> LineTree<Keys>::check_invariants() const {
  if (!locks_.all_free()) return broken(pool_, "S1: a stripe is held at rest", null_offset);
  std::uint64_t expected = offset_of(first());
  std::uint64_t leaves = 0;
  std::uint64_t records = 0;
  Key previous{};
  bool has_boundary = has_text_keys<Keys>;
  const auto visit = [&](void* found, const Key* low, const Key*) -> Result<void> {
    const auto& leaf = *static_cast<const Leaf*>(found);
    if (offset_of(&leaf) != expected)
      return broken(pool_, "T1: the chain leads elsewhere than the inner tree", expected);
    const Key lowest = linetree::lowest_key(records_, leaf);
    if (leaves == 0 ? leaf.lowest() != 0 : !(previous < lowest))
      return broken(pool_, "L2: the lowest keys do not ascend from the lowest of all", expected);
    if (low == nullptr ? leaves != 0 : *low != lowest)
      return broken(pool_, "T1: the separator is not the lowest key", expected);
    leaf.prefetch(shape_);
    expected = leaf.successor();
    has_boundary |= leaf.lowest() == linetree::boundary;
    previous = lowest;
    ++leaves;
    records += info_of(&leaf).records();
    if (expected == null_offset) return check_leaf(leaf, nullptr);
    const Key high = linetree::lowest_key(records_, *leaf_at(expected));
    return check_leaf(leaf, &high);
  };
  Result<void> walked = inner_.check(visit);
  if (!walked) return walked;
  if (expected != null_offset)
    return broken(pool_, "T1: the chain goes on behind the last leaf", expected);
  if (!has_boundary) return broken(pool_, "L2: no leaf begins at 2^63", null_offset);
  if (records != size())
    return broken(pool_, "V3: records are counted of leaves that the chain does not pass",
                  expected);

  // With other roots in the pool their blocks cannot be told from ours.
  epochs_.drain();
  constexpr std::uint64_t other_blocks = 2;  // root and anchor
  std::uint64_t reachable = leaves + other_blocks;
  if (Store::has_blobs) reachable += size();
  if (has_text_keys<Keys>) reachable += leaves - 1;  // lowest keys
  const std::uint64_t live = heap_.usage().live_blocks - heap_.volatile_usage().live_blocks;
  if (pool_.roots().size() == 1 && live != reachable)
    return broken(pool_,
                  "T2: " + std::to_string(live) + " blocks are live and " +
                      std::to_string(reachable) + " reachable",
                  offset_of(first()));
  return {};
}

template Result<void> LineTree<IntegerKeys>::check_invariants() const;
template Result<void> LineTree<SlotKeys>::check_invariants() const;
template Result<void> LineTree<ByteKeys>::check_invariants() const;

}  // namespace perdure
