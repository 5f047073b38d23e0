// ChainedHash: a fixed table of buckets, each a singly linked chain of records. The worked example
// of docs/adding-an-index.md: the smallest index that is complete, concurrent and recovers.
//
// On media, all blocks from the pool's heap:
//   Root    | magic | buckets | table |
//   table   | head[0] | head[1] | ... | head[buckets-1] |        pool offsets, 0: empty chain
//   Node    | key | value | next |
//
// H1  a record exists <=> its node is reachable from the head of its key's bucket.
// H2  a node's key and next are durable before the word that makes it reachable is set.
// H3  a bucket's lock (DRAM, gone after a crash) is held from before a chain changes until that is
//     durable, so that no reader returns what a power cut could take back.
// H4  a node is freed only after a grace period, because readers walk chains without the lock.
//
// Costs: insert 2 flushed lines, 2 fences; update and remove 1 flushed line, 1 fence.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "index/registry.h"
#include "index/writable_index.h"
#include "pm/pm.h"
#include "pool/epoch.h"
#include "pool/pool.h"

namespace perdure {

class ChainedHash final : public WritableIndex<ChainedHash, IntegerKeys> {
 public:
  [[nodiscard]] static MadeIndex<IntegerKeys> create(const IndexPlace& place);
  [[nodiscard]] static MadeIndex<IntegerKeys> recover(const IndexPlace& place);
  /// Names for counterexamples. The root is of a node's size class and goes without.
  [[nodiscard]] static std::vector<MediaStruct> media(const IndexOptions& options);

  /// Insert, upsert and update (index/writable_index.h).
  Outcome put(std::uint64_t key, std::uint64_t value, Put kind);
  Outcome remove(std::uint64_t key) override;
  Outcome lookup(std::uint64_t key, std::uint64_t& value) override;
  std::size_t scan(std::uint64_t from, std::size_t count, IntegerScan& out) override;
  Result<void> bulk_load(std::span<const IntegerRecord> records) override;

  [[nodiscard]] std::uint64_t size() const override;
  [[nodiscard]] Result<void> check_invariants() const override;
  [[nodiscard]] std::uint64_t dram_bytes() const override;
  void quiesce() override { epochs_.drain(); }

 private:
  struct Root {
    std::uint64_t magic;
    std::uint64_t buckets;
    std::atomic<std::uint64_t> table;
  };
  struct Node {
    std::uint64_t key;
    std::atomic<std::uint64_t> value;
    std::atomic<std::uint64_t> next;
  };
  static_assert(sizeof(Root) == 24 && sizeof(Node) == 24);
  static_assert(offsetof(Node, value) % 8 == 0, "a value must be failure-atomic");
  using Word = std::atomic<std::uint64_t>;

  static constexpr std::uint64_t magic = 0x3148534148435650;  ///< "PVCHASH1"
  static constexpr std::size_t lock_count = 256;

  ChainedHash(Pool& pool, Root& root) : pool_(pool), root_(root), locks_(lock_count) {}

  [[nodiscard]] Word* table() const noexcept {
    return pool_.at<Word>(root_.table.load(std::memory_order_acquire));
  }
  [[nodiscard]] std::uint64_t bucket_of(std::uint64_t key) const noexcept;
  [[nodiscard]] Node* node_at(std::uint64_t offset) const noexcept {
    return offset == null_offset ? nullptr : pool_.at<Node>(offset);
  }
  /// The word that links to the node of `key`, or the chain's last, null one.
  [[nodiscard]] Word* find_link(std::uint64_t key) const noexcept;
  [[nodiscard]] Outcome add(Word& head, std::uint64_t key, std::uint64_t value);
  /// Runs `change` under the lock of `key`'s bucket.
  template <class Change>
  Outcome locked(std::uint64_t key, Change&& change);
  /// Calls `visit(bucket, offset, node)` for every node until it returns an error.
  template <class Visit>
  [[nodiscard]] Result<void> walk(Visit&& visit) const;
  [[nodiscard]] Result<void> mark_all() const;
  [[nodiscard]] bool reserve_records(std::span<const IntegerRecord> records, Word* heads,
                                     std::vector<Reservation>& blocks);

  Pool& pool_;
  Root& root_;
  mutable std::vector<pm::VersionLock> locks_;
  mutable Epochs epochs_;
};

}  // namespace perdure
