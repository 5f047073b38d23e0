// The reading half of LbTree that takes many records: scans and batches.
#include <algorithm>
#include <array>
#include <limits>

#include "index/common/lookup_groups.h"
#include "index/lbtree/lbtree.h"

namespace perdure {

/// The live records of one leaf, as they were while its version stood.
template <class Keys>
struct LbTree<Keys>::Snapshot {
  static constexpr unsigned lanes = 16;  ///< a multiple of what a vector register compares at once

  std::array<std::uint64_t, lanes> key;
  std::array<std::uint64_t, lanes> value;
  std::array<std::uint8_t, lanes> order;  ///< ascending: positions in the arrays above
  unsigned count = 0;
  std::uint64_t next = null_offset;

  [[nodiscard]] RecordWords at(unsigned rank) const noexcept {
    return {key[order[rank]], value[order[rank]]};
  }
};

// What was read counts once the caller has validated the leaf's version. Every slot is copied, live
// or not, because a branch on each would be mispredicted.
template <class Keys>
void LbTree<Keys>::take(const Leaf& leaf, Snapshot& snapshot) const noexcept {
  const Header header = leaf.read_header();
  snapshot.next = leaf.next(header);
  const std::uint32_t live = header.live();
  unsigned count = 0;
  for (unsigned i = 0; i < Leaf::entries; ++i) {
    const RecordWords words = leaf.record[i].load();
    snapshot.key[count] = words.key;
    snapshot.value[count] = words.value;
    count += live >> i & 1;
  }
  snapshot.count = count;
}

// Key words are cut to the 25 bits below the highest one in which two of them differ, and each is
// ranked by counting the smaller ones, four at a time and without a branch. Words that tie in those
// bits, and byte strings whose words tie, are noticed and sorted again.
template <class Keys>
void LbTree<Keys>::sort(Snapshot& snapshot) const noexcept {
  constexpr unsigned lanes = Snapshot::lanes;
  constexpr unsigned kept_bits = 25;
  constexpr unsigned lane_bits = 4;
  const unsigned count = snapshot.count;
  std::uint64_t differing = 0;
  for (unsigned i = 1; i < count; ++i) differing |= snapshot.key[i] ^ snapshot.key[0];
  const auto width = static_cast<unsigned>(std::bit_width(differing));
  const unsigned shift = width > kept_bits ? width - kept_bits : 0;
  constexpr std::uint64_t kept_mask = (std::uint64_t{1} << kept_bits) - 1;
  std::array<std::int32_t, lanes> packed;
  for (unsigned i = 0; i < lanes; ++i)
    packed[i] = static_cast<std::int32_t>((snapshot.key[i] >> shift & kept_mask) << lane_bits | i);
  for (unsigned i = count; i < lanes; ++i) packed[i] = std::numeric_limits<std::int32_t>::max();
  std::array<std::int32_t, lanes> rank{};
  for (unsigned i = 0; i < Leaf::entries; ++i) {
    const std::int32_t other = packed[i];
    for (unsigned k = 0; k < lanes; ++k) rank[k] += static_cast<std::int32_t>(other < packed[k]);
  }
  for (unsigned i = 0; i < lanes; ++i)
    snapshot.order[static_cast<unsigned>(rank[i])] = static_cast<std::uint8_t>(i);

  if constexpr (Keys::kind == KeyKind::bytes)
    for (unsigned i = 0; i < count; ++i) records_.prefetch({snapshot.key[i], snapshot.value[i]});
  const auto less = [&](unsigned a, unsigned b) {
    return records_.less({snapshot.key[a], snapshot.value[a]},
                         {snapshot.key[b], snapshot.value[b]});
  };
  bool sorted = true;
  for (unsigned i = 1; i < count; ++i) sorted &= less(snapshot.order[i - 1], snapshot.order[i]);
  if (!sorted) std::sort(snapshot.order.begin(), snapshot.order.begin() + count, less);
}

// Appends what lies at or above `bound` (above it: `past_bound`), up to `count` records in all, and
// remembers the last of them.
template <class Keys>
void LbTree<Keys>::append(const Snapshot& snapshot, Key bound, bool past_bound, std::size_t count,
                          RecordWords& last, Scan& out) const {
  unsigned rank = 0;
  for (; rank < snapshot.count; ++rank) {
    const Key key = records_.key_of(snapshot.at(rank));
    if (past_bound ? bound < key : bound <= key) break;
  }
  const auto end =
      static_cast<unsigned>(std::min<std::size_t>(snapshot.count, rank + (count - out.size())));
  if (rank == end) return;
  for (; rank < end; ++rank) records_.append(snapshot.at(rank), out);
  last = snapshot.at(end - 1);
}

// Goes from leaf to leaf along the chain. The successor's version is read before the present leaf's
// is validated: then the successor was linked, and whoever unlinks it later changes its version. A
// leaf that changed under our hands sends us back through the inner nodes, past the last record
// returned.
template <class Keys>
std::size_t LbTree<Keys>::scan(Key from, std::size_t count, Scan& out) {
  out.clear();
  if (count == 0) return 0;
  const Epochs::Guard guard(epochs_);
  Snapshot snapshot{};
  RecordWords last{};  // of the last record returned; its blob outlives this thread's pin
  for (pm::Backoff backoff;; backoff.wait()) {
    const auto bound = [&] { return out.size() == 0 ? from : records_.key_of(last); };
    Entered at = enter<Purpose::read>(bound());
    for (;;) {
      take(*at.leaf, snapshot);
      Entered next;
      if (snapshot.next != null_offset) {
        next.leaf = leaf_at(snapshot.next);
        next.leaf->prefetch();
        next.lock = &lock_of(next.leaf);
        next.word = next.lock->read_begin();
      }
      if (!at.lock->validate(at.word)) break;
      sort(snapshot);
      append(snapshot, bound(), out.size() != 0, count, last, out);
      if (out.size() == count || next.leaf == nullptr) return out.size();
      at = next;
    }
  }
}

template <class Keys>
void LbTree<Keys>::lookup_batch(std::span<const Key> keys, std::span<ValueOut> values,
                                std::span<Outcome> outcomes) {
  const Epochs::Guard guard(epochs_);
  in_groups(keys, values, outcomes,
            [this](auto some, auto into, auto answers) { search_group(some, into, answers); });
}

// Three passes, so that the misses of a pass overlap: inner nodes, header lines, record lines. A
// key whose leaf changed on the way is looked up again by itself.
template <class Keys>
void LbTree<Keys>::search_group(std::span<const Key> keys, std::span<ValueOut> values,
                                std::span<Outcome> outcomes) const {
  using Position = typename InnerTree<Keys>::Position;
  std::array<Position, batch_group> position;
  std::array<Entered, batch_group> entered;
  std::array<std::uint8_t, batch_group> fingerprint;
  inner_.locate(keys, std::span(position).first(keys.size()));
  for (std::size_t i = 0; i < keys.size(); ++i) {
    auto* const leaf = static_cast<Leaf*>(position[i].leaf);
    fingerprint[i] = fingerprint_of(keys[i]);
    if (leaf == nullptr) continue;
    leaf->prefetch();
    pm::VersionLock& lock = lock_of(leaf);
    const std::uint64_t word = lock.peek();
    if (!pm::VersionLock::is_locked(word) && InnerTree<Keys>::holds(position[i]))
      entered[i] = {leaf, &lock, word};
  }
  for (std::size_t i = 0; i < keys.size(); ++i) {
    RecordWords found;
    bool present = false;
    bool searched = false;
    if (const Entered& at = entered[i]; at.leaf != nullptr) {
      pm::ReadAttempt stable(*at.lock, at.word);
      present = search(*at.leaf, keys[i], fingerprint[i], stable, found) != no_slot;
      searched = stable();
    }
    if (!searched) present = find_pinned(keys[i], fingerprint[i], found);
    if (present) records_.read_value(found, values[i]);
    outcomes[i] = present ? Outcome::ok : Outcome::not_found;
  }
}

template std::size_t LbTree<IntegerKeys>::scan(Key, std::size_t, Scan&);
template std::size_t LbTree<ByteKeys>::scan(Key, std::size_t, Scan&);
template void LbTree<IntegerKeys>::lookup_batch(std::span<const Key>, std::span<ValueOut>,
                                                std::span<Outcome>);
template void LbTree<ByteKeys>::lookup_batch(std::span<const Key>, std::span<ValueOut>,
                                             std::span<Outcome>);

}  // namespace perdure
