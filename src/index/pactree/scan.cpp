// PacTree's scan.
#include <algorithm>
#include <array>
#include <bit>
#include <span>

#include "index/pactree/pactree.h"
#include "index/record/leaf_order.h"

namespace perdure {

/// Asks for what a scan reads of a node.
template <class Keys>
void PacTree<Keys>::ask_for_scan(const DataNode& node) const noexcept {
  orders_.prefetch(offset_of(&node));
  pactree::prefetch_records(node, entries_);
}

// False: the node has changed meanwhile. The order of its records is that which the last scan of
// this version found, if any.
template <class Keys>
bool PacTree<Keys>::read_in_order(const Entered& at, std::size_t most, InOrder& out) {
  const DataNode& node = *at.node;
  const std::uint64_t commit = node.commit.load(std::memory_order_acquire);
  const std::uint64_t offset = offset_of(&node);
  const auto count = pm::count_bits(commit);
  out.count = static_cast<unsigned>(std::min<std::size_t>(count, most));
  std::array<std::uint8_t, pactree::max_entries> slots;
  const bool is_remembered = count > few_leaf_records;  // fewer are sorted as fast
  if (is_remembered && orders_.find(offset, at.word, std::span(slots).first(out.count))) {
    for (unsigned r = 0; r < out.count; ++r) out.words[r] = node.record(slots[r]).load();
    return !pm::VersionLock::is_obsolete(at.word) && node.lock.validate(at.word);
  }
  // L5, L8: between these are the node's keys.
  const std::uint64_t lowest = node.anchor.load().key;
  const std::uint64_t highest = node.high.load(std::memory_order_acquire);
  LeafCopy copy;
  std::array<std::uint8_t, pactree::max_entries> slot_of;
  for (std::uint64_t left = commit; left != 0; left &= left - 1) {
    slot_of[copy.count] = static_cast<std::uint8_t>(std::countr_zero(left));
    copy.words[copy.count] = node.record(slot_of[copy.count]).load();
    ++copy.count;
  }
  if (pm::VersionLock::is_obsolete(at.word) || !node.lock.validate(at.word)) return false;
  sort_by_key(copy, records_, lowest, highest, std::span(out.words));
  if (!is_remembered) return true;
  for (unsigned r = 0; r < count; ++r) slots[r] = slot_of[copy.order[r]];
  orders_.keep(offset, at.word, std::span(slots).first(count));
  return true;
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
  bool behind_bound = false;  // a node whose records are all above `bound`
  for (Entered at = enter<Purpose::scan>(bound, hash);;) {
    DataNode* const next = next_of(*at.node);
    const std::size_t wanted = count - out.size();
    if (next != nullptr && at.node->count() < wanted) ask_for_scan(*next);
    if (!read_in_order(at, behind_bound ? wanted : pactree::max_entries, node)) {
      backoff.wait();
      at = enter<Purpose::scan>(bound, hash);
      behind_bound = false;
      continue;
    }
    std::span<const RecordWords> found = std::span(node.words).first(node.count);
    if (!behind_bound) {
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
    behind_bound = true;
  }
}

template std::size_t PacTree<IntegerKeys>::scan(Key, std::size_t, Scan&);
template std::size_t PacTree<ByteKeys>::scan(Key, std::size_t, Scan&);

}  // namespace perdure
