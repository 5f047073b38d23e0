// LineTree: leaves on media that are hash tables of cache lines, valid by their key interval alone
// (leaf.h); inner nodes, leaf locks and what writers need of each leaf in DRAM. This project's own
// index; see design.md for the protocols, their power-cut states, and what is new in it.
//
// On media: the root block leads to the anchor, that to the first leaf, each leaf to the next.
// Numbered invariants: leaf.h L1-L5, leaf_table.h V1-V3, leaf_locks.h S1-S3, inner_tree.h N1-N5,
// and
//
// T1  the chain passes every leaf of the inner tree once, in the same order, and the separator left
//     of a leaf is its `lo`. So the leaf that the inner tree gives for a key is the one whose
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
#include <span>

#include "core/result.h"
#include "index/common/index_root.h"
#include "index/inner_tree/inner_tree.h"
#include "index/leaf/leaf_locks.h"
#include "index/linetree/chain.h"
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

class LineTree final : public WritableIndex<LineTree, IntegerKeys> {
 public:
  using Leaf = linetree::Leaf;
  using Place = linetree::Place;
  using Made = MadeIndex<IntegerKeys>;

  static constexpr IndexRootKind root_kind{"linetree", 1, KeyKind::integer};

  /// An empty tree: two leaves, an anchor, one root. Errors: exists, out_of_space, usage.
  [[nodiscard]] static Made create(const IndexPlace& place);
  /// From the pool alone. Errors: not_found, foreign, newer, corrupt.
  [[nodiscard]] static Made recover(const IndexPlace& place);

  Outcome put(std::uint64_t key, std::uint64_t value, Put kind);
  Outcome remove(std::uint64_t key) override;
  Outcome lookup(std::uint64_t key, std::uint64_t& value) override;
  std::size_t scan(std::uint64_t from, std::size_t count, IntegerScan& out) override;
  Result<void> bulk_load(std::span<const IntegerRecord> records) override;
  void lookup_batch(std::span<const std::uint64_t> keys, std::span<std::uint64_t> values,
                    std::span<Outcome> outcomes) override;

  [[nodiscard]] std::uint64_t size() const override;
  [[nodiscard]] Result<void> check_invariants() const override;
  [[nodiscard]] std::uint64_t dram_bytes() const override;
  void quiesce() override { epochs_.drain(); }

 private:
  friend class LineTreePeer<IntegerKeys>;
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
  [[nodiscard]] linetree::Chain chain() noexcept { return {pool_, shape_, table_}; }

  /// Prefetches `line` of the leaf on the way.
  template <Purpose purpose>
  [[nodiscard]] Entered enter(std::uint64_t key, unsigned line) const;
  /// The slot of `key` in a leaf that covers it, or none.
  [[nodiscard]] unsigned search(const Leaf& leaf, std::uint64_t key, Place place) const noexcept;
  /// Finds the value of `key`; the caller is pinned. False: absent.
  [[nodiscard]] bool find_pinned(std::uint64_t key, Place place, std::uint64_t& value) const;
  /// The leaf that covers `key`, locked, and where it holds the key.
  [[nodiscard]] Locked lock_leaf(std::uint64_t key, Place place) const;

  // Changing one leaf (change.cpp). The caller holds its lock and is pinned.
  [[nodiscard]] Outcome try_put(std::uint64_t key, std::uint64_t value, Put kind);
  [[nodiscard]] Outcome try_remove(std::uint64_t key);
  [[nodiscard]] bool add(Leaf& leaf, std::uint64_t key, std::uint64_t value, Place place);
  void displace(Leaf& leaf, linetree::Room room);
  [[nodiscard]] bool split(Leaf& leaf);

  // Merging two leaves (merge.cpp).
  [[nodiscard]] bool is_sparse(const Leaf& leaf) const noexcept;
  [[nodiscard]] bool fit_together(const Leaf& left, const Leaf& right) const noexcept;
  void merge_around(std::uint64_t key);
  [[nodiscard]] Merging try_merge(std::uint64_t key, Leaf*& unlinked);
  [[nodiscard]] Merging merge(Leaf& left, Leaf& right, Leaf& partner);
  [[nodiscard]] bool absorb(Leaf& left, Leaf& right);

  // Reading several records (scan.cpp).
  struct Snapshot;
  void take(const Leaf& leaf, linetree::Interval wanted, Snapshot& snapshot) const noexcept;
  void search_group(std::span<const std::uint64_t> keys, std::span<std::uint64_t> values,
                    std::span<Outcome> outcomes) const;

  [[nodiscard]] Result<void> check_leaf(const Leaf& leaf) const;

  Pool& pool_;
  Heap& heap_;
  const linetree::Shape shape_;
  const unsigned threads_;
  mutable Epochs epochs_;
  mutable LeafLocks locks_;
  mutable linetree::LeafTable table_;
  linetree::Anchor& anchor_;
  linetree::Inner inner_;
};

template <LineTree::Purpose purpose>
[[gnu::always_inline]] inline auto LineTree::enter(std::uint64_t key, unsigned line) const
    -> Entered {
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

[[gnu::always_inline]] inline unsigned LineTree::search(const Leaf& leaf, std::uint64_t key,
                                                        Place place) const noexcept {
  const unsigned slot = leaf.find_in(place.home, key);
  if (slot != linetree::no_slot || !info_of(&leaf).may_overflow(place.home)) return slot;
  return leaf.find_in(place.overflow(), key);
}

}  // namespace perdure
