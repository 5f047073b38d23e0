// A node's trie taken apart, to be changed and made into new nodes: nodes are never changed.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <optional>

#include "index/hot/node.h"
#include "index/reference/arena_allocator.h"

namespace perdure::hot {

/// Holds one entry more than a node, until it is split.
class Trie {
 public:
  Trie() = default;
  explicit Trie(const Node& node) noexcept;
  /// Two entries under one branch.
  Trie(unsigned position, Entry zero, Entry one) noexcept;

  /// An entry without a branch.
  explicit Trie(Entry only) noexcept : entries_(1) {
    keys_[0] = 0;
    entry_[0] = only;
  }
  /// A branch at `position`, before all of theirs, with `zero` and `one` on its sides.
  [[nodiscard]] static Trie join(unsigned position, const Trie& zero, const Trie& one) noexcept;

  [[nodiscard]] unsigned entries() const noexcept { return entries_; }
  [[nodiscard]] unsigned bits() const noexcept { return bits_; }
  [[nodiscard]] unsigned position(unsigned bit) const noexcept { return positions_[bit]; }
  [[nodiscard]] std::uint32_t key(unsigned i) const noexcept { return keys_[i]; }
  [[nodiscard]] Entry entry(unsigned i) const noexcept { return entry_[i]; }
  /// The entry that is alone on the other side of the branch above entry `i`, or none.
  [[nodiscard]] std::optional<unsigned> lone_sibling(unsigned i) const noexcept;
  /// The position of the branch between entries `i` and `i + 1`.
  [[nodiscard]] unsigned branch_between(unsigned i) const noexcept {
    return positions_[bits_ - static_cast<unsigned>(std::bit_width(keys_[i] ^ keys_[i + 1]))];
  }
  void replace(unsigned i, Entry entry) noexcept { entry_[i] = entry; }
  /// `entry`, of a record of `key`, with its hint, if the others have one.
  [[nodiscard]] Entry hinted(Entry entry, std::uint64_t key) const noexcept {
    return hint_byte_ == no_hints ? entry : with_hint(entry, key, hint_byte_);
  }

  /// Puts a branch at `position` above all that shares the path of entry `near` up to there, with
  /// `entry` on its other side: on the side of ones, or of zeros.
  void insert(unsigned position, unsigned near, bool one, Entry entry) noexcept;
  /// Takes entry `i` out, and the branch above it.
  void erase(unsigned i) noexcept;
  /// Makes two of it, at the branch at its root.
  void split(Trie& zero, Trie& one) const noexcept;
  /// The key of a record's entry.
  using KeyOf = std::uint64_t (*)(Entry entry) noexcept;
  /// A new node, not yet linked; `key_of`: of integers, whose nodes have hints. No memory:
  /// std::bad_alloc.
  [[nodiscard]] Node* make_node(StripedArena& arena, KeyOf key_of = nullptr);
  /// The entry for a parent: a new node, or the only entry.
  [[nodiscard]] Entry make_entry(StripedArena& arena, KeyOf key_of = nullptr) {
    return entries_ == 1 ? entry_[0] : entry_of(make_node(arena, key_of));
  }

 private:
  [[nodiscard]] std::uint32_t value_of_bit(unsigned bit) const noexcept {
    return std::uint32_t{1} << (bits_ - 1 - bit);
  }
  /// The bits above `value`.
  [[nodiscard]] static std::uint32_t above(std::uint32_t value) noexcept {
    return ~(value | (value - 1));
  }
  /// The entries on the other side of the branch above entry `i`, and the branch.
  struct Siblings {
    std::uint32_t branch;
    unsigned first;
    unsigned end;
  };
  [[nodiscard]] Siblings siblings_of(unsigned i) const noexcept;
  void drop_unused_bits() noexcept;
  void give_hints(KeyOf key_of) noexcept;

  static constexpr unsigned no_hints = ~0U;

  unsigned entries_ = 0;
  unsigned bits_ = 0;
  unsigned hint_byte_ = no_hints;  ///< at which the entries' hints begin, if all have one
  std::uint64_t lead_ = 0;         ///< of them
  unsigned height_ = 0;  ///< of the node; 0 until it is counted, which touches all nodes below
  std::array<std::uint16_t, max_entries> positions_;  ///< ascending
  std::array<std::uint32_t, max_entries + 1> keys_;   ///< sparse; bit i at 1 << (bits_ - 1 - i)
  std::array<Entry, max_entries + 1> entry_;
};

/// What `Trie(node)`, `insert` and `make_node` come to, in one go, for the most frequent case: a
/// record more in a node of records with a single mask. `range`: the entries on the other side of
/// the branch. The caller has locked the node. None: it is not that case. No memory:
/// std::bad_alloc. Of integers, the entry has its hint.
[[nodiscard]] Entry extend(StripedArena& arena, const Node& node, unsigned position,
                           Node::Range range, bool one, Entry entry);

}  // namespace perdure::hot
