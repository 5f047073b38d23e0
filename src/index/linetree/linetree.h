// LineTree: leaves on media that are hash tables of cache lines, valid by their key interval alone
// (leaf.h); inner nodes, leaf locks and what writers need of each leaf in DRAM. This project's own
// index; see design.md for the protocols, their power-cut states, and what is new in it.
//
// On media: the root block leads to the anchor, that to the first leaf, each leaf to the next, and
// slots to what does not fit into them (kind.h). Numbered invariants: leaf.h L1-L6, leaf_table.h
// V1-V3, leaf_locks.h S1-S3, inner_tree.h N1-N5, record_store.h R1-R3, and
//
// T1  the chain passes every leaf of the inner tree once, in the same order, and the separator left
//     of a leaf is its lowest key. So the leaf that the inner tree gives for a key is the one whose
//     interval holds it, and a slot there that holds the key is live.
// T2  a leaf is linked, with everything it leads to, by one 8-byte store; likewise unlinked. What
//     is reachable is durable and allocated; what is not reachable is free after recovery.
// T3  a change is durable before the leaf's lock is released, and readers validate the lock's
//     version. So nothing is returned that a power cut could take back.
// T4  whoever changes which keys a leaf covers holds its lock from before the change on media until
//     the inner tree has it, too; a merge holds the locks of both leaves.
// T5  memory that a thread may still read is freed only after a grace period.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/result.h"
#include "index/common/index_root.h"
#include "index/inner_tree/inner_tree.h"
#include "index/leaf/leaf_locks.h"
#include "index/linetree/chain.h"
#include "index/linetree/kind.h"
#include "index/linetree/leaf.h"
#include "index/linetree/leaf_table.h"
#include "index/registry.h"
#include "index/writable_index.h"
#include "pm/pm.h"
#include "pool/epoch.h"
#include "pool/pool.h"

namespace perdure {

/// Opens the private parts to tests.
template <class Keys>
class LineTreePeer;

template <class Keys>
class LineTree final : public WritableIndex<LineTree<Keys>, Keys> {
 public:
  using Key = typename Keys::Key;
  using Value = typename Keys::Value;
  using ValueOut = typename Keys::ValueOut;
  using Record = typename Keys::Record;
  using Scan = typename Keys::Scan;
  using Leaf = linetree::Leaf;
  using Made = MadeIndex<Keys>;

  static constexpr IndexRootKind root_kind{"linetree", 1, Keys::kind};

  /// An empty tree: one leaf or two, an anchor, one root. Errors: exists, out_of_space, usage.
  [[nodiscard]] static Made create(const IndexPlace& place);
  /// From the pool alone. Errors: not_found, foreign, newer, corrupt.
  [[nodiscard]] static Made recover(const IndexPlace& place);

  Outcome put(Key key, Value value, Put kind);
  Outcome remove(Key key) override;
  Outcome lookup(Key key, ValueOut& value) override;
  std::size_t scan(Key from, std::size_t count, Scan& out) override;
  Result<void> bulk_load(std::span<const Record> records) override;
  void lookup_batch(std::span<const Key> keys, std::span<ValueOut> values,
                    std::span<Outcome> outcomes) override;

  void insert_batch(std::span<const Key> keys, std::span<const Value> values,
                    std::span<Outcome> outcomes) override;
  void upsert_batch(std::span<const Key> keys, std::span<const Value> values,
                    std::span<Outcome> outcomes) override;
  void update_batch(std::span<const Key> keys, std::span<const Value> values,
                    std::span<Outcome> outcomes) override;
  void remove_batch(std::span<const Key> keys, std::span<Outcome> outcomes) override;

  [[nodiscard]] std::uint64_t size() const override { return table_.records(); }
  [[nodiscard]] Result<void> check_invariants() const override;
  [[nodiscard]] std::uint64_t dram_bytes() const override;
  void quiesce() override { epochs_.drain(); }

 private:
  friend class LineTreePeer<Keys>;
  using Kind = linetree::Kind<Keys>;
  using Probe = typename Kind::Probe;
  using Inner = typename Kind::Inner;
  using Store = RecordStore<Keys>;
  enum class Purpose : std::uint8_t { read, write };

  /// A leaf, and its stripe's word from a moment when the leaf covered the key.
  struct Entered {
    Leaf* leaf = nullptr;
    pm::VersionLock* lock = nullptr;
    std::uint64_t word = 0;
  };
  /// A leaf whose stripe this thread holds, and the slot of the key, or none.
  struct Locked {
    Leaf* leaf = nullptr;
    pm::VersionLock* lock = nullptr;
    unsigned slot = linetree::no_slot;
  };
  /// What came of a change of one leaf.
  enum class Change : std::uint8_t {
    made,
    leaf_full,     ///< nothing changed
    out_of_space,  ///< nothing changed
  };
  /// What an attempt to merge came to.
  enum class Merging : std::uint8_t {
    merged,
    unfit,  ///< the leaf is not sparse any more, or its neighbours have no room
    busy,   ///< a neighbour is locked, or is just being linked or unlinked
  };

