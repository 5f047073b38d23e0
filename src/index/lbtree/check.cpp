// LbTree::check_invariants: the whole tree against every numbered invariant that a walk can see.
#include <string>

#include "index/lbtree/lbtree.h"

namespace perdure {
namespace {

Error broken(const Pool& pool, const std::string& invariant, std::uint64_t offset) {
  return {ErrorCode::corrupt,
          "lbtree breaks " + invariant + " at the leaf at offset " + std::to_string(offset),
          pool.path(), "restore the pool from a copy"};
}

}  // namespace

template <class Keys>
Result<void> LbTree<Keys>::check_leaf(const Leaf& leaf, const Key* low, const Key* high) const {
  const std::uint64_t offset = offset_of(&leaf);
  const Header header = leaf.read_header();
  if ((header.word_0 & Header::zero_mask) != 0) return broken(pool_, "L1: bit 14 is set", offset);
  if (header.live() == 0 && &leaf != first_) return broken(pool_, "T3: empty at rest", offset);
  for (unsigned i = 0; i < Leaf::entries; ++i) {
    if ((header.live() >> i & 1) == 0) continue;
    const RecordWords words = leaf.record[i].load();
    Result<void> sane = records_.check(words);
    if (!sane) return sane;
    const Key key = records_.key_of(words);
    if (fingerprint_of(key) != header.fingerprint(i))
      return broken(pool_, "L3: a fingerprint is not its key's", offset);
    if ((low != nullptr && key < *low) || (high != nullptr && !(key < *high)))
      return broken(pool_, "T2: a key lies outside the bounds of its leaf", offset);
    for (unsigned k = 0; k < i; ++k)
      if ((header.live() >> k & 1) != 0 && records_.matches(leaf.record[k].load(), key))
        return broken(pool_, "T2: a key occurs twice", offset);
  }
  return {};
}

template <class Keys>
Result<void> LbTree<Keys>::check_invariants() const {
  if (!locks_.all_free()) return broken(pool_, "S1: a stripe is held at rest", null_offset);
  std::uint64_t expected = offset_of(first_);
  std::uint64_t leaves = 0;
  const auto visit = [&](void* found, const Key* low, const Key* high) -> Result<void> {
    const auto& leaf = *static_cast<const Leaf*>(found);
    if (offset_of(&leaf) != expected)
      return broken(pool_, "T1: the chain leads elsewhere than the inner tree", expected);
    leaf.prefetch();
    expected = leaf.next(leaf.read_header());
    ++leaves;
    return check_leaf(leaf, low, high);
  };
  Result<void> walked = inner_.check(visit);
  if (!walked) return walked;
  if (expected != null_offset)
    return broken(pool_, "T1: the chain goes on behind the last leaf", expected);

  // With other roots in the pool their blocks cannot be told from ours.
  epochs_.drain();
  const std::uint64_t blobs = RecordStore<Keys>::has_blobs ? size() : 0;
  const std::uint64_t live = heap_.usage().live_blocks;
  constexpr std::uint64_t root_blocks = 1;
  const std::uint64_t reachable = leaves + blobs + root_blocks;
  // What was never published is never freed either.
  const bool counts = publishes_ ? live == reachable : live >= reachable;
  if (pool_.roots().size() == 1 && !counts)
    return broken(pool_,
                  "T4: " + std::to_string(live) + " blocks are live and " +
                      std::to_string(reachable) + " reachable",
                  offset_of(first_));
  return {};
}

template Result<void> LbTree<IntegerKeys>::check_invariants() const;
template Result<void> LbTree<ByteKeys>::check_invariants() const;

}  // namespace perdure
