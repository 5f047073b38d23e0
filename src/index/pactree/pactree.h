// PacTree: a list of data nodes on media, and over it a durable trie that learns of their splits
// and merges from a log. Source: Kim, Krishnan, Fu, Kashyap, Min, "PACTree: A High Performance
// Persistent Range Index Using PAC Guidelines", SOSP 2021; see design.md for every deviation.
//
// On media: the root block leads to the first data node, the trie's root and the log. Numbered
// invariants: node.h L1-L10, order_cache.h O1-O3, trie_node.h K1-K4, search_layer.h S1-S6,
// smo_log.h G1-G5, and
//
// T1  a key belongs to the last node of the list whose anchor is not above it.
// T2  when the log is empty, the trie leads to every node of the list but the first, in order, and
//     to nothing else.
// T3  a search begins wherever the trie says, and goes along the list to the node of T1: to the
//     left by `prev` from a node that is obsolete or begins above the key, else to the right. So
//     only its length depends on the trie.
// T4  a change is durable before the node's lock is released, so nobody acts on what may be lost.
// T5  a merged node is retired when its log entry is cleared; memory that a thread may still read
//     is freed only after a grace period.
// T6  the log is replayed under `replaying_`: by the worker thread, or, without one, by the thread
//     whose change it holds.
#pragma once

#include <bit>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/result.h"
#include "index/common/index_root.h"
#include "index/common/record_store.h"
#include "index/pactree/node.h"
#include "index/pactree/order_cache.h"
#include "index/pactree/search_layer.h"
#include "index/pactree/smo_log.h"
#include "index/registry.h"
#include "index/writable_index.h"
#include "pm/background_thread.h"
#include "pm/pm.h"
#include "pool/epoch.h"
#include "pool/pool.h"

namespace perdure {

/// Opens the private parts to tests.
template <class Keys>
class PacTreePeer;

template <class Keys>
class PacTree final : public WritableIndex<PacTree<Keys>, Keys> {
 public:
  using Key = typename Keys::Key;
  using Value = typename Keys::Value;
  using ValueOut = typename Keys::ValueOut;
  using Record = typename Keys::Record;
  using Scan = typename Keys::Scan;
  using DataNode = pactree::DataNode;

  static constexpr IndexRootKind root_kind{"pactree", 1, Keys::kind};

  /// An empty index: one data node, a trie's root, a log. Errors: exists, out_of_space, usage.
  [[nodiscard]] static MadeIndex<Keys> create(const IndexPlace& place);
  /// From the pool alone. Errors: not_found, foreign, newer, corrupt.
  [[nodiscard]] static MadeIndex<Keys> recover(const IndexPlace& place);
  ~PacTree() override;

  Outcome put(Key key, Value value, Put kind);
  Outcome remove(Key key) override;
  Outcome lookup(Key key, ValueOut& value) override;
  std::size_t scan(Key from, std::size_t count, Scan& out) override;
  Result<void> bulk_load(std::span<const Record> records) override;

  [[nodiscard]] std::uint64_t size() const override;
  [[nodiscard]] Result<void> check_invariants() const override;
  [[nodiscard]] std::uint64_t dram_bytes() const override;
  void quiesce() override { settle(); }

 private:
  friend class PacTreePeer<Keys>;
  enum class Purpose : std::uint8_t { read, scan, write };
  using Draft = typename RecordStore<Keys>::Draft;

  /// A node, and its lock's word from a moment when the key belonged to it.
  struct Entered {
    DataNode* node = nullptr;
    std::uint64_t word = 0;
  };

  /// A key as the bytes that the trie branches by.
  class Path {
   public:
    explicit Path(std::uint64_t key) noexcept : word_(__builtin_bswap64(key)) {}
    explicit Path(std::string_view key) noexcept : text_(key) {}
    [[nodiscard]] std::string_view text() const noexcept {
      if constexpr (Keys::kind == KeyKind::bytes)
        return text_;
      else
        return {reinterpret_cast<const char*>(&word_), sizeof word_};
    }

   private:
    std::uint64_t word_ = 0;
    std::string_view text_;
  };

  PacTree(const IndexPlace& place, const IndexRoot& root);

  [[nodiscard]] DataNode* node_at(std::uint64_t offset) const noexcept {
    return pool_.at<DataNode>(offset);
  }
  [[nodiscard]] std::uint64_t offset_of(const DataNode* node) const noexcept {
    return pool_.offset_of(node);
  }
  [[nodiscard]] DataNode* next_of(const DataNode& node) const noexcept {
    const std::uint64_t next = node.next.load(std::memory_order_acquire);
    return next == null_offset ? nullptr : node_at(next);
  }
  [[nodiscard]] Key anchor_of(const DataNode& node) const noexcept {
    return records_.key_of(node.anchor.load());
  }
  /// The anchor is not above the key.
  [[nodiscard]] bool begins_at_or_before(const DataNode& node, Key key,
                                         std::uint64_t word) const noexcept {
    const std::uint64_t low = node.anchor.key.load(std::memory_order_acquire);
    if (low != word || !RecordStore<Keys>::has_blobs) return low <= word;
    return anchor_of(node) <= key;
  }
  /// The anchors of a node and of the next one are in order (L5).
  [[nodiscard]] bool ascends(const DataNode& node, RecordWords anchor,
                             RecordWords next) const noexcept {
    return records_.less(anchor, next) || (&node == first_ && !records_.less(next, anchor));
  }
  [[nodiscard]] std::size_t bytes_of_node() const noexcept { return pactree::node_bytes(entries_); }
  [[nodiscard]] std::uint64_t full() const noexcept { return pactree::all_slots(entries_); }

