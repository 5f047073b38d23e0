// DpTree::check_invariants: trees and logs against every numbered invariant that a walk can see.
#include <algorithm>
#include <string>
#include <unordered_set>

#include "index/dptree/dptree.h"

namespace perdure {

using dptree::Change;
using dptree::LogSegment;
using dptree::State;

namespace {

Error broken(const Pool& pool, const std::string& invariant) {
  return {ErrorCode::corrupt, "dptree breaks " + invariant, pool.path(),
          "restore the pool from a copy"};
}

}  // namespace

template <class Keys>
std::vector<std::uint64_t> DpTree<Keys>::segments(std::uint64_t head) const {
  std::vector<std::uint64_t> chain;
  for (std::uint64_t at = head; at != null_offset;) {
    chain.push_back(at);
    at = pool_.at<LogSegment>(at)->next.load(std::memory_order_relaxed);
  }
  return chain;
}

template <class Keys>
Result<void> DpTree<Keys>::check_buffer(const Buffer& tree,
                                        std::unordered_set<std::uint64_t>& blobs) const {
  std::optional<RecordWords> last;
  std::uint64_t entries = 0;
  Result<void> result;
  tree.each([&](const typename Buffer::Entry& entry) {
    ++entries;
    const auto& record = *tree.record_of(entry.word);
    const RecordWords words = record.words();
    const bool removal = (entry.word & Buffer::removal_bit) != 0;
    Change change{};
    if (!result) return;
    if (!record.counts(tree.seal(), change) || (change == Change::removal) != removal)
      result = broken(pool_, "F1: an entry leads to no record of its log");
    else if (Result<void> sane = records_.check(words); !sane)
      result = sane;
    else if (last && !records_.less(*last, words))
      result = broken(pool_, "F3: entries do not ascend");
    else if (!tree.may_have(hash_of(records_.key_of(words))))
      result = broken(pool_, "F2: the filter denies a key");
    if (RecordStore<Keys>::has_blobs && !removal) blobs.insert(words.value);
    last = words;
  });
  if (result && entries != tree.count()) return broken(pool_, "F1: entries are miscounted");
  if (RecordStore<Keys>::has_blobs)
    for (const RecordWords words : tree.garbage()) blobs.insert(words.value);
  return result;
}

template <class Keys>
Result<void> DpTree<Keys>::check_base(const BaseMap& base,
                                      std::unordered_set<std::uint64_t>& blobs) const {
  const unsigned first = dptree::current_of(anchor_.set, base.version);
  std::uint64_t next = anchor_.set[first].next.load(std::memory_order_relaxed);
  std::optional<RecordWords> last;
  const auto pass_empty = [&] {
    while (std::ranges::count(base.empty_leaves, next) != 0) {
      const LeafView view = leaf_at(next);
      next = view.set(view.current(base.version)).next.load(std::memory_order_relaxed);
    }
  };
  for (std::size_t leaf = 0; leaf < base.size(); ++leaf) {
    pass_empty();
    if (next != base.leaf(leaf).offset())
      return broken(pool_, "M1: the chain leads to another leaf");
    const LeafView view = leaf_at(next);
    const unsigned which = view.current(base.version);
    if (which != base.leaf(leaf).which()) return broken(pool_, "M2: another set is current");
    Result<void> sane;
    const char* wrong = nullptr;
    const std::uint64_t homes = view.set(which).home.load(std::memory_order_relaxed);
    dptree::Slots missing = view.set(which).slots();  // in the order
    view.each(which, [&](unsigned slot) {
      dptree::take_out(missing, slot);
      const RecordWords words = view.record(slot).load();
      if constexpr (RecordStore<Keys>::has_blobs) {
        if (sane = records_.check(words); !sane) return false;
        blobs.insert(words.value);
      }
      const Key key = records_.key_of(words);
      const std::uint64_t hash = hash_of(key);
      if (last && !records_.less(*last, words))
        wrong = "B2: keys do not ascend";
      else if (view.fingerprint(slot).load() != fingerprint_from(hash))
        wrong = "B3: a fingerprint is not its key's";
      else if (!view.is_slot_for(slot, hash, homes))
        wrong = "B5: a record is not at home";
      else if (base.find(key).number != leaf)
        wrong = "M1: a key is in another leaf";
      last = words;
      return wrong == nullptr;
    });
    if (!sane) return sane;
    if (wrong == nullptr && base.leaf(leaf) != dptree::LeafLink(next, which, homes))
      wrong = "M2: a leaf has other homes";
    if (wrong != nullptr) return broken(pool_, wrong);
    if (dptree::any(missing)) return broken(pool_, "B2: a record is missing in its leaf's order");
    next = view.set(which).next.load(std::memory_order_relaxed);
  }
  pass_empty();
  return next == null_offset ? Result<void>() : broken(pool_, "M1: the chain of leaves goes on");
}

template <class Keys>
Result<void> DpTree<Keys>::check_all() const {
  epochs_.drain();
  const Snapshot trees = snapshot();
  const State state = State::from(anchor_.state.load(std::memory_order_relaxed));
  if (state.version != trees.base->version || state.generation != trees.front->generation() ||
      state.has_middle != (trees.middle != nullptr))
    return broken(pool_, "A1: the state is not that of the trees");
  std::unordered_set<std::uint64_t> blobs;
  if (Result<void> sound = check_base(*trees.base, blobs); !sound) return sound;
  if (Result<void> sound = check_buffer(*trees.front, blobs); !sound) return sound;
  constexpr std::uint64_t own_blocks = 2;  // the root and the anchor
  std::uint64_t reachable =
      own_blocks + trees.base->size() + trees.base->empty_leaves.size() + spare_.size();
  for (const auto& log : anchor_.log) reachable += segments(log.load()).size();
  if (trees.middle != nullptr)
    if (Result<void> sound = check_buffer(*trees.middle, blobs); !sound) return sound;
  if (RecordStore<Keys>::has_blobs) reachable += blobs.size();
  // With other roots in the pool their blocks cannot be told from ours.
  const std::uint64_t live = heap_.usage().live_blocks;
  if (pool_.roots().size() == 1 && live != reachable)
    return broken(pool_, "D5: " + std::to_string(live) + " blocks are live and " +
                             std::to_string(reachable) + " reachable");
  return {};
}

template <class Keys>
Result<void> DpTree<Keys>::check_invariants() const {
  const pm::LockGuard merging(merging_);  // the worker may still be at it
  return check_all();
}

template Result<void> DpTree<IntegerKeys>::check_invariants() const;
template Result<void> DpTree<ByteKeys>::check_invariants() const;

}  // namespace perdure
