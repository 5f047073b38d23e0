// The reading half of UTree that takes many records: scans and batches.
#include <algorithm>
#include <array>
#include <span>

#include "index/common/lookup_groups.h"
#include "index/utree/utree.h"

namespace perdure {

/// The entries of one leaf, and the records they lead to, as they were while its version stood.
template <class Keys>
struct UTree<Keys>::Snapshot {
  std::array<RecordWords, Leaf::entries> words;
  std::array<std::uint64_t, Leaf::entries> node;
  unsigned count = 0;

  /// Copies the entries; believe them once the leaf was validated.
  void take(const Leaf& leaf) noexcept {
    count = leaf.count();
    for (unsigned i = 0; i < count; ++i) {
      words[i].key = leaf.key_word(i);
      node[i] = leaf.node(i);
    }
  }
};

// Appends what lies at or above `bound` (above it: `past_bound`), up to `count` records in all, and
// remembers the last of them.
template <class Keys>
void UTree<Keys>::append(const Snapshot& snapshot, Key bound, bool past_bound, std::size_t count,
                         RecordWords& last, Scan& out) const {
  unsigned i = 0;
  for (; i < snapshot.count; ++i) {
    const Key key = records_.key_of(snapshot.words[i]);
    if (past_bound ? bound < key : bound <= key) break;
  }
  const std::size_t taken = std::min<std::size_t>(snapshot.count - i, count - out.size());
  if (taken == 0) return;
  const std::span<const RecordWords> words = std::span(snapshot.words).subspan(i, taken);
  records_.append(words, out);
  last = words.back();
}

// Goes along the chain of leaves rather than the list, so that the misses of a leaf's nodes
// overlap. A leaf is validated twice: before its offsets are followed, and after the values were
// read. The successor's version is read in between: then the successor was linked, and whoever
// takes it away later changes its version. A leaf that changed under our hands sends us back
// through the inner nodes, past the last record returned.
template <class Keys>
std::size_t UTree<Keys>::scan(Key from, std::size_t count, Scan& out) {
  out.clear();
  if (count == 0) return 0;
  const Epochs::Guard guard(epochs_);
  Snapshot snapshot;
  RecordWords last;  // of the last record returned; its blob outlives this thread's pin
  for (pm::Backoff backoff;; backoff.wait()) {
    const auto bound = [&] { return out.size() == 0 ? from : records_.key_of(last); };
    Entered at = enter<Purpose::read>(bound());
    for (;;) {
      pm::ReadAttempt stable(at.leaf->lock, at.word);
      snapshot.take(*at.leaf);
      Entered next{at.leaf->next.load(std::memory_order_acquire), 0};
      if (next.leaf != nullptr) next.leaf->prefetch();
      if (!stable()) break;
      for (unsigned i = 0; i < snapshot.count; ++i) pm::prefetch(node_at(snapshot.node[i]));
      if (next.leaf != nullptr) next.word = next.leaf->lock.read_begin();
      for (unsigned i = 0; i < snapshot.count; ++i) {
        snapshot.words[i] = node_at(snapshot.node[i])->record.load();
        records_.prefetch(snapshot.words[i]);
      }
      if (!stable()) break;
      append(snapshot, bound(), out.size() != 0, count, last, out);
      if (out.size() == count || next.leaf == nullptr) return out.size();
      at = next;
    }
  }
}

template <class Keys>
void UTree<Keys>::lookup_batch(std::span<const Key> keys, std::span<ValueOut> values,
                               std::span<Outcome> outcomes) {
  const Epochs::Guard guard(epochs_);
  in_groups(keys, values, outcomes,
            [this](auto some, auto into, auto answers) { search_group(some, into, answers); });
}

// Four passes, so that the misses of a pass overlap: inner nodes, leaves' locks, leaves, nodes. A
// key whose leaf changed on the way is looked up again by itself.
template <class Keys>
void UTree<Keys>::search_group(std::span<const Key> keys, std::span<ValueOut> values,
                               std::span<Outcome> outcomes) const {
  using Inner = InnerTree<Keys>;
  std::array<typename Inner::Position, batch_group> place;
  std::array<Entered, batch_group> entered;
  std::array<std::uint64_t, batch_group> node{};
  inner_.locate(keys, std::span(place).first(keys.size()));
  for (std::size_t i = 0; i < keys.size(); ++i)
    if (place[i].leaf != nullptr) static_cast<const Leaf*>(place[i].leaf)->prefetch();
  for (std::size_t i = 0; i < keys.size(); ++i) {
    auto* const leaf = static_cast<Leaf*>(place[i].leaf);
    if (leaf == nullptr) continue;
    const std::uint64_t word = leaf->lock.peek();
    if (pm::VersionLock::is_locked(word) || !Inner::holds(place[i])) continue;
    pm::ReadAttempt stable(leaf->lock, word);
    const LeafPosition position = search(*leaf, keys[i], stable);
    if (position.present) node[i] = leaf->node(position.rank);
    if (!stable()) continue;
    entered[i] = {leaf, word};
    if (position.present) pm::prefetch(node_at(node[i]));
  }
  for (std::size_t i = 0; i < keys.size(); ++i) {
    RecordWords found;
    bool present = false;
    bool searched = false;
    if (const Entered& at = entered[i]; at.leaf != nullptr) {
      present = node[i] != null_offset;
      if (present) found = node_at(node[i])->record.load();
      searched = at.leaf->lock.validate(at.word);
    }
    if (!searched) present = find_pinned(keys[i], found);
    if (present) records_.read_value(found, values[i]);
    outcomes[i] = present ? Outcome::ok : Outcome::not_found;
  }
}

template std::size_t UTree<IntegerKeys>::scan(Key, std::size_t, Scan&);
template std::size_t UTree<ByteKeys>::scan(Key, std::size_t, Scan&);
template void UTree<IntegerKeys>::lookup_batch(std::span<const Key>, std::span<ValueOut>,
                                               std::span<Outcome>);
template void UTree<ByteKeys>::lookup_batch(std::span<const Key>, std::span<ValueOut>,
                                            std::span<Outcome>);

}  // namespace perdure
