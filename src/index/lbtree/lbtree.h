// LbTree: LB+-Tree. Leaves on media (leaf.h), inner nodes and leaf locks in DRAM.
// Source: Liu, Chen, Wang, "LB+-Trees", PVLDB 13(7), 2020; see design.md for every deviation.
//
// On media: the root block leads to the first leaf, each leaf to the next; nothing else is needed
// to recover. Numbered invariants: leaf.h L1-L4, leaf_locks.h S1-S3, inner_tree.h N1-N5, and
//
// T1  the chain from the first leaf passes every leaf of the inner tree once, in the same order.
// T2  keys of a leaf are distinct, and lie within the bounds the inner tree gives it; so keys
//     ascend along the chain.
// T3  at rest only the first leaf may be empty. It is never unlinked, because the root leads to
//     it.
// T4  a leaf is linked, with everything it leads to, by one 8-byte store; likewise unlinked. What
//     is reachable is durable and allocated; what is not reachable is free after recovery.
// T5  a change is durable before the leaf's lock is released, so nobody acts on what may be lost.
// T6  memory that a thread may still read is freed only after a grace period.
#pragma once

#include <memory>
#include <span>

#include "core/result.h"
#include "index/common/index_root.h"
#include "index/common/record_store.h"
#include "index/inner_tree/inner_tree.h"
#include "index/lbtree/leaf.h"
#include "index/leaf/leaf_locks.h"
#include "index/registry.h"
#include "index/writable_index.h"
#include "pm/pm.h"
#include "pool/epoch.h"
#include "pool/pool.h"

namespace perdure {

/// Opens the private parts to tests.
template <class Keys>
class LbTreePeer;

template <class Keys>
class LbTree final : public WritableIndex<LbTree<Keys>, Keys> {
 public:
  using Key = typename Keys::Key;
  using Value = typename Keys::Value;
  using ValueOut = typename Keys::ValueOut;
  using Record = typename Keys::Record;
  using Scan = typename Keys::Scan;
  using Leaf = lbtree::Leaf;
  using Header = lbtree::Header;

  static constexpr IndexRootKind root_kind{"lbtree", 1, Keys::kind};

  /// An empty tree: one leaf, one root. Errors: exists, out_of_space, usage.
  [[nodiscard]] static MadeIndex<Keys> create(const IndexPlace& place);
  /// From the pool alone. Errors: not_found, foreign, newer, corrupt.
  [[nodiscard]] static MadeIndex<Keys> recover(const IndexPlace& place);

  Outcome put(Key key, Value value, Put kind);
  Outcome remove(Key key) override;
  Outcome lookup(Key key, ValueOut& value) override;
  std::size_t scan(Key from, std::size_t count, Scan& out) override;
  Result<void> bulk_load(std::span<const Record> records) override;
  void lookup_batch(std::span<const Key> keys, std::span<ValueOut> values,
                    std::span<Outcome> outcomes) override;

  [[nodiscard]] std::uint64_t size() const override;
  [[nodiscard]] Result<void> check_invariants() const override;
  [[nodiscard]] std::uint64_t dram_bytes() const override;
  void quiesce() override { epochs_.drain(); }

 private:
  friend class LbTreePeer<Keys>;
  enum class Purpose : std::uint8_t { read, write };
  using Draft = typename RecordStore<Keys>::Draft;

  /// A leaf, and its stripe's word from a moment when the leaf covered the key.
  struct Entered {
    Leaf* leaf = nullptr;
    pm::VersionLock* lock = nullptr;
    std::uint64_t word = 0;
  };

  static constexpr int no_slot = -1;
  /// A leaf whose stripe this thread holds, and the key's record in it.
  struct Locked {
    Leaf* leaf = nullptr;
    pm::VersionLock* lock = nullptr;
    int slot = no_slot;
    RecordWords found;
  };

  static constexpr unsigned elision_attempts = 16;

  LbTree(const IndexPlace& place, std::uint64_t head);

  [[nodiscard]] Leaf* leaf_at(std::uint64_t offset) const noexcept {
    return pool_.at<Leaf>(offset);
  }
  [[nodiscard]] std::uint64_t offset_of(const Leaf* leaf) const noexcept {
    return pool_.offset_of(leaf);
  }
  [[nodiscard]] pm::VersionLock& lock_of(const Leaf* leaf) const noexcept {
    return locks_.of(offset_of(leaf));
  }

