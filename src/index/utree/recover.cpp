// UTree's recovery: one thread follows the list, then all threads check it, mark it and make the
// leaves. Media are believed in nothing: every offset is checked before it is followed. Nothing on
// media is changed, so a cut inside recovery leaves what was there.
#include <vector>

#include "index/utree/plant.h"
#include "index/utree/utree.h"

namespace perdure {

// Keys that ascend cannot run in a circle; byte strings with equal first bytes are counted instead.
template <class Keys>
auto UTree<Keys>::walk() const -> Result<std::vector<std::uint64_t>> {
  const std::uint64_t most = pool_.bytes() / utree::node_alignment;
  std::vector<std::uint64_t> offsets;
  std::uint64_t previous = 0;
  for (std::uint64_t at = head_->next.load(std::memory_order_relaxed); at != null_offset;) {
    if (!pool_.contains(at, sizeof(ListNode)) || at % utree::node_alignment != 0)
      return detail::corrupt_record("the list leads to no node", at, pool_);
    const ListNode& node = *node_at(at);
    const std::uint64_t word = node.record.load().key;
    const bool follows = RecordStore<Keys>::has_blobs ? previous <= word : previous < word;
    if (!offsets.empty() && !follows)
      return detail::corrupt_record("L1: the keys of the list do not ascend", at, pool_);
    if (offsets.size() >= most)
      return detail::corrupt_record("the list runs in a circle", at, pool_);
    previous = word;
    offsets.push_back(at);
    at = node.next.load(std::memory_order_relaxed);
  }
  return offsets;
}

template <class Keys>
Result<void> UTree<Keys>::recover_list() {
  const auto walked = walk();
  if (!walked) return walked.error();
  const std::span<const std::uint64_t> offsets = *walked;
  return plant(
      offsets, [&](std::size_t i, std::uint64_t offset, RecordWords words) -> Result<void> {
        if (!heap_.mark(offset, sizeof(ListNode)))
          return detail::corrupt_record("a node is no block of the heap, or is linked twice",
                                        offset, pool_);
        if (Result<void> marked = records_.mark(words); !marked) return marked;
        if (!RecordStore<Keys>::has_blobs || i == 0) return {};
        const RecordWords before = node_at(offsets[i - 1])->record.load();
        if (before.key != words.key) return {};
        if (Result<void> sane = records_.check(before); !sane)
          return sane;  // it may be another part's
        if (records_.less(before, words)) return {};
        return detail::corrupt_record("L1: the keys of the list do not ascend", offset, pool_);
      });
}

template Result<void> UTree<IntegerKeys>::recover_list();
template Result<void> UTree<ByteKeys>::recover_list();

}  // namespace perdure
