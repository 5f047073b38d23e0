// Pmse: the storage engine that the study `pmidio` measured (section 5), as it was: MongoDB's
// engine for persistent memory, github.com/pmem/pmse, without MongoDB. An index, a B+-tree of order
// 6 from keys to record numbers, and a record store, a hash table of lists from numbers to
// documents; each changes in a transaction of libpmemobj of its own.
//
// On media:
//   head      | buckets | root of the tree | records | last number | head of the first leaf |
//   buckets   words that lead to lists
//   record    | next | number | bytes | document |
//   node      | entries | is a leaf | key[5] | child[6] |     child of a leaf: numbers; the last:
//   next key       | bytes | text |
//
// Modes:
//   published  insert and remove are two transactions. A power cut between them leaves a record
//              that no key leads to (issue 160 of pmse): it takes room for ever.
//   mended     both in one transaction.
//
// M1  every key of the tree leads to a record of the store, and every record has a key; published:
//     but after a power cut.
// M2  keys of a node ascend; key i of an inner node is the least of child i + 1, or was.
//
// Differences: one reader-writer lock (MongoDB's collection locks); nodes are not joined, only
// freed once they are empty; the table has one bucket for 4 KiB of the pool instead of a fixed
// number.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "index/common/index_root.h"
#include "index/registry.h"
#include "index/writable_index.h"
#include "pm/pm.h"
#include "pool/pmdk_heap.h"
#include "pool/pmdk_transaction.h"
#include "pool/pool.h"

namespace perdure::engine::pmse {

inline constexpr IndexRootKind root_kind{"pmse", 1, KeyKind::bytes};
inline constexpr std::uint64_t length_bytes = sizeof(std::uint64_t);  ///< before a key's text
inline constexpr unsigned order = 6;  ///< children of a node at most

struct Node {
  std::uint32_t entries;
  std::uint32_t is_leaf;
  std::array<std::uint64_t, order - 1> key;  ///< offsets
  std::array<std::uint64_t, order>
      child;  ///< offsets; of a leaf: record numbers, and the next leaf
};
static_assert(sizeof(Node) == 96);

struct RecordNode {
  std::uint64_t next;
  std::uint64_t number;
  std::uint64_t bytes;
};
static_assert(sizeof(RecordNode) == 24);

struct Head {
  std::uint64_t buckets;  ///< offset of the table
  std::uint64_t bucket_count;
  std::uint64_t root;
  std::uint64_t first_leaf;
  std::uint64_t records;
  std::uint64_t last_number;
};

enum class Mode : std::uint8_t { published, mended };

class Pmse final : public WritableIndex<Pmse, ByteKeys> {
 public:
  template <Mode mode>
  [[nodiscard]] static MadeIndex<ByteKeys> create(const IndexPlace& place) {
    return create_as(mode, place);
  }
  template <Mode mode>
  [[nodiscard]] static MadeIndex<ByteKeys> recover(const IndexPlace& place) {
    return recover_as(mode, place);
  }

  Outcome put(std::string_view key, std::string_view value, Put kind);
  Outcome remove(std::string_view key) override;
  Outcome lookup(std::string_view key, std::string& value) override;
  std::size_t scan(std::string_view from, std::size_t count, BytesScan& out) override;
  /// Record by record. Power-cut states: any first part of the records.
  Result<void> bulk_load(std::span<const BytesRecord> records) override;
  [[nodiscard]] std::uint64_t size() const override;
  [[nodiscard]] Result<void> check_invariants() const override;
  [[nodiscard]] std::uint64_t dram_bytes() const override { return sizeof *this; }

 private:
  Pmse(Pool& pool, Mode mode, Head& head)
      : pool_(pool), heap_(static_cast<PmdkHeap&>(pool.heap())), head_(head), mode_(mode) {}
  [[nodiscard]] static MadeIndex<ByteKeys> create_as(Mode mode, const IndexPlace& place);
  [[nodiscard]] static MadeIndex<ByteKeys> recover_as(Mode mode, const IndexPlace& place);

  // The tree (tree.cpp).
  struct Step {
    Node* node;
    unsigned child;
  };
  [[nodiscard]] Node* node_at(std::uint64_t offset) const noexcept {
    return pool_.at<Node>(offset);
  }
  [[nodiscard]] std::string_view text_at(std::uint64_t offset) const noexcept;
  /// How many keys of the node are not greater (inner), or less (leaf), than `key`.
  [[nodiscard]] unsigned position(const Node& node, std::string_view key) const noexcept;
  [[nodiscard]] Node* descend(std::string_view key, std::vector<Step>* path) const;
  [[nodiscard]] bool find(std::string_view key, std::uint64_t& number) const;
  [[nodiscard]] bool add_key(PmdkTransaction& change, std::string_view key, std::uint64_t number);
  [[nodiscard]] bool add_child(PmdkTransaction& change, std::vector<Step>& path,
                               std::string_view key, std::uint64_t right);
  [[nodiscard]] bool take_key(PmdkTransaction& change, std::string_view key);
  [[nodiscard]] Node* leaf_before(const std::vector<Step>& path) const;
  [[nodiscard]] bool drop_leaf(PmdkTransaction& change, std::vector<Step>& path, const Node& leaf);
  [[nodiscard]] bool drop_child(PmdkTransaction& change, Node& node, unsigned at, bool is_root);
  [[nodiscard]] std::uint64_t make_key(PmdkTransaction& change, std::string_view key);
  [[nodiscard]] std::uint64_t make_node(PmdkTransaction& change, bool is_leaf);
  /// Moves the upper half of a full node, whose new entry is in its place already, to a new one.
  struct Full;
  [[nodiscard]] bool split(PmdkTransaction& change, Node& node, unsigned at, std::uint64_t key,
                           std::uint64_t child, std::uint64_t& right);

  // The record store (record_store.cpp).
  [[nodiscard]] std::uint64_t& bucket_of(std::uint64_t number) const noexcept;
  [[nodiscard]] RecordNode* record_at(std::uint64_t offset) const noexcept {
    return pool_.at<RecordNode>(offset);
  }
  [[nodiscard]] RecordNode* find_record(std::uint64_t number) const;
  [[nodiscard]] bool add_record(PmdkTransaction& change, std::string_view document,
                                std::uint64_t& number);
  [[nodiscard]] bool replace_record(PmdkTransaction& change, std::uint64_t number,
                                    std::string_view document);
  [[nodiscard]] bool take_record(PmdkTransaction& change, std::uint64_t number);

  [[nodiscard]] Outcome insert_both(std::string_view key, std::string_view value);
  [[nodiscard]] Error corrupt(const char* what, std::uint64_t offset) const;

  // Recovery (recover.cpp).
  [[nodiscard]] Result<void> mark_records();
  [[nodiscard]] Result<void> mark_tree(std::uint64_t offset, unsigned depth);

  Pool& pool_;
  PmdkHeap& heap_;
  Head& head_;
  const Mode mode_;
  mutable pm::SharedLock lock_;
};

/// By a call that the simulator sees: it may miss the assignment of a whole object.
template <class T>
void put_whole(T* to, const T& value) noexcept {
  std::memcpy(static_cast<void*>(to), &value, sizeof value);
}

/// Stores a field that the transaction has snapshotted, and flushes it.
template <class T>
void store(T& field, T value) noexcept {
  field = value;
  pm::flush(&field, sizeof field);
}

}  // namespace perdure::engine::pmse
