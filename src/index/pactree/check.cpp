// PacTree::check_invariants: list and search layer against every numbered invariant that a walk can
// see.
#include <bitset>
#include <string>

#include "index/pactree/pactree.h"

namespace perdure {
namespace {

Error broken(const Pool& pool, const std::string& invariant, std::uint64_t offset) {
  return {ErrorCode::corrupt,
          "pactree breaks " + invariant + " at offset " + std::to_string(offset), pool.path(),
          "restore the pool from a copy"};
}

}  // namespace

template <class Keys>
Result<void> PacTree<Keys>::check_node(const DataNode& node, const DataNode* previous) const {
  const std::uint64_t offset = offset_of(&node);
  const auto fails = [&](const char* what) { return broken(pool_, what, offset); };
  const std::uint64_t word = node.lock.peek();
  if (pm::VersionLock::is_locked(word) || pm::VersionLock::is_obsolete(word))
    return fails("L9: a node is locked at rest");
  const std::uint64_t commit = node.commit.load(std::memory_order_acquire);
  if ((commit & ~full()) != 0) return fails("L1: a commit bit has no record");
  const RecordWords anchor = node.anchor.load();
  if (Result<void> sane = records_.check(anchor); !sane) return sane;
  const DataNode* const next = next_of(node);
  const RecordWords end = next == nullptr ? RecordWords{pactree::no_high} : next->anchor.load();
  if (node.high.load(std::memory_order_acquire) != end.key)
    return fails("L8: `high` is not the next anchor");
  if (node.prev.load(std::memory_order_acquire) !=
      (previous == nullptr ? null_offset : offset_of(previous)))
    return fails("L8: `prev` leads elsewhere");
  if (next != nullptr && !ascends(node, anchor, end)) return fails("L5: anchors do not ascend");
  std::bitset<256> tags;  // of the slots before: a key that occurs twice has the same one
  for (std::uint64_t left = commit; left != 0; left &= left - 1) {
    const auto slot = static_cast<unsigned>(std::countr_zero(left));
    const RecordWords words = node.record(slot).load();
    if (Result<void> sane = records_.check(words); !sane) return sane;
    const Key key = records_.key_of(words);
    const std::uint64_t hash = hash_of(key);
    const std::uint8_t tag = fingerprint_from(hash);
    if (node.tag[slot] != tag) return fails("L3: a tag is not its key's");
    if (records_.less(words, anchor) || (next != nullptr && !records_.less(words, end)))
      return fails("T1: a key lies outside its node");
    RecordWords found;
    if (tags.test(tag) &&
        pactree::find_slot(node, records_, key, hash, found, [] { return true; }) != slot)
      return fails("T1: a key occurs twice");
    tags.set(tag);
  }
  return {};
}

template <class Keys>
Result<void> PacTree<Keys>::check_invariants() const {
  settle();
  std::uint64_t nodes = 0;
  const DataNode* previous = nullptr;
  for (const DataNode* node = first_; node != nullptr; node = next_of(*node)) {
    if (Result<void> sound = check_node(*node, previous); !sound) return sound;
    previous = node;
    ++nodes;
  }
  const bool complete = log_.is_empty();
  const DataNode* expected = next_of(*first_);
  const auto visit = [&](std::uint64_t node, std::string_view path, bool ends) -> Result<void> {
    if (!complete)
      while (expected != nullptr && offset_of(expected) != node) expected = next_of(*expected);
    if (expected == nullptr || offset_of(expected) != node)
      return broken(pool_, "T2: the search layer leads elsewhere than the list", node);
    if (!leads_to(path, ends, expected->anchor.load()))
      return broken(pool_, "S5: a path leads to another anchor", node);
    expected = next_of(*expected);
    return {};
  };
  const Result<std::vector<std::uint64_t>> trie = trie_.check(visit);
  if (!trie) return trie.error();
  if (complete && expected != nullptr)
    return broken(pool_, "T2: the search layer misses a node", offset_of(expected));

  // With other roots in the pool their blocks cannot be told from ours.
  constexpr std::uint64_t own_blocks = 2;  // the root and the log
  const std::uint64_t blobs = RecordStore<Keys>::has_blobs ? size() + nodes : 0;
  const std::uint64_t reachable = own_blocks + nodes + trie->size() + blobs;
  const std::uint64_t live = heap_.usage().live_blocks;
  if (pool_.roots().size() == 1 && live != reachable)
    return broken(pool_,
                  "T5: " + std::to_string(live) + " blocks are live and " +
                      std::to_string(reachable) + " reachable",
                  offset_of(first_));
  return {};
}

template Result<void> PacTree<IntegerKeys>::check_invariants() const;
template Result<void> PacTree<ByteKeys>::check_invariants() const;

}  // namespace perdure