  LineTree(const IndexPlace& place, std::uint64_t anchor);
  /// Takes over the leaves that the anchor leads to, of a tree just created.
  void adopt_first_leaves();

  [[nodiscard]] Leaf* leaf_at(std::uint64_t offset) const noexcept {
    return pool_.at<Leaf>(offset);
  }
  /// Before recovery has walked the chain it may lead anywhere.
  [[nodiscard]] Leaf* first() const noexcept {
    return leaf_at(anchor_.first.load(std::memory_order_acquire));
  }
  [[nodiscard]] std::uint64_t offset_of(const Leaf* leaf) const noexcept {
    return pool_.offset_of(leaf);
  }
  [[nodiscard]] pm::VersionLock& lock_of(const Leaf* leaf) const noexcept {
    return locks_.of(offset_of(leaf));
  }
  [[nodiscard]] linetree::LeafInfo& info_of(const Leaf* leaf) const noexcept {
    return table_.of(offset_of(leaf));
  }
  [[nodiscard]] linetree::Chain<Keys> chain() noexcept { return {pool_, shape_, table_, records_}; }

  /// Prefetches `line` of the leaf on the way.
  template <Purpose purpose>
  [[nodiscard]] Entered enter(Key key, unsigned line) const;
  /// The leaf, and what DRAM has of it.
  void prefetch_whole(const Leaf& leaf) const noexcept;
  /// For a scan of `count` records: prefetches the leaves that it will probably read.
  [[nodiscard]] Entered enter_range(Key key, std::size_t count) const;
  /// The slot of the key in a leaf that covers it, or none; also when `stable()`, which is asked
  /// before a blob is followed, became false.
  template <class Stable>
  [[nodiscard]] unsigned search(const Leaf& leaf, const Probe& probe,
                                Stable&& stable) const noexcept;
  template <class Stable>
  [[nodiscard]] unsigned search_line(const Leaf& leaf, unsigned line, const Probe& probe,
                                     Stable&& stable) const noexcept;
  /// Whether a search has not given up. It may have at a moment when the lock was held, and
  /// released since at the same version, which would pass for stable. Integers are never given up.
  [[nodiscard]] static bool was_stable([[maybe_unused]] pm::ReadAttempt& stable) noexcept {
    if constexpr (has_text_keys<Keys>)
      return stable();
    else
      return true;
  }
  /// Finds the value word of the key; the caller is pinned. False: absent.
  [[nodiscard]] bool find_pinned(const Probe& probe, std::uint64_t& word) const;
  /// Copies the value that a slot's value word is or leads to; it was found while this thread has
  /// been pinned.
  void read_value(std::uint64_t word, ValueOut& value) const;
  /// The leaf that covers the key, locked, and where it holds the key.
  [[nodiscard]] Locked lock_leaf(const Probe& probe) const;

  // Changing one leaf (change.cpp, split.cpp). The caller holds its lock and is pinned.
  [[nodiscard]] Outcome try_put(Key key, Value value, Put kind);
  [[nodiscard]] Outcome try_remove(Key key);
  [[nodiscard]] Change replace(LeafRecord& slot, const Probe& probe, Value value);
  [[nodiscard]] Change add(Leaf& leaf, const Probe& probe, Value value);
  void displace(Leaf& leaf, linetree::Move move);
  /// Frees what a slot with this value word led to.
  void retire(std::uint64_t word);
  struct Cut;
  [[nodiscard]] Cut cut_for(const Leaf& leaf, Key key) const;
  [[nodiscard]] bool split(Leaf& leaf, Key key);
  void drop_moved(Leaf& leaf, const Cut& cut) noexcept;

  // Changing many (batch.cpp).
  class Group;
  struct BatchedChange;
  [[nodiscard]] std::optional<Outcome> store_one(Leaf& leaf, const Probe& probe, unsigned slot,
                                                 const BatchedChange& change)
    requires(!RecordStore<Keys>::has_blobs);
  [[nodiscard]] std::optional<Outcome> try_in_group(Group& group,
                                                    const typename Inner::Position& position,
                                                    const Probe& probe, const BatchedChange& change)
    requires(!RecordStore<Keys>::has_blobs);
  void change_group(std::span<const BatchedChange> changes, std::span<Outcome> outcomes);
  void put_batch(std::span<const Key> keys, std::span<const Value> values, Put kind,
                 std::span<Outcome> outcomes);

