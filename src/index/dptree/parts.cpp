#include "index/dptree/parts.h"

namespace perdure::dptree {

template <class Keys>
std::vector<std::uint64_t> Parts<Keys>::segments(std::uint64_t head) const {
  std::vector<std::uint64_t> chain;
  for (std::uint64_t at = head; at != null_offset;) {
    chain.push_back(at);
    at = pool.template at<LogSegment>(at)->next.load(std::memory_order_relaxed);
  }
  return chain;
}

template <class Keys>
std::uint64_t Parts<Keys>::dram_bytes() const {
  const Epochs::Guard guard(epochs);
  const Snapshot<Keys>& trees = snapshot();
  return trees.base->bytes() + trees.front->dram_bytes() +
         (trees.middle == nullptr ? 0 : trees.middle->dram_bytes()) + epochs.retired_dram_bytes() +
         buffers.dram_bytes();
}

template <class Keys>
auto Parts<Keys>::prefetch_route(Key key, std::uint64_t hash) const noexcept -> Route<Keys> {
  const Snapshot<Keys>& trees = prefetch_filters(hash);
  return prefetch_leaf(trees, trees.base->find(key).leaf, hash, Prefetch::record);
}

template <class Keys>
bool Parts<Keys>::find(Key key, std::uint64_t hash, RecordWords& found) const {
  for (pm::Backoff backoff;; backoff.wait()) {
    const Route<Keys> route = prefetch_route(key, hash);
    const Snapshot<Keys>& trees = *route.trees;
    const auto entry = trees.front->find(key, hash);
    bool present = entry.is_put();
    if (entry.any())
      found = trees.front->record_of(entry.word)->words();
    else
      present = find_below(route, key, hash, found);
    if (current.is_whole(trees)) return present;
  }
}

// Merges of leftovers follow each other without a rotation.
template <class Keys>
bool Parts<Keys>::find_below_front(Route<Keys> route, Key key, std::uint64_t hash,
                                   RecordWords& found) const {
  for (pm::Backoff backoff;; backoff.wait(), route = prefetch_route(key, hash)) {
    const bool present = find_below(route, key, hash, found);
    if (current.is_whole(*route.trees)) return present;
  }
}

template <class Keys>
bool Parts<Keys>::is_below(const Snapshot<Keys>& trees, Key key, std::uint64_t hash) const {
  if (trees.middle != nullptr)
    if (const auto entry = trees.middle->find(key, hash); entry.any()) return entry.is_put();
  return find_in_base(route_in(trees, key), key, hash).has_value();
}

template struct Parts<IntegerKeys>;
template struct Parts<ByteKeys>;

}  // namespace perdure::dptree
