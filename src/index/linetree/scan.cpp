// The reading half of LineTree that takes many records: scans and batches.
#include <algorithm>
#include <array>

#include "index/common/lookup_groups.h"
#include "index/leaf/leaf_order.h"
#include "index/linetree/linetree.h"

namespace perdure {

using linetree::Interval;
using linetree::no_slot;

/// The wanted records of one leaf, as they were while its version stood.
struct LineTree::Snapshot {
  std::array<RecordWords, linetree::most_slots> words;
  std::array<std::uint8_t, linetree::most_slots> order;  ///< ascending: positions in `words`
  unsigned count = 0;

  void sort() noexcept {
    const auto less = [this](std::uint8_t a, std::uint8_t b) {
      return words[a].key < words[b].key;
    };
    if (count > few_leaf_records && count <= most_leaf_records) {
      std::uint64_t lowest = words[0].key;
      std::uint64_t highest = words[0].key;
      for (unsigned i = 1; i < count; ++i) {
        lowest = std::min(lowest, words[i].key);
        highest = std::max(highest, words[i].key);
      }
      WordRanks ranks(lowest, highest);
      for (unsigned i = 0; i < count; ++i) ranks.add(words[i].key);
      ranks.each([this](unsigned rank, unsigned i) { order[rank] = static_cast<std::uint8_t>(i); });
    } else {
      for (unsigned i = 0; i < count; ++i) order[i] = static_cast<std::uint8_t>(i);
    }
    const auto end = order.begin() + count;
    if (!std::is_sorted(order.begin(), end, less)) std::sort(order.begin(), end, less);
  }
};

// Every slot is copied, live or not, because a branch on each would be mispredicted.
void LineTree::take(const Leaf& leaf, Interval wanted, Snapshot& snapshot) const noexcept {
  unsigned count = 0;
  for (unsigned i = 1; i < shape_.slots(); ++i) {
    const RecordWords words = leaf.slot(i).load();
    snapshot.words[count] = words;
    count += wanted.holds(words.key);
  }
  snapshot.count = count;
}

// Goes from leaf to leaf along the chain. The successor's version is read before the present leaf's
// is validated: then the successor was linked, and whoever unlinks or splits it later changes its
// version. A leaf that changed meanwhile sends us back through the inner nodes, to `bound`, the
// lowest key that was not taken yet.
std::size_t LineTree::scan(std::uint64_t from, std::size_t count, IntegerScan& out) {
  out.clear();
  if (count == 0) return 0;
  const Epochs::Guard guard(epochs_);
  Snapshot snapshot;
  std::uint64_t bound = from;
  for (pm::Backoff backoff;; backoff.wait()) {
    Entered at = enter<Purpose::read>(bound, 0);
    at.leaf->prefetch(shape_);
    for (;;) {
      const std::uint64_t last = info_of(at.leaf).highest();
      take(*at.leaf, {bound, last}, snapshot);
      Entered next;
      if (const std::uint64_t successor = at.leaf->successor(); successor != null_offset) {
        next.leaf = leaf_at(successor);
        next.leaf->prefetch(shape_);
        next.lock = &lock_of(next.leaf);
        next.word = next.lock->read_begin();
      }
      if (!at.lock->validate(at.word)) break;
      snapshot.sort();
      const auto taken =
          static_cast<unsigned>(std::min<std::size_t>(snapshot.count, count - out.size()));
      const std::span<IntegerRecord> records = out.extend(taken);
      for (unsigned i = 0; i < taken; ++i) {
        const RecordWords& words = snapshot.words[snapshot.order[i]];
        records[i] = {words.key, words.value};
      }
      if (out.size() == count || next.leaf == nullptr) return out.size();
      bound = last + 1;
      at = next;
    }
  }
}

void LineTree::lookup_batch(std::span<const std::uint64_t> keys, std::span<std::uint64_t> values,
                            std::span<Outcome> outcomes) {
  const Epochs::Guard guard(epochs_);
  in_groups(keys, values, outcomes,
            [this](auto some, auto into, auto answers) { search_group(some, into, answers); });
}

// Two passes, so that the misses of a pass overlap: inner nodes, then home lines. A key whose leaf
// changed on the way is looked up again by itself.
void LineTree::search_group(std::span<const std::uint64_t> keys, std::span<std::uint64_t> values,
                            std::span<Outcome> outcomes) const {
  using linetree::Inner;
  std::array<Inner::Position, batch_group> position;
  std::array<Entered, batch_group> entered;
  std::array<Place, batch_group> place;
  inner_.locate(keys, std::span(position).first(keys.size()));
  for (std::size_t i = 0; i < keys.size(); ++i) {
    place[i] = shape_.place(keys[i]);
    auto* const leaf = static_cast<Leaf*>(position[i].leaf);
    if (leaf == nullptr) continue;
    pm::prefetch_once(leaf->line(place[i].home));
    pm::VersionLock& lock = lock_of(leaf);
    const std::uint64_t word = lock.peek();
    if (!pm::VersionLock::is_locked(word) && Inner::holds(position[i]))
      entered[i] = {leaf, &lock, word};
  }
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (const Entered& at = entered[i]; at.leaf != nullptr) {
      const unsigned slot = search(*at.leaf, keys[i], place[i]);
      const bool present = slot != no_slot;
      const std::uint64_t value =
          present ? at.leaf->slot(slot).value.load(std::memory_order_acquire) : 0;
      if (at.lock->validate(at.word)) {
        if (present) values[i] = value;
        outcomes[i] = present ? Outcome::ok : Outcome::not_found;
        continue;
      }
    }
    outcomes[i] = find_pinned(keys[i], place[i], values[i]) ? Outcome::ok : Outcome::not_found;
  }
}

}  // namespace perdure
