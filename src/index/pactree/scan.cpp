// PacTree's scan.
#include <algorithm>

#include "index/pactree/pactree.h"
#include "index/record/leaf_order.h"

namespace perdure {

// Node by node along the list, each copied at one version. A node that changed under the copy, or
// was merged away, is found again from the last key returned.
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
  for (Entered at = enter<Purpose::read>(bound, hash);;) {
    pactree::prefetch_records(*at.node, entries_);
    const std::uint64_t commit = at.node->commit.load(std::memory_order_acquire);
    DataNode* const next = next_of(*at.node);
    if (next != nullptr && static_cast<unsigned>(std::popcount(commit)) < count - out.size())
      pactree::prefetch_records(*next, entries_);
    // Records below the bound by their first bytes need no place in the sort.
    const std::uint64_t lowest_word = records_.key_word(bound);
    copy.count = 0;
    for (std::uint64_t left = commit; left != 0; left &= left - 1) {
      copy.words[copy.count] =
          at.node->record(static_cast<unsigned>(std::countr_zero(left))).load();
      copy.count += copy.words[copy.count].key >= lowest_word;
    }
    if (pm::VersionLock::is_obsolete(at.word) || !at.node->lock.validate(at.word)) {
      backoff.wait();
      at = enter<Purpose::read>(bound, hash);
      continue;
    }
    sort_by_key(copy, records_);
    unsigned r = 0;
    for (; r < copy.count; ++r) {
      const Key key = records_.key_of(copy.words[copy.order[r]]);
      if (beyond ? bound < key : !(key < bound)) break;
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
  }
}

template std::size_t PacTree<IntegerKeys>::scan(Key, std::size_t, Scan&);
template std::size_t PacTree<ByteKeys>::scan(Key, std::size_t, Scan&);

}  // namespace perdure