  template <Purpose purpose>
  [[nodiscard]] Entered enter(Key key) const;
  /// The leaf that covers `key`, locked, and where it holds the key.
  [[nodiscard]] Locked lock_leaf(Key key, std::uint8_t fingerprint) const;
  /// The slot of `key`, and its record in `found`; `no_slot` when absent, or when `stable()`, which
  /// is asked before a blob is followed, became false.
  template <class Stable>
  [[nodiscard]] int search(const Leaf& leaf, Key key, std::uint8_t fingerprint, Stable&& stable,
                           RecordWords& found) const noexcept;

  /// Finds the record of `key`; the caller is pinned. False: absent.
  [[nodiscard]] bool find_pinned(Key key, std::uint8_t fingerprint, RecordWords& found) const;

  // Changing one leaf (change.cpp). The caller holds its lock and is pinned.
  [[nodiscard]] Outcome try_put(Key key, Value value, Put kind);
  [[nodiscard]] Outcome try_remove(Key key);
  [[nodiscard]] bool replace(Leaf& leaf, unsigned slot, Key key, Value value);
  [[nodiscard]] bool add(Leaf& leaf, Key key, Value value, std::uint8_t fingerprint);
  void add_with_room(Leaf& leaf, Draft& draft, std::uint8_t fingerprint);
  [[nodiscard]] bool add_and_split(Leaf& leaf, Draft& draft, std::uint8_t fingerprint);
  [[nodiscard]] static std::span<Reservation> blocks_of(Draft& draft) noexcept {
    if constexpr (RecordStore<Keys>::has_blobs)
      return {&draft.block, 1};
    else
      return {};
  }
  void commit(std::span<Reservation> blocks, std::atomic<std::uint64_t>& word, std::uint64_t value);
  void publish_split(const Reservation& leaf, std::span<Reservation> blob,
                     std::atomic<std::uint64_t>& word, std::uint64_t value);
  void unlink_empty(Key key);
  [[nodiscard]] bool try_unlink(Key key, Leaf& leaf);

  // Reading several records (scan.cpp).
  struct Snapshot;
  void take(const Leaf& leaf, Snapshot& snapshot) const noexcept;
  void sort(Snapshot& snapshot) const noexcept;
  void append(const Snapshot& snapshot, Key bound, bool past_bound, std::size_t count,
              RecordWords& last, Scan& out) const;
  void search_group(std::span<const Key> keys, std::span<ValueOut> values,
                    std::span<Outcome> outcomes) const;

  [[nodiscard]] Result<void> check_leaf(const Leaf& leaf, const Key* low, const Key* high) const;

  Pool& pool_;
  Heap& heap_;
  const unsigned threads_;
  const bool publishes_;  ///< leaves; not as the public code
  mutable Epochs epochs_;
  RecordStore<Keys> records_;
  mutable LeafLocks locks_;
  Leaf* const first_;
  InnerTree<Keys> inner_;
  mutable pm::AdaptiveElision elision_;
};

template <class Keys>
template <typename LbTree<Keys>::Purpose purpose>
[[gnu::always_inline]] inline auto LbTree<Keys>::enter(Key key) const -> Entered {
  for (pm::Backoff backoff;; backoff.wait()) {
    const Entered at = inner_.find(key, [this](void* found) {
      auto* const leaf = static_cast<Leaf*>(found);
      if constexpr (purpose == Purpose::write)
        leaf->prefetch_for_write();
      else
        leaf->prefetch_once();
      pm::VersionLock& lock = lock_of(leaf);
      return Entered{leaf, &lock, lock.peek()};
    });
    if (!pm::VersionLock::is_locked(at.word)) return at;
  }
}

template <class Keys>
template <class Stable>
[[gnu::always_inline]] inline int LbTree<Keys>::search(const Leaf& leaf, Key key,
                                                       std::uint8_t fingerprint, Stable&& stable,
                                                       RecordWords& found) const noexcept {
  for (std::uint32_t left = leaf.candidates(fingerprint); left != 0; left &= left - 1) {
    const int slot = std::countr_zero(left);
    found = leaf.record[static_cast<unsigned>(slot)].load();
    if (records_.matches(found, key, stable)) return slot;
  }
  return no_slot;
}

}  // namespace perdure
