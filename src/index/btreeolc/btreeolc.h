// BTreeOlc: a B+-tree with optimistic lock coupling, in DRAM.
// Source: Leis, Haubenschild, Neumann, "Optimistic Lock Coupling: A Scalable and Efficient
// General-Purpose Synchronization Method", IEEE Data Eng. Bull. 42(1), 2019. See design.md.
//
// Numbered invariants: sorted_leaf.h S1-S3, word_leaf.h W1-W2, inner_tree.h N1-N5, and
//
// T1  the chain from the first leaf passes every leaf of the inner tree once, in the same order.
// T2  the keys of a leaf lie within the bounds the inner tree gives it.
// T3  only the first leaf may be empty. It never goes.
// T4  the link to a leaf is changed under the lock of the leaf that holds it. Nobody waits for a
//     leaf while holding another: the second is only tried, and on failure both are released.
// T5  memory that a thread may still read is freed only after a grace period.
// T6  an entry's word is the value of an integer, or the address of a byte string's record.
#pragma once

#include <span>
#include <type_traits>

#include "core/result.h"
#include "index/common/key_prefix.h"
#include "index/inner_tree/inner_tree.h"
#include "index/leaf/word_leaf.h"
#include "index/reference/arena_allocator.h"
#include "index/reference/text_record.h"
#include "index/registry.h"
#include "index/writable_index.h"
#include "pool/epoch.h"

namespace perdure {

template <class Keys>
class BTreeOlc final : public WritableIndex<BTreeOlc<Keys>, Keys> {
 public:
  using Key = typename Keys::Key;
  using Value = typename Keys::Value;
  using ValueOut = typename Keys::ValueOut;
  using Record = typename Keys::Record;
  using Scan = typename Keys::Scan;
  using Leaf = WordLeaf<15>;
  using Entry = WordEntry;

  /// No memory for the first nodes: std::bad_alloc.
  explicit BTreeOlc(const IndexPlace& place);

  Outcome put(Key key, Value value, Put kind);
  Outcome remove(Key key) override;
  Outcome lookup(Key key, ValueOut& value) override;
  std::size_t scan(Key from, std::size_t count, Scan& out) override;
  Result<void> bulk_load(std::span<const Record> records) override;

  [[nodiscard]] std::uint64_t size() const override;
  [[nodiscard]] Result<void> check_invariants() const override;
  [[nodiscard]] std::uint64_t dram_bytes() const override {
    return sizeof *this + arena_.dram_bytes() + inner_.dram_bytes();
  }
  void quiesce() override { epochs_.drain(); }

 private:
  static constexpr bool is_bytes = Keys::kind == KeyKind::bytes;

  /// A leaf, and its lock's word from a moment when the leaf covered the key.
  struct Entered {
    Leaf* leaf = nullptr;
    std::uint64_t word = 0;
  };

  [[nodiscard]] static std::uint64_t key_word(Key key) noexcept {
    if constexpr (is_bytes)
      return key_prefix(key);
    else
      return key;
  }
  [[nodiscard]] static TextRecord* text_of(const Entry& entry) noexcept {
    return reinterpret_cast<TextRecord*>(entry.word);
  }
  [[nodiscard]] static Key key_of(const Entry& entry) noexcept {
    if constexpr (is_bytes)
      return text_of(entry)->key();
    else
      return entry.key;
  }
  [[nodiscard]] static Value value_of(const Entry& entry) noexcept {
    if constexpr (is_bytes)
      return text_of(entry)->value();
    else
      return entry.word;
  }

  [[nodiscard]] Entered enter(Key key) const;
  [[nodiscard]] Leaf& lock_leaf(Key key) const;
  template <class Stable>
  [[nodiscard]] static LeafPosition search(const Leaf& leaf, Key key, Stable&& stable) noexcept {
    return leaf.search(key_word(key), key, key_of, stable);
  }

  [[nodiscard]] Leaf* new_leaf() { return new (arena_.allocate(sizeof(Leaf))) Leaf; }
  [[nodiscard]] Entry make_entry(Key key, Value value);
  /// Splits a full leaf into an empty one and adds an entry at `rank`.
  void split(Leaf& leaf, Leaf& right, unsigned rank, Entry added);
  [[nodiscard]] bool try_unlink(Key key, Leaf& leaf);
  void retire(const void* object, std::size_t bytes);
  void free_texts(const Leaf& leaf) noexcept;
  [[nodiscard]] Result<void> check_leaf(const Leaf& leaf, const Key* low, const Key* high) const;

  StripedArena arena_;
  mutable Epochs epochs_;  // declared after the arena: it goes first
  Leaf* const first_;
  InnerTree<Keys> inner_;
};

}  // namespace perdure