  template <Purpose purpose>
  [[nodiscard]] Entered enter(Key key, std::uint64_t hash) const;
  /// A node whose lock this thread holds, and the key's record in it.
  struct Locked {
    DataNode* node = nullptr;
    unsigned slot = pactree::no_slot;
    RecordWords found;
  };
  /// The node that `key` belongs to, locked, and where it holds the key.
  [[nodiscard]] Locked lock_node(Key key, std::uint64_t hash) const;

  // Changing (change.cpp). The caller holds the node's lock, if it names one, and is pinned.
  [[nodiscard]] Outcome try_put(Key key, Value value, Put kind);
  [[nodiscard]] Outcome try_remove(Key key);
  [[nodiscard]] bool replace(DataNode& node, unsigned slot, Key key, Value value);
  [[nodiscard]] Outcome add_record(DataNode& node, Key key, Value value, std::uint64_t hash);
  void add(DataNode& node, Draft& draft, std::uint64_t hash);
  /// How a full node is to be divided.
  struct Division;
  void divide(const DataNode& node, Key key, Division& out) const;
  [[nodiscard]] DataNode* split(DataNode& node, Key key);
  void fill_right(const Division& division, DataNode& right) const;
  [[nodiscard]] std::uint64_t take_entry(std::uint64_t entry);

  void prefetch_for_scan(const DataNode& node) const noexcept;
  /// Records of a node in the order of their keys, as they were at one version.
  struct InOrder {
    std::array<RecordWords, pactree::max_entries> words;
    unsigned count;
  };
  using Slots = std::array<std::uint8_t, pactree::max_entries>;
  [[nodiscard]] bool read_in_order(const Entered& at, std::size_t most, InOrder& out);
  static void rank(const DataNode& node, std::uint64_t commit, Slots& slots) noexcept;
  void settle_ties(InOrder& records, Slots& slots) const;

  // Merging (merge.cpp). The caller is pinned.
  [[nodiscard]] bool is_sparse(const DataNode& node) const noexcept {
    return node.count() <= entries_ / 4;
  }
  [[nodiscard]] bool fit(const DataNode& left, const DataNode& right) const noexcept;
  void merge_around(Key key, std::uint64_t hash);
  [[nodiscard]] bool merge_next(DataNode& left, const DataNode* expected);
  [[nodiscard]] bool merge(DataNode& left, DataNode& right);

  // The log (replay.cpp).
  /// Lets the search layer learn of a change: by the worker, else at once.
  void announce();
  /// Replays the log. The caller is pinned and holds `replaying_`.
  void replay_locked() const;
  /// Empties the log as far as there is room, and frees what is retired. No operation runs.
  void settle() const;
  /// Replays what waits in the log, also where the worker would: what was merged is free only then.
  void replay_now() const;

  struct Snapshot;

  // All of it (build.cpp, recover.cpp, check.cpp). No operation runs.
  class ListBuilder;
  [[nodiscard]] bool take_in_empty_nodes();
  [[nodiscard]] bool could_be_node(std::uint64_t offset) const noexcept {
    return pool_.contains(offset, bytes_of_node()) && offset % alignof(DataNode) == 0;
  }
  /// The trie's path leads to this anchor (S5).
  [[nodiscard]] bool leads_to(std::string_view path, bool ends, RecordWords anchor) const;
  [[nodiscard]] Result<std::vector<std::uint64_t>> walk() const;
  [[nodiscard]] Result<void> recover_list(std::span<const std::uint64_t> nodes);
  [[nodiscard]] Result<void> recover_node(DataNode& node, const DataNode* next);
  [[nodiscard]] Result<void> recover_trie(std::span<const std::uint64_t> nodes);
  [[nodiscard]] Result<void> check_node(const DataNode& node, const DataNode* previous) const;
  void start_worker();

  Pool& pool_;
  Heap& heap_;
  const unsigned threads_;
  const unsigned entries_;
  mutable Epochs epochs_;
  RecordStore<Keys> records_;
  DataNode* const first_;
  pactree::OrderCache orders_;
  mutable pactree::SearchLayer trie_;
  mutable pactree::SmoLog log_;
  mutable pm::VersionLock replaying_;
  const bool wants_worker_;
  const bool scans_whole_;  ///< not as the public code
  std::atomic<std::uint32_t> announced_{0};
  pm::BackgroundThread worker_;
};

template <class Keys>
template <typename PacTree<Keys>::Purpose purpose>
auto PacTree<Keys>::enter(Key key, std::uint64_t hash) const -> Entered {
  const Path path(key);
  const std::uint64_t word = RecordStore<Keys>::key_word(key);
  const std::uint64_t begin = trie_.find(path.text(), purpose == Purpose::scan);
  DataNode* node = begin == null_offset ? first_ : node_at(begin);
  for (;;) {
    if constexpr (purpose == Purpose::write)
      pactree::prefetch_for_write(*node, hash, entries_);
    else if constexpr (purpose == Purpose::scan)
      prefetch_for_scan(*node);
    else
      pactree::prefetch(*node, hash, entries_);
    const std::uint64_t seen = node->lock.read_begin();
    if (pm::VersionLock::is_obsolete(seen) || !begins_at_or_before(*node, key, word)) {
      node = node_at(node->prev.load(std::memory_order_acquire));
      continue;
    }
    if (word >= node->high.load(std::memory_order_acquire))
      if (DataNode* const next = next_of(*node);
          next != nullptr && begins_at_or_before(*next, key, word)) {
        node = next;
        continue;
      }
    if (node->lock.validate(seen)) return {node, seen};
  }
}

}  // namespace perdure
