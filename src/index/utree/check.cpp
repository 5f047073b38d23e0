// UTree::check_invariants: list and tree against every numbered invariant that a walk can see.
#include <string>

#include "index/utree/utree.h"

namespace perdure {
namespace {

Error broken(const Pool& pool, const std::string& invariant, std::uint64_t offset) {
  return {ErrorCode::corrupt,
          "utree breaks " + invariant + " at the node at offset " + std::to_string(offset),
          pool.path(), "restore the pool from a copy"};
}

}  // namespace

// `expected` is the node that the list leads to; it moves on with the entries.
template <class Keys>
Result<void> UTree<Keys>::check_leaf(const Leaf& leaf, const Key* low, const Key* high,
                                     std::uint64_t& expected) const {
  const unsigned count = leaf.count();
  if (pm::VersionLock::is_locked(leaf.lock.peek()) ||
      pm::VersionLock::is_obsolete(leaf.lock.peek()))
    return broken(pool_, "S3: a leaf is locked at rest", expected);
  if (count > leaf_entries_) return broken(pool_, "D1: a leaf is overfull", expected);
  if (count == 0 && &leaf != first_) return broken(pool_, "T3: a leaf is empty", expected);
  RecordWords last;
  unsigned used = 0;  // key words that are not the unused one
  for (unsigned i = 0; i < count; ++i) {
    if (leaf.node(i) != expected)
      return broken(pool_, "T1: the list leads elsewhere than the leaf", expected);
    const ListNode& node = *node_at(expected);
    const RecordWords words = node.record.load();
    if (Result<void> sane = records_.check(words); !sane) return sane;
    if (leaf.key_word(i) != words.key)
      return broken(pool_, "D1: a key word is not its node's", expected);
    const Key key = records_.key_of(words);
    if ((low != nullptr && key < *low) || (high != nullptr && !(key < *high)))
      return broken(pool_, "T2: a key lies outside the bounds of its leaf", expected);
    if (i > 0 && !records_.less(last, words))
      return broken(pool_, "L1: keys do not ascend", expected);
    last = words;
    used += words.key != Leaf::unused_key;
    expected = node.next.load(std::memory_order_acquire);
  }
  if (leaf.up_to(Leaf::unused_key - 1) != used)
    return broken(pool_, "S2: an unused key word is not 2^64 - 1", expected);
  return {};
}

template <class Keys>
Result<void> UTree<Keys>::check_invariants() const {
  std::uint64_t expected = head_->next.load(std::memory_order_acquire);
  const Leaf* leaf = first_;
  std::uint64_t records = 0;
  const auto visit = [&](void* found, const Key* low, const Key* high) -> Result<void> {
    if (found != leaf)
      return broken(pool_, "T1: the chain of leaves is not the inner tree's order", expected);
    records += leaf->count();
    if (Result<void> sound = check_leaf(*leaf, low, high, expected); !sound) return sound;
    leaf = leaf->next.load(std::memory_order_acquire);
    return {};
  };
  if (Result<void> walked = inner_.check(visit); !walked) return walked;
  if (leaf != nullptr) return broken(pool_, "T1: the chain of leaves goes on", expected);
  if (expected != null_offset)
    return broken(pool_, "T1: the list goes on behind the last leaf", expected);

  // With other roots in the pool their blocks cannot be told from ours.
  epochs_.drain();
  constexpr std::uint64_t own_blocks = 2;  // the root and the head
  const std::uint64_t reachable =
      own_blocks + records * (RecordStore<Keys>::has_blobs ? std::uint64_t{2} : std::uint64_t{1});
  const std::uint64_t live = heap_.usage().live_blocks;
  if (pool_.roots().size() == 1 && live != reachable)
    return broken(pool_,
                  "L2: " + std::to_string(live) + " blocks are live and " +
                      std::to_string(reachable) + " reachable",
                  pool_.offset_of(head_));
  return {};
}

template Result<void> UTree<IntegerKeys>::check_invariants() const;
template Result<void> UTree<ByteKeys>::check_invariants() const;

}  // namespace perdure
