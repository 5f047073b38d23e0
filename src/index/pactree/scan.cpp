// PacTree's scan.
#include <algorithm>
#include <array>
#include <bit>
#include <span>

#include "index/leaf/leaf_order.h"
#include "index/pactree/pactree.h"

namespace perdure {

/// Prefetches what a scan reads of a node.
template <class Keys>
void PacTree<Keys>::prefetch_for_scan(const DataNode& node) const noexcept {
  orders_.prefetch(offset_of(&node));
  pactree::prefetch_records(node, entries_);
}

// False: the node has changed meanwhile. The order of its records is that which the last scan of
// this version found, if any.
template <class Keys>
bool PacTree<Keys>::read_in_order(const Entered& at, std::size_t most, InOrder& out) {
  const DataNode& node = *at.node;
  const std::uint64_t commit = node.commit.load(std::memory_order_acquire);
  const auto count = pm::count_bits(commit);
  const auto wanted = static_cast<unsigned>(std::min<std::size_t>(count, most));
  const bool is_worth_it = count > few_leaf_records;  // fewer are sorted as fast
  Slots slots;
  const bool is_known =
      is_worth_it && orders_.find(offset_of(&node), at.word, std::span(slots).first(wanted));
  if (!is_known) rank(node, commit, slots);
  out.count = is_known ? wanted : count;
  for (unsigned r = 0; r < out.count; ++r) out.words[r] = node.record(slots[r]).load();
  if (pm::VersionLock::is_obsolete(at.word) || !node.lock.validate(at.word)) return false;
  if (is_known) return true;
  settle_ties(out, slots);
  if (is_worth_it) orders_.keep(offset_of(&node), at.word, std::span(slots).first(count));
  return true;
}

/// The slots of the records in the order of their keys' words, but for ties.
template <class Keys>
void PacTree<Keys>::rank(const DataNode& node, std::uint64_t commit, Slots& slots) noexcept {
  // L5, L8: between these are the node's keys.
  WordRanks ranks(node.anchor.load().key, node.high.load(std::memory_order_acquire));
  Slots slot_of;
  unsigned count = 0;
  for (std::uint64_t left = commit; left != 0; left &= left - 1) {
    const auto slot = static_cast<unsigned>(std::countr_zero(left));
    slot_of[count++] = static_cast<std::uint8_t>(slot);
    ranks.add(node.record(slot).key.load(std::memory_order_acquire));
  }
  ranks.each([&](unsigned rank, unsigned i) { slots[rank] = slot_of[i]; });
}

/// Sorts records, and their slots, that are in order but for ties.
template <class Keys>
void PacTree<Keys>::settle_ties(InOrder& records, Slots& slots) const {
  bool ascends = true;
  for (unsigned r = 1; r < records.count; ++r)
    ascends &= records_.less(records.words[r - 1], records.words[r]);
  if (ascends) return;
  LeafCopy copy;
  copy.count = records.count;
  copy.words = records.words;
  sort_by_key(copy, records_);
  const Slots slot_of = slots;
  for (unsigned r = 0; r < records.count; ++r) {
    records.words[r] = copy.words[copy.order[r]];
    slots[r] = slot_of[copy.order[r]];
  }
}

// Node by node along the list, each read at one version. A node that changed meanwhile, or was
// merged away, is found again from the last key returned.
template <class Keys>
std::size_t PacTree<Keys>::scan(Key from, std::size_t count, Scan& out) {
  out.clear();
  if (!scans_whole_) count = (count + 1) / 2;
  if (count == 0) return 0;
  const std::uint64_t hash = hash_of(from);
  const Epochs::Guard guard(epochs_);
  InOrder node;
  Key bound = from;
  bool beyond = false;  // records above `bound` only, not at it
  pm::Backoff backoff;
  bool past_bound = false;  // a node whose records are all above `bound`
  for (Entered at = enter<Purpose::scan>(bound, hash);;) {
    DataNode* const next = next_of(*at.node);
    const std::size_t wanted = count - out.size();
    if (next != nullptr && at.node->count() < wanted) prefetch_for_scan(*next);
    if (!read_in_order(at, past_bound ? wanted : pactree::max_entries, node)) {
      backoff.wait();
      at = enter<Purpose::scan>(bound, hash);
      past_bound = false;
      continue;
    }
    std::span<const RecordWords> found = std::span(node.words).first(node.count);
    if (!past_bound) {
      const auto is_before = [&](const RecordWords& words) {
        const Key key = records_.key_of(words);
        return beyond ? !(bound < key) : key < bound;
      };
      const auto first = std::ranges::partition_point(found, is_before);
      found = found.subspan(static_cast<std::size_t>(first - found.begin()));
    }
    found = found.first(std::min(found.size(), wanted));
    if (!found.empty()) {
      records_.append(found, out);
      bound = records_.key_of(found.back());
      beyond = true;
    }
    if (out.size() == count || next == nullptr) return out.size();
    at = {next, next->lock.read_begin()};
    past_bound = true;
  }
}

template std::size_t PacTree<IntegerKeys>::scan(Key, std::size_t, Scan&);
template std::size_t PacTree<ByteKeys>::scan(Key, std::size_t, Scan&);

}  // namespace perdure
