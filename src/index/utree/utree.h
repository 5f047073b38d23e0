// UTree: a B+-tree in DRAM, leaves and all, over a singly linked list on media with one node per
// record. Source: Chen, Lu, Yang, Wang, Shu, "uTree: a Persistent B+-Tree with Low Tail Latency",
// PVLDB 13(12), 2020; see design.md for every deviation.
//
// On media: the root block leads to a node without a record, each node to the next (node.h);
// nothing else is needed to recover. Numbered invariants: node.h L1-L3, leaf.h D1-D3,
// inner_tree.h N1-N5, and
//
// T1  the chain of leaves is the order of the inner tree; its entries, one after the other, are the
//     nodes of the list in order.
// T2  the keys of a leaf lie within the bounds the inner tree gives it.
// T3  only the first leaf may be empty. It never goes.
// T4  the link to a node is changed under the lock of the leaf that holds the node before it; where
//     that is none, under the first leaf's. So whoever inserts or removes holds the lock of the
//     leaf that covers the key, and, where the key is the lowest of it, of the leaf before.
// T5  nobody waits for a leaf while holding another: the second is only tried, and on failure both
//     are released.
// T6  the list is changed first, and durably; the leaf follows under the same lock. So what a
// reader
//     finds in a leaf is durable, and nobody acts on what may be lost.
// T7  memory that a thread may still read is freed only after a grace period.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "core/result.h"
#include "index/common/index_root.h"
#include "index/common/record_store.h"
#include "index/inner_tree/inner_tree.h"
#include "index/inner_tree/node_arena.h"
#include "index/registry.h"
#include "index/utree/leaf.h"
#include "index/utree/node.h"
#include "index/writable_index.h"
#include "pm/pm.h"
#include "pool/epoch.h"
#include "pool/pool.h"

namespace perdure {

/// Opens the private parts to tests.
template <class Keys>
class UTreePeer;

template <class Keys>
class UTree final : public WritableIndex<UTree<Keys>, Keys> {
 public:
  using Key = typename Keys::Key;
  using Value = typename Keys::Value;
  using ValueOut = typename Keys::ValueOut;
  using Record = typename Keys::Record;
  using Scan = typename Keys::Scan;
  using Leaf = utree::Leaf;
  using ListNode = utree::ListNode;

  static constexpr IndexRootKind root_kind{"utree", 1, Keys::kind};

  /// An empty list, one root. Errors: exists, out_of_space, usage.
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
  friend class UTreePeer<Keys>;
  enum class Purpose : std::uint8_t { read, write };
  using Draft = typename RecordStore<Keys>::Draft;

  /// A leaf, and its lock's word from a moment when the leaf covered the key.
  struct Entered {
    Leaf* leaf = nullptr;
    std::uint64_t word = 0;
  };
  /// The node whose link leads to a position, and the leaf before, where its lock guards the link.
  struct Predecessor {
    ListNode* node = nullptr;
    Leaf* leaf = nullptr;
  };

  UTree(const IndexPlace& place, std::uint64_t head);

  [[nodiscard]] ListNode* node_at(std::uint64_t offset) const noexcept {
    return pool_.at<ListNode>(offset);
  }
  [[nodiscard]] RecordWords words_of(const Leaf& leaf, unsigned i) const noexcept {
    return node_at(leaf.node(i))->record.load();
  }
  [[nodiscard]] Leaf* new_leaf() { return new (leaves_.allocate(sizeof(Leaf))) Leaf; }

  template <Purpose purpose>
  [[nodiscard]] Entered enter(Key key) const;
  /// Locks the leaf that covers `key`.
  [[nodiscard]] Leaf& lock_leaf(Key key) const;
  template <class Stable>
  [[nodiscard]] LeafPosition search(const Leaf& leaf, Key key, Stable&& stable) const noexcept {
    const auto key_of = [this](const utree::Entry& entry) {
      return records_.key_of(node_at(entry.node)->record.load());
    };
    return leaf.search(RecordStore<Keys>::key_word(key), key, key_of, stable);
  }
  /// Finds the record of `key`; the caller is pinned. False: absent.
  [[nodiscard]] bool find_pinned(Key key, RecordWords& found) const;

  // Changing the list (change.cpp). The caller holds the leaf's lock and is pinned.
  [[nodiscard]] Outcome try_put(Key key, Value value, Put kind);
  [[nodiscard]] Outcome try_remove(Key key);
  [[nodiscard]] bool hold_predecessor(const Leaf& leaf, Key key, unsigned rank, Predecessor& out);
  static void release(const Predecessor& before) noexcept {
    if (before.leaf != nullptr) before.leaf->lock.unlock_unchanged();
  }
  [[nodiscard]] bool replace(ListNode& node, Key key, Value value);
  [[nodiscard]] bool add(Leaf& leaf, unsigned rank, ListNode& before, Key key, Value value);
  void add_entry(Leaf& leaf, unsigned rank, utree::Entry entry);
  void drop(Leaf& leaf, unsigned rank, const Predecessor& before, Key key);

  // Reading several records (scan.cpp).
  struct Snapshot;
  void append(const Snapshot& snapshot, Key bound, bool past_bound, std::size_t count,
              RecordWords& last, Scan& out) const;
  void search_group(std::span<const Key> keys, std::span<ValueOut> values,
                    std::span<Outcome> outcomes) const;

  // The list as a whole (build.cpp, recover.cpp). No other thread runs.
  class ListBuilder;
  [[nodiscard]] Result<std::vector<std::uint64_t>> walk() const;
  /// Makes leaves and inner nodes for the nodes at `offsets`, in list order.
  /// `visit(i, offset, words)`, a Result<void>, is called once for each with its record, by several
  /// threads.
  template <class Visit>
  [[nodiscard]] Result<void> plant(std::span<const std::uint64_t> offsets, Visit&& visit);
  [[nodiscard]] Result<void> recover_list();

  [[nodiscard]] Result<void> check_leaf(const Leaf& leaf, const Key* low, const Key* high,
                                        std::uint64_t& expected) const;

  Pool& pool_;
  Heap& heap_;
  const unsigned threads_;
  const unsigned leaf_entries_;
  ListNode* const head_;
  mutable Epochs epochs_;
  RecordStore<Keys> records_;
  NodeArena leaves_;
  Leaf* const first_;
  InnerTree<Keys> inner_;
};

template <class Keys>
template <typename UTree<Keys>::Purpose purpose>
auto UTree<Keys>::enter(Key key) const -> Entered {
  for (pm::Backoff backoff;; backoff.wait()) {
    const Entered at = inner_.find(key, [](void* found) {
      auto* const leaf = static_cast<Leaf*>(found);
      if constexpr (purpose == Purpose::write)
        leaf->prefetch_for_write();
      else
        leaf->prefetch_once();
      return Entered{leaf, leaf->lock.peek()};
    });
    if (!pm::VersionLock::is_locked(at.word) && !pm::VersionLock::is_obsolete(at.word)) return at;
  }
}

}  // namespace perdure
