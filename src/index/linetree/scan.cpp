// The reading half of LineTree that takes many records: scans and batches.
#include <algorithm>
#include <array>

#include "index/common/lookup_groups.h"
#include "index/leaf/leaf_order.h"
#include "index/linetree/linetree.h"

namespace perdure {

using linetree::no_slot;

/// The wanted records of one leaf, as they were while its version stood.
template <class Keys>
struct LineTree<Keys>::Snapshot {
  std::array<RecordWords, linetree::most_slots> words;
  std::array<std::uint8_t, linetree::most_slots> order;  ///< ascending: positions in `words`
  unsigned count = 0;

  [[nodiscard]] RecordWords record(unsigned rank) const noexcept {
    return Kind::record(words[order[rank]]);
  }
};

// Every slot is copied, live or not, because a branch on each would be mispredicted.
template <class Keys>
void LineTree<Keys>::take(const Leaf& leaf, typename Kind::Live wanted,
                          Snapshot& snapshot) const noexcept {
  unsigned count = 0;
  for (unsigned i = 1; i < shape_.slots(); ++i) {
    const RecordWords words = leaf.slot(i).load();
    snapshot.words[count] = words;
    count += wanted.holds(Kind::commit_word(words));
  }
  snapshot.count = count;
}

template <class Keys>
void LineTree<Keys>::sort(Snapshot& snapshot) const noexcept {
  const auto& words = snapshot.words;
  auto& order = snapshot.order;
  const unsigned count = snapshot.count;
  if constexpr (Store::has_blobs)
    for (unsigned i = 0; i < count; ++i) records_.prefetch(Kind::record(words[i]));
  const auto less = [&](std::uint8_t a, std::uint8_t b) {
    return records_.less(Kind::record(words[a]), Kind::record(words[b]));
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
    ranks.each([&](unsigned rank, unsigned i) { order[rank] = static_cast<std::uint8_t>(i); });
  } else {
    for (unsigned i = 0; i < count; ++i) order[i] = static_cast<std::uint8_t>(i);
  }
  const auto end = order.begin() + count;
  if (!std::is_sorted(order.begin(), end, less)) std::sort(order.begin(), end, less);
}

// Appends the records from `bound` on, up to `count` in all.
template <class Keys>
void LineTree<Keys>::append(const Snapshot& snapshot, [[maybe_unused]] const Key& bound,
                            std::size_t count, Scan& out) const {
  unsigned rank = 0;
  if constexpr (has_text_keys<Keys>)
    while (rank < snapshot.count && records_.key_of(snapshot.record(rank)) < bound) ++rank;
  const auto taken =
      static_cast<unsigned>(std::min<std::size_t>(snapshot.count - rank, count - out.size()));
  if constexpr (Store::has_blobs) {
    for (const unsigned end = rank + taken; rank < end; ++rank)
      records_.append(snapshot.record(rank), out);
  } else {
    const std::span<IntegerRecord> records = out.extend(taken);
    for (unsigned i = 0; i < taken; ++i) {
      const RecordWords words = snapshot.record(i);
      records[i] = {words.key, words.value};
    }
  }
}

template <class Keys>
std::size_t LineTree<Keys>::scan(Key from, std::size_t count, Scan& out) {
  out.clear();
  if (count == 0) return 0;
  const Epochs::Guard guard(epochs_);
  if (validated_)
    scan_at_once(from, count, out);
  else
    (void)scan_chain<Isolation::leaf>(from, count, out, nullptr);
  return out.size();
}

template <class Keys>
[[gnu::always_inline]] inline void LineTree<Keys>::prefetch_whole(const Leaf& leaf) const noexcept {
  pm::prefetch(&info_of(&leaf));
  pm::prefetch(&lock_of(&leaf));
  leaf.prefetch(shape_);
}

template <class Keys>
auto LineTree<Keys>::enter_range(Key key, std::size_t count) const -> Entered {
  // Leaves filled at random are two thirds full, and the first is read from its middle on.
  constexpr std::size_t most_ahead = 8;  // see design.md
  const std::size_t usual = shape_.records() * 2 / 3;
  const std::size_t more = std::min((count + usual / 2) / usual, most_ahead);
  for (pm::Backoff backoff;; backoff.wait()) {
    const Entered at = inner_.find(key, [&](void* found, auto following) {
      auto* const leaf = static_cast<Leaf*>(found);
      prefetch_whole(*leaf);
      for (unsigned i = 1; i <= more; ++i)
        if (const void* const next = following(i)) prefetch_whole(*static_cast<const Leaf*>(next));
      pm::VersionLock& lock = lock_of(leaf);
      return Entered{leaf, &lock, lock.peek()};
    });
    if (!pm::VersionLock::is_locked(at.word)) return at;
  }
}

// Goes from leaf to leaf along the chain. The successor's version is read before the present leaf's
// is validated: then the successor was linked, and whoever unlinks or splits it later changes its
// version. A leaf that changed meanwhile sends us back through the inner nodes, to `bound`, the
// lowest key that was not taken yet; of byte strings it lies in a blob that this thread's pin
// keeps. False: sent back too often for a scan of one moment.
template <class Keys>
template <typename LineTree<Keys>::Isolation isolation>
bool LineTree<Keys>::scan_chain(Key from, std::size_t count, Scan& out, Passed* passed) const {
  constexpr unsigned most_returns = 8;
  Snapshot snapshot;
  Key bound = from;
  unsigned returns = 0;
  for (pm::Backoff backoff;; backoff.wait()) {
    Entered at = enter_range(bound, count - out.size());
    for (bool is_first = true;; is_first = false) {
      const std::uint64_t last = info_of(at.leaf).highest();
      take(*at.leaf, wanted(bound, last), snapshot);
      Entered next;
      if (const std::uint64_t successor = at.leaf->successor(); successor != null_offset) {
        next.leaf = leaf_at(successor);
        prefetch_whole(*next.leaf);
        next.lock = &lock_of(next.leaf);
        next.word = next.lock->read_begin();
      }
      if constexpr (isolation == Isolation::range) passed->push_back(at);
      if (!at.lock->validate(at.word)) {
        if (has_text_keys<Keys> && !is_first) bound = linetree::lowest_key(records_, *at.leaf);
        if (isolation == Isolation::range && ++returns > most_returns) return false;
        break;
      }
      sort(snapshot);
      append(snapshot, is_first ? bound : Key{}, count, out);
      if (out.size() == count || next.leaf == nullptr) return true;
      if constexpr (!has_text_keys<Keys>) bound = last + 1;
      at = next;
    }
  }
}

// If no version has changed from before its leaf was read until after all were, then at the moment
// in between every leaf held what was read, and led to the next one: the answer is the range as of
// that moment. Where writers are too busy for that, the stripes of the leaves are locked in
// ascending order, so that nobody waits in a circle (S2), and the range is read under the locks. A
// leaf whose stripe is not among them has come into the range meanwhile: then all are let go, and
// taken again with that one. There are only so many stripes, so this ends.
template <class Keys>
void LineTree<Keys>::scan_at_once(Key from, std::size_t count, Scan& out) const {
  constexpr unsigned optimistic_attempts = 3;
  Passed passed;
  for (unsigned attempt = 0; attempt < optimistic_attempts; ++attempt) {
    passed.clear();
    out.clear();
    const bool whole = scan_chain<Isolation::range>(from, count, out, &passed);
    const auto stands = [](const Entered& at) { return at.lock->validate(at.word); };
    if (whole && std::ranges::all_of(passed, stands)) return;
  }
  Stripes stripes;
  for (const Entered& at : passed) stripes.push_back(at.lock);
  for (;;) {
    std::ranges::sort(stripes);
    stripes.erase(std::ranges::unique(stripes).begin(), stripes.end());
    for (pm::VersionLock* const stripe : stripes) {
      [[maybe_unused]] const bool taken = stripe->lock();
      PERDURE_ASSERT(taken);  // S3
    }
    out.clear();
    pm::VersionLock* const missing = scan_locked(from, count, stripes, out);
    for (pm::VersionLock* const stripe : stripes) stripe->unlock_unchanged();
    if (missing == nullptr) return;
    stripes.push_back(missing);
  }
}

// The caller holds `stripes`. Null: done; else the stripe of a leaf of the range that is not there.
template <class Keys>
pm::VersionLock* LineTree<Keys>::scan_locked(Key from, std::size_t count, const Stripes& stripes,
                                             Scan& out) const {
  Snapshot snapshot;
  Key bound = from;
  const Leaf* leaf = static_cast<Leaf*>(inner_.find(bound, [](void* found) { return found; }));
  for (;;) {
    pm::VersionLock& lock = lock_of(leaf);
    if (!std::ranges::binary_search(stripes, &lock)) return &lock;
    const std::uint64_t last = info_of(leaf).highest();
    take(*leaf, wanted(bound, last), snapshot);
    sort(snapshot);
    append(snapshot, bound, count, out);
    const std::uint64_t successor = leaf->successor();
    if (out.size() == count || successor == null_offset) return nullptr;
    leaf = leaf_at(successor);
    if constexpr (has_text_keys<Keys>)
      bound = Key{};
    else
      bound = last + 1;
  }
}

template <class Keys>
void LineTree<Keys>::lookup_batch(std::span<const Key> keys, std::span<ValueOut> values,
                                  std::span<Outcome> outcomes) {
  const Epochs::Guard guard(epochs_);
  in_groups(keys, values, outcomes,
            [this](auto some, auto into, auto answers) { search_group(some, into, answers); });
}

// Passes, so that the misses of each overlap: inner nodes; home lines; with blobs, these. A key
// whose leaf changed on the way is looked up again by itself.
template <class Keys>
void LineTree<Keys>::search_group(std::span<const Key> keys, std::span<ValueOut> values,
                                  std::span<Outcome> outcomes) const {
  std::array<typename Inner::Position, batch_group> position;
  std::array<Entered, batch_group> entered;
  std::array<Probe, batch_group> probe;
  inner_.locate(keys, std::span(position).first(keys.size()));
  for (std::size_t i = 0; i < keys.size(); ++i) {
    probe[i] = Probe(shape_, keys[i]);
    auto* const leaf = static_cast<Leaf*>(position[i].leaf);
    if (leaf == nullptr) continue;
    pm::prefetch_once(leaf->line(probe[i].place.home));
    pm::VersionLock& lock = lock_of(leaf);
    const std::uint64_t word = lock.peek();
    if (!pm::VersionLock::is_locked(word) && Inner::holds(position[i]))
      entered[i] = {leaf, &lock, word};
  }
  if constexpr (has_text_keys<Keys>)
    for (std::size_t i = 0; i < keys.size(); ++i)
      if (entered[i].leaf != nullptr) prefetch_candidates(*entered[i].leaf, probe[i]);
  std::array<std::uint64_t, batch_group> word;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    bool present = false;
    bool is_valid = false;
    if (const Entered& at = entered[i]; at.leaf != nullptr) {
      pm::ReadAttempt stable(*at.lock, at.word);
      const unsigned slot = search(*at.leaf, probe[i], stable);
      present = slot != no_slot;
      word[i] = present ? at.leaf->value_word(slot) : 0;
      is_valid = stable();
    }
    if (!is_valid) present = find_pinned(probe[i], word[i]);
    outcomes[i] = present ? Outcome::ok : Outcome::not_found;
    if constexpr (Store::has_blobs) {
      if (present) records_.prefetch(Kind::record({0, word[i]}));
    } else {
      if (present) values[i] = word[i];
    }
  }
  if constexpr (Store::has_blobs)
    for (std::size_t i = 0; i < keys.size(); ++i)
      if (outcomes[i] == Outcome::ok) read_value(word[i], values[i]);
}

// What they lead to is not read before the version has been validated.
template <class Keys>
void LineTree<Keys>::prefetch_candidates(const Leaf& leaf, const Probe& probe) const noexcept {
  for (std::uint32_t found = Kind::candidates(leaf, probe.place.home, probe); found != 0;
       found &= found - 1) {
    const auto i = static_cast<unsigned>(std::countr_zero(found));
    records_.prefetch(Kind::record(leaf.slot(probe.place.home * linetree::line_slots + i).load()));
  }
}

template std::size_t LineTree<IntegerKeys>::scan(Key, std::size_t, Scan&);
template std::size_t LineTree<SlotKeys>::scan(Key, std::size_t, Scan&);
template std::size_t LineTree<ByteKeys>::scan(Key, std::size_t, Scan&);
template void LineTree<IntegerKeys>::lookup_batch(std::span<const Key>, std::span<ValueOut>,
                                                  std::span<Outcome>);
template void LineTree<SlotKeys>::lookup_batch(std::span<const Key>, std::span<ValueOut>,
                                               std::span<Outcome>);
template void LineTree<ByteKeys>::lookup_batch(std::span<const Key>, std::span<ValueOut>,
                                               std::span<Outcome>);

}  // namespace perdure
