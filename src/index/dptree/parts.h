// The parts of a DPTree that all its rooms share, and how a key is found in its three trees.
//
// A key is looked for in the front tree, then in the middle tree, then in the base tree. Readers
// take no lock: they are pinned, and read again where what they read may have been overwritten
// (snapshot.h).
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "index/common/record_store.h"
#include "index/dptree/anchor.h"
#include "index/dptree/base_map.h"
#include "index/dptree/buffer.h"
#include "index/dptree/buffer_source.h"
#include "index/dptree/leaf.h"
#include "index/dptree/log.h"
#include "index/dptree/snapshot.h"
#include "index/registry.h"
#include "pm/asymmetric_lock.h"
#include "pm/pm.h"
#include "pool/epoch.h"
#include "pool/pool.h"

namespace perdure::dptree {

/// A snapshot, and the base leaf in it that covers a key.
template <class Keys>
struct Route {
  const Snapshot<Keys>* trees = nullptr;
  LeafLink leaf;  ///< null offset: the base tree has no leaves
  [[nodiscard]] bool has_leaf() const noexcept { return leaf.offset() != null_offset; }
};

/// Where a record of the base tree is, and its words.
struct BaseRecord {
  LeafView view;
  unsigned which;  ///< of the leaf's sets
  unsigned slot;
  RecordWords words;
};

/// What is prefetched of a base leaf. For inserts the key is normally absent, so the prefetch of
/// its record would be wasted.
enum class Prefetch : std::uint8_t { metadata, record };

template <class Keys>
struct Parts {
  using Key = typename Keys::Key;
  using Tree = Buffer<Keys>;

  Parts(const IndexPlace& place, std::uint64_t anchor_offset, unsigned entries_of_leaf,
        unsigned log_entries)
      : pool(*place.pool),
        heap(place.pool->heap()),
        leaf_entries(entries_of_leaf),
        anchor(*place.pool->at<Anchor>(anchor_offset)),
        records(*place.pool, epochs),
        buffers(place, records, anchor_offset, log_entries) {}

  [[nodiscard]] LeafView leaf_at(std::uint64_t offset) const noexcept {
    return {pool.template at<BaseLeaf>(offset), leaf_entries};
  }
  [[nodiscard]] LeafView leaf_at(LeafLink leaf) const noexcept { return leaf_at(leaf.offset()); }
  [[nodiscard]] std::size_t leaf_bytes() const noexcept { return LeafView::bytes(leaf_entries); }
  [[nodiscard]] State state() const noexcept {
    return State::from(anchor.state.load(std::memory_order_relaxed));
  }
  /// The segments of a log, newest first.
  [[nodiscard]] std::vector<std::uint64_t> segments(std::uint64_t head) const;
  [[nodiscard]] std::uint64_t dram_bytes() const;

  // Reading. The caller is pinned.
  [[nodiscard]] const Snapshot<Keys>& snapshot() const noexcept { return current.get(); }
  /// The current trees. Prefetches the lines of their filters.
  [[nodiscard]] const Snapshot<Keys>& prefetch_filters(std::uint64_t hash) const noexcept {
    const Snapshot<Keys>& trees = snapshot();
    trees.front->log().prefetch_filter(hash);
    if (trees.middle != nullptr) trees.middle->log().prefetch_filter(hash);
    return trees;
  }
  [[nodiscard]] Route<Keys> prefetch_leaf(const Snapshot<Keys>& trees, LeafLink leaf,
                                          std::uint64_t hash, Prefetch what) const noexcept {
    const Route<Keys> route{&trees, leaf};
    if (!route.has_leaf()) return route;
    const LeafView view = leaf_at(leaf);
    view.prefetch(leaf.which(), hash);
    if (what == Prefetch::record) view.prefetch_record(hash);
    return route;
  }
  [[nodiscard]] static Route<Keys> route_in(const Snapshot<Keys>& trees, Key key) noexcept {
    return {&trees, trees.base->find(key).leaf};
  }
  /// Finds the base leaf of a key in the current trees; prefetches it, its record and the filters.
  [[nodiscard]] Route<Keys> prefetch_route(Key key, std::uint64_t hash) const noexcept;

  [[nodiscard]] std::optional<BaseRecord> find_in_leaf(LeafLink leaf, Key key,
                                                       std::uint64_t hash) const;
  [[nodiscard]] std::optional<BaseRecord> find_in_base(const Route<Keys>& route, Key key,
                                                       std::uint64_t hash) const;
  /// Under the front tree: the words of the record; false: absent.
  [[nodiscard]] [[gnu::always_inline]] bool find_below(const Route<Keys>& route, Key key,
                                                       std::uint64_t hash,
                                                       RecordWords& found) const;
  /// The same for a writer, under whom the front tree stays: reads again until what it has read is
  /// whole.
  [[nodiscard]] bool find_below_front(Route<Keys> route, Key key, std::uint64_t hash,
                                      RecordWords& found) const;
  /// In all three trees.
  [[nodiscard]] bool find(Key key, std::uint64_t hash, RecordWords& found) const;
  /// Whether the trees of a snapshot under its front tree have the key. Nothing merges.
  [[nodiscard]] bool is_below(const Snapshot<Keys>& trees, Key key, std::uint64_t hash) const;

  Pool& pool;
  Heap& heap;
  const unsigned leaf_entries;
  Anchor& anchor;
  mutable Epochs epochs;
  RecordStore<Keys> records;
  BufferSource<Keys> buffers;
  CurrentSnapshot<Keys> current;
  pm::AsymmetricLock writers;       ///< held alone, no thread changes the front tree (D2)
  mutable pm::VersionLock merging;  ///< held by the thread that rotates or merges (D3)
};

template <class Keys>
inline auto Parts<Keys>::find_in_leaf(LeafLink leaf, Key key, std::uint64_t hash) const
    -> std::optional<BaseRecord> {
  const LeafView view = leaf_at(leaf);
  const auto found = view.find(
      leaf.which(), hash, [&](const RecordWords& words) { return records.matches(words, key); });
  if (!found) return std::nullopt;
  return BaseRecord{view, leaf.which(), found->first, found->second};
}

template <class Keys>
inline auto Parts<Keys>::find_in_base(const Route<Keys>& route, Key key, std::uint64_t hash) const
    -> std::optional<BaseRecord> {
  if (!route.has_leaf()) return std::nullopt;
  return find_in_leaf(route.leaf, key, hash);
}

template <class Keys>
inline bool Parts<Keys>::find_below(const Route<Keys>& route, Key key, std::uint64_t hash,
                                    RecordWords& found) const {
  const Snapshot<Keys>& trees = *route.trees;
  if (trees.middle != nullptr) {
    const auto entry = trees.middle->find(key, hash);
    if (entry.any()) {
      found = trees.middle->record_of(entry.word)->words();
      return entry.is_put();
    }
  }
  const auto place = find_in_base(route, key, hash);
  if (place) found = place->words;
  return place.has_value();
}

extern template struct Parts<IntegerKeys>;
extern template struct Parts<ByteKeys>;

}  // namespace perdure::dptree
