// FpTree: inner nodes in DRAM over a list of fingerprinted leaves on persistent memory.
// Oukid, Lasperas, Nica, Willhalm, Lehner: "FPTree: A Hybrid SCM-DRAM Persistent and Concurrent
// B-Tree for Storage Class Memory", SIGMOD 2016. Layout and invariants: leaf.h. Reasons and
// deviations from the paper: design.md.
//
// F1  a leaf is in the inner tree exactly when it is in the list, in the same order, but for the
//     moment in which the holder of its lock, or of its left neighbour's, adds or removes it.
// F2  every key of a leaf lies within the leaf's bounds in the inner tree.
// F3  a reader believes what it read in a leaf only if the leaf was unlocked, at one version,
//     before and after; or within one hardware transaction. So it never returns what is not
//     durable (L7).
#pragma once

#include <memory>
#include <optional>

#include "index/fptree/leaf_list.h"
#include "index/inner_tree/inner_tree.h"
#include "index/registry.h"
#include "index/writable_index.h"
#include "pool/epoch.h"

namespace perdure::fptree {

inline constexpr std::uint32_t layout_version = 1;

template <class Keys>
class FpTree final : public WritableIndex<FpTree<Keys>, Keys> {
 public:
  using Key = typename Keys::Key;
  using Value = typename Keys::Value;
  using ValueOut = typename Keys::ValueOut;
  using Record = typename Keys::Record;
  using Scan = typename Keys::Scan;

  /// Errors: out_of_space, exists.
  [[nodiscard]] static MadeIndex<Keys> create(const IndexPlace& place);
  /// Errors: not_found, foreign, newer, corrupt.
  [[nodiscard]] static MadeIndex<Keys> recover(const IndexPlace& place);

  Outcome put(Key key, Value value, Put kind);
  Outcome remove(Key key) override;
  Outcome lookup(Key key, ValueOut& value) override;
  std::size_t scan(Key from, std::size_t count, Scan& out) override;
  Result<void> bulk_load(std::span<const Record> records) override;
  void lookup_batch(std::span<const Key> keys, std::span<ValueOut> values,
                    std::span<Outcome> outcomes) override;

  [[nodiscard]] std::uint64_t size() const override { return list_.size(); }
  [[nodiscard]] Result<void> check_invariants() const override;
  [[nodiscard]] std::uint64_t dram_bytes() const override {
    return sizeof(*this) + tree_->dram_bytes();
  }
  void quiesce() override { epochs_->drain(); }

 private:
  using Tree = InnerTree<Keys>;

  /// A leaf being read, and the lock word its content must be validated against.
  struct Entered {
    Leaf* leaf;
    std::uint64_t version;
  };
  /// A leaf whose lock this thread holds, and the key's record in it.
  struct Locked {
    Leaf* leaf = nullptr;
    unsigned slot = no_slot;
    RecordWords found;
  };

  /// Attempts of a hardware transaction before the software path, as published.
  static constexpr unsigned elision_attempts = 256;

  FpTree(const IndexPlace& place, std::uint64_t head);
  void build(const std::vector<typename LeafList<Keys>::Entry>& leaves);

  [[nodiscard]] Outcome try_put(Key key, Value value, Put kind);
  [[nodiscard]] Outcome try_remove(Key key);
  /// The leaf that covers `key`, locked, and where it holds the key.
  [[nodiscard]] Locked lock_leaf(Key key, std::uint64_t hash);
  void prefetch_free_slot(const Leaf& leaf, std::uint64_t hash) const noexcept;
  void drop_leaf(Leaf& leaf, Key key);
  [[nodiscard]] bool find_record(Key key, std::uint64_t hash, RecordWords& words) const;
  void lookup_group(std::span<const Key> keys, std::span<ValueOut> values,
                    std::span<Outcome> outcomes);
  [[nodiscard]] Entered enter_for_scan(Key key) const;
  [[nodiscard]] Result<void> check_leaf(const Leaf& leaf, const Key* low, const Key* high,
                                        std::uint64_t& blocks) const;

  Pool& pool_;
  const unsigned threads_;
  const bool update_in_place_;
  const typename Tree::Options tree_options_;
  // Freed in reverse: the tree drains the epochs, which give blocks back to the pool's heap.
  const std::unique_ptr<Epochs> epochs_ = std::make_unique<Epochs>();
  RecordStore<Keys> store_;
  LeafList<Keys> list_;
  std::unique_ptr<Tree> tree_;
  mutable pm::AdaptiveElision elision_;
};

extern template class FpTree<IntegerKeys>;
extern template class FpTree<ByteKeys>;

}  // namespace perdure::fptree
