#include "index/dptree/check.h"

#include <algorithm>
#include <string>
#include <unordered_set>

namespace perdure::dptree {

namespace {

Error broken(const Pool& pool, const std::string& invariant) {
  return {ErrorCode::corrupt, "dptree breaks " + invariant, pool.path(),
          "restore the pool from a copy"};
}

template <class Keys>
Result<void> check_buffer(const Parts<Keys>& parts, const Buffer<Keys>& tree,
                          std::unordered_set<std::uint64_t>& blobs) {
  std::optional<RecordWords> last;
  std::uint64_t entries = 0;
  Result<void> result;
  tree.each([&](const WordEntry& entry) {
    ++entries;
    const auto& record = *tree.record_of(entry.word);
    const RecordWords words = record.words();
    const bool removal = (entry.word & Buffer<Keys>::removal_bit) != 0;
    Change change{};
    if (!result) return;
    if (!record.counts(tree.seal(), change) || (change == Change::removal) != removal)
      result = broken(parts.pool, "F1: an entry leads to no record of its log");
    else if (Result<void> sane = parts.records.check(words); !sane)
      result = sane;
    else if (last && !parts.records.less(*last, words))
      result = broken(parts.pool, "F3: entries do not ascend");
    else if (!tree.log().may_have(hash_of(parts.records.key_of(words))))
      result = broken(parts.pool, "F2: the filter denies a key");
    if (RecordStore<Keys>::has_blobs && !removal) blobs.insert(words.value);
    last = words;
  });
  if (result && entries != tree.log().entries())
    return broken(parts.pool, "F1: entries are miscounted");
  if (RecordStore<Keys>::has_blobs)
    for (const RecordWords words : tree.garbage()) blobs.insert(words.value);
  return result;
}

template <class Keys>
Result<void> check_base(const Parts<Keys>& parts, const BaseMap<Keys>& base,
                        std::unordered_set<std::uint64_t>& blobs) {
  const unsigned first = current_of(parts.anchor.set, base.version);
  std::uint64_t next = parts.anchor.set[first].next.load(std::memory_order_relaxed);
  std::optional<RecordWords> last;
  const auto pass_empty = [&] {
    while (std::ranges::count(base.empty_leaves, next) != 0) {
      const LeafView view = parts.leaf_at(next);
      next = view.set(view.current(base.version)).next.load(std::memory_order_relaxed);
    }
  };
  for (std::size_t leaf = 0; leaf < base.size(); ++leaf) {
    pass_empty();
    if (next != base.leaf(leaf).offset())
      return broken(parts.pool, "M1: the chain leads to another leaf");
    const LeafView view = parts.leaf_at(next);
    const unsigned which = view.current(base.version);
    if (which != base.leaf(leaf).which()) return broken(parts.pool, "M2: another set is current");
    Result<void> sane;
    const char* wrong = nullptr;
    const std::uint64_t complete = view.set(which).complete.load(std::memory_order_relaxed);
    Slots missing = view.set(which).slots();  // in the order
    view.each(which, [&](unsigned slot) {
      take_out(missing, slot);
      const RecordWords words = view.record(slot).load();
      if constexpr (RecordStore<Keys>::has_blobs) {
        if (sane = parts.records.check(words); !sane) return false;
        blobs.insert(words.value);
      }
      const auto key = parts.records.key_of(words);
      const std::uint64_t hash = hash_of(key);
      if (last && !parts.records.less(*last, words))
        wrong = "B2: keys do not ascend";
      else if (view.fingerprint(slot).load() != fingerprint_from(hash))
        wrong = "B3: a fingerprint is not its key's";
      else if (!view.is_slot_for(slot, hash, complete))
        wrong = "B5: a record is not in its bucket";
      else if (base.find(key).number != leaf)
        wrong = "M1: a key is in another leaf";
      last = words;
      return wrong == nullptr;
    });
    if (!sane) return sane;
    if (wrong != nullptr) return broken(parts.pool, wrong);
    if (any(missing)) return broken(parts.pool, "B2: a record is missing in its leaf's order");
    next = view.set(which).next.load(std::memory_order_relaxed);
  }
  pass_empty();
  return next == null_offset ? Result<void>()
                             : broken(parts.pool, "M1: the chain of leaves goes on");
}

}  // namespace

template <class Keys>
Result<void> check_trees(const Parts<Keys>& parts, std::size_t spare_leaves) {
  parts.epochs.drain();
  const Snapshot<Keys> trees = parts.snapshot();
  const State state = parts.state();
  if (state.version != trees.base->version || state.generation != trees.front->generation() ||
      state.has_middle != (trees.middle != nullptr))
    return broken(parts.pool, "A1: the state is not that of the trees");
  std::unordered_set<std::uint64_t> blobs;
  if (Result<void> sound = check_base(parts, *trees.base, blobs); !sound) return sound;
  if (Result<void> sound = check_buffer(parts, *trees.front, blobs); !sound) return sound;
  constexpr std::uint64_t own_blocks = 2;  // the root and the anchor
  std::uint64_t reachable =
      own_blocks + trees.base->size() + trees.base->empty_leaves.size() + spare_leaves;
  for (const auto& log : parts.anchor.log) reachable += parts.segments(log.load()).size();
  if (trees.middle != nullptr)
    if (Result<void> sound = check_buffer(parts, *trees.middle, blobs); !sound) return sound;
  if (RecordStore<Keys>::has_blobs) reachable += blobs.size();
  // With other roots in the pool their blocks cannot be told from ours.
  const std::uint64_t live = parts.heap.usage().live_blocks;
  if (parts.pool.roots().size() == 1 && live != reachable)
    return broken(parts.pool, "D5: " + std::to_string(live) + " blocks are live and " +
                                  std::to_string(reachable) + " reachable");
  return {};
}

template Result<void> check_trees(const Parts<IntegerKeys>&, std::size_t);
template Result<void> check_trees(const Parts<ByteKeys>&, std::size_t);

}  // namespace perdure::dptree
