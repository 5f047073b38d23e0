// PacTree's scan.
#include <algorithm>
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

// Node by node along the list, each copied at one version. A node that changed under the copy, or
// was merged away, is found again from the last key returned. The order of a node's records is
// that which the last scan of this version found, if any.
template <class Keys>
std::size_t PacTree<Keys>::scan(Key from, std::size_t count, Scan& out) {
  out.clear();
  if (count == 0) return 0;
  const std::uint64_t hash = hash_of(from);
  const Epochs::Guard guard(epochs_);
  LeafCopy copy;
  Key bound = from;
  bool beyond = false;  // records above `bound` only, not at it
  pm::Backoff backoff;
  bool behind_bound = false;  // a node whose records are all above `bound`
  for (Entered at = enter<Purpose::read>(bound, hash);;) {
    ask_for_scan(*at.node);
    const std::uint64_t commit = at.node->commit.load(std::memory_order_acquire);
    DataNode* const next = next_of(*at.node);
    if (next != nullptr && static_cast<unsigned>(std::popcount(commit)) < count - out.size())
      ask_for_scan(*next);
    copy.count = 0;
    for (std::uint64_t left = commit; left != 0; left &= left - 1)
      copy.words[copy.count++] =
          at.node->record(static_cast<unsigned>(std::countr_zero(left))).load();
    if (pm::VersionLock::is_obsolete(at.word) || !at.node->lock.validate(at.word)) {
      backoff.wait();
      at = enter<Purpose::read>(bound, hash);
      behind_bound = false;
      continue;
    }
    const std::span order = std::span(copy.order).first(copy.count);
    if (!orders_.find(offset_of(at.node), at.word, order)) {
      sort_by_key(copy, records_);
      orders_.keep(offset_of(at.node), at.word, order);
    }
    unsigned r = 0;
    if (!behind_bound) {
      const auto is_before = [&](std::uint8_t place) {
        const Key key = records_.key_of(copy.words[place]);
        return beyond ? !(bound < key) : key < bound;
      };
      r = static_cast<unsigned>(std::ranges::partition_point(order, is_before) - order.begin());
    }
    const auto end =
        static_cast<unsigned>(std::min<std::size_t>(copy.count, r + count - out.size()));
    if (r < end) {
      for (; r < end; ++r) records_.append(copy.words[copy.order[r]], out);
      bound = records_.key_of(copy.words[copy.order[end - 1]]);
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