  // Merging two leaves (merge.cpp).
  [[nodiscard]] bool is_sparse(const Leaf& leaf) const noexcept;
  [[nodiscard]] bool fit_together(const Leaf& left, const Leaf& right) const noexcept;
  void merge_around(Key key);
  [[nodiscard]] Merging try_merge(Key key, Leaf*& unlinked);
  [[nodiscard]] Merging merge(Leaf& left, Leaf& right, Leaf& partner);
  [[nodiscard]] bool absorb(Leaf& left, Leaf& right);

  // Reading several records (scan.cpp).
  struct Snapshot;
  /// What of a scan's answer belongs to one moment.
  enum class Isolation : std::uint8_t { leaf, range };
  using Passed = std::vector<Entered>;
  using Stripes = std::vector<pm::VersionLock*>;
  template <Isolation isolation>
  [[nodiscard]] bool scan_chain(Key from, std::size_t count, Scan& out, Passed* passed) const;
  void scan_at_once(Key from, std::size_t count, Scan& out) const;
  [[nodiscard]] pm::VersionLock* scan_locked(Key from, std::size_t count, const Stripes& stripes,
                                             Scan& out) const;
  /// The keys from `bound` on, in a leaf whose highest key is `last`.
  [[nodiscard]] static typename Kind::Live wanted([[maybe_unused]] const Key& bound,
                                                  [[maybe_unused]] std::uint64_t last) noexcept {
    if constexpr (has_text_keys<Keys>)
      return {};
    else
      return {bound, last};
  }
  void take(const Leaf& leaf, typename Kind::Live wanted, Snapshot& snapshot) const noexcept;
  void sort(Snapshot& snapshot) const noexcept;
  void append(const Snapshot& snapshot, const Key& bound, std::size_t count, Scan& out) const;
  void prefetch_candidates(const Leaf& leaf, const Probe& probe) const noexcept;
  void search_group(std::span<const Key> keys, std::span<ValueOut> values,
                    std::span<Outcome> outcomes) const;

  [[nodiscard]] Result<void> check_leaf(const Leaf& leaf, const Key* high) const;

  Pool& pool_;
  Heap& heap_;
  const linetree::Shape shape_;
  const unsigned threads_;
  const bool validated_;  ///< scans are as of one moment
  mutable Epochs epochs_;
  Store records_;
  mutable LeafLocks locks_;
  mutable linetree::LeafTable table_;
  linetree::Anchor& anchor_;
  Inner inner_;
};

template <class Keys>
template <typename LineTree<Keys>::Purpose purpose>
[[gnu::always_inline]] inline auto LineTree<Keys>::enter(Key key, unsigned line) const -> Entered {
  for (pm::Backoff backoff;; backoff.wait()) {
    const Entered at = inner_.find(key, [this, line](void* found) {
      auto* const leaf = static_cast<Leaf*>(found);
      if constexpr (purpose == Purpose::write) {
        pm::prefetch_for_write(leaf->line(line));
        pm::prefetch(&info_of(leaf));
      } else {
        pm::prefetch_once(leaf->line(line));
      }
      pm::VersionLock& lock = lock_of(leaf);
      return Entered{leaf, &lock, lock.peek()};
    });
    if (!pm::VersionLock::is_locked(at.word)) return at;
  }
}

template <class Keys>
template <class Stable>
[[gnu::always_inline]] inline unsigned LineTree<Keys>::search_line(const Leaf& leaf, unsigned line,
                                                                   const Probe& probe,
                                                                   Stable&& stable) const noexcept {
  std::uint32_t found = Kind::candidates(leaf, line, probe);
  if constexpr (has_text_keys<Keys>) {
    for (; found != 0; found &= found - 1) {
      const unsigned slot =
          line * linetree::line_slots + static_cast<unsigned>(std::countr_zero(found));
      if (records_.matches(Kind::record(leaf.slot(slot).load()), probe.key, stable)) return slot;
    }
    return linetree::no_slot;
  } else {
    return found == 0
               ? linetree::no_slot
               : line * linetree::line_slots + static_cast<unsigned>(std::countr_zero(found));
  }
}

template <class Keys>
template <class Stable>
[[gnu::always_inline]] inline unsigned LineTree<Keys>::search(const Leaf& leaf, const Probe& probe,
                                                              Stable&& stable) const noexcept {
  const unsigned home = probe.place.home;
  const unsigned slot = search_line(leaf, home, probe, stable);
  if (slot != linetree::no_slot || !info_of(&leaf).may_overflow(home)) return slot;
  return search_line(leaf, probe.place.overflow(), probe, stable);
}

template <class Keys>
[[gnu::always_inline]] inline void LineTree<Keys>::read_value(std::uint64_t word,
                                                              ValueOut& value) const {
  records_.read_value(Kind::record({0, word}), value);
}

}  // namespace perdure
