// The inner node of ROART on media, and the entry that leads from a node to what is below it.
// Source: Ma et al., FAST 2021, sections 3 and 4; Leis et al., ICDE 2013 (the nodes).
//
//   byte 0              8       12     13       16         32
//        | lock word    | level | kind | unused | held[16] | entries ...
//
//   kind   entries                         bytes, in a block of
//   n4     4, in no order                  64
//   n20    20, in no order                 192
//   n256   257, each in its symbol's place 2088, 2304
//
//   entry: bit 63      54             5      2    0
//          | symbol   | pool offset  | zero | kind |       0: no entry
//
// A path is a key after one zero byte, which is the root's. Its symbol at a position is 0 after
// the end of the key, else 1 + the byte there: so a key comes before those that it begins.
//
// N1  all records below a node share the path's first `level` bytes. `level` and `held` (the last
//     of those bytes, the very last at the end) never change; a child has a greater level, by at
//     most 16. So what a node's prefix is follows from the level above it, and no change above or
//     below ever leaves it wrong.
// N2  an entry stands for the symbols at `level` from its own up to the next entry's. One has
//     symbol 0. No two have the same.
// N3  key byte, kind and offset of an entry are one word: adding, replacing and taking out an entry
//     is one 8-byte store, under the node's lock. How many there are is not stored.
// N4  what an entry leads to is durable before the entry. A leaf array takes records with any of
//     the entry's symbols; a node only those with its own, the others have no place yet.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>

#include "core/assert.h"
#include "index/common/key_path.h"
#include "index/roart/opening_lock.h"
#include "pm/pm.h"

namespace perdure::roart {

/// What lies at the end of an entry.
enum class Kind : std::uint8_t { none, leaf_array, n4, n20, n256 };

inline constexpr unsigned last_symbol = 256;

/// The symbol of a key's path at a position.
template <class Keys>
[[nodiscard, gnu::always_inline]] inline unsigned symbol_at(const KeyPath<Keys>& path,
                                                            unsigned position) noexcept {
  if (position == 0) return 1;
  return position <= path.size() ? path[position - 1] + 1U : 0;
}

/// The first position from `begin` on where two paths differ. The keys differ.
template <class Keys>
[[nodiscard]] unsigned fork_of(const KeyPath<Keys>& a, const KeyPath<Keys>& b,
                               unsigned begin) noexcept {
  unsigned at = begin;
  while (symbol_at(a, at) == symbol_at(b, at)) ++at;
  return at;
}

/// True when neither path ends, nor differs from the other, before position `end`.
template <class Keys>
[[nodiscard]] bool same_up_to(const KeyPath<Keys>& a, const KeyPath<Keys>& b,
                              unsigned end) noexcept {
  if (end > std::min(a.size(), b.size()) + 1) return false;
  for (unsigned at = 1; at < end; at += 8) {
    const unsigned bytes = std::min(end - at, 8U);
    if ((a.word(at - 1) ^ b.word(at - 1)) >> (64 - 8 * bytes) != 0) return false;
  }
  return true;
}

/// An entry by value.
class Entry {
 public:
  static constexpr unsigned symbol_shift = 55;
  static constexpr std::uint64_t kind_mask = 7;
  static constexpr std::uint64_t offset_mask = (std::uint64_t{1} << symbol_shift) - 64;

  Entry() = default;
  explicit Entry(std::uint64_t word) noexcept : word_(word) {}
  Entry(unsigned symbol, Kind kind, std::uint64_t offset) noexcept
      : word_(std::uint64_t{symbol} << symbol_shift | offset | static_cast<std::uint64_t>(kind)) {
    PERDURE_ASSERT((offset & ~offset_mask) == 0);
  }

  [[nodiscard]] std::uint64_t word() const noexcept { return word_; }
  [[nodiscard]] explicit operator bool() const noexcept { return word_ != 0; }
  [[nodiscard]] unsigned symbol() const noexcept {
    return static_cast<unsigned>(word_ >> symbol_shift);
  }
  [[nodiscard]] Kind kind() const noexcept { return static_cast<Kind>(word_ & kind_mask); }
  [[nodiscard]] bool is_array() const noexcept { return kind() == Kind::leaf_array; }
  [[nodiscard]] std::uint64_t offset() const noexcept { return word_ & offset_mask; }
  /// The same child from another symbol on.
  [[nodiscard]] Entry from(unsigned symbol) const noexcept { return {symbol, kind(), offset()}; }
  [[nodiscard]] bool same_child(Entry other) const noexcept { return offset() == other.offset(); }

  /// The least word of an entry with this symbol.
  [[nodiscard]] static std::uint64_t first_word(unsigned symbol) noexcept {
    return std::uint64_t{symbol} << symbol_shift | 1;
  }
  /// The greatest word of an entry with this symbol or a lower one.
  [[nodiscard]] static std::uint64_t last_word(unsigned symbol) noexcept {
    return std::uint64_t{symbol} << symbol_shift | ((std::uint64_t{1} << symbol_shift) - 1);
  }
  friend bool operator==(Entry, Entry) = default;

 private:
  std::uint64_t word_ = 0;
};

struct Node {
  static constexpr unsigned held_bytes = 16;

  OpeningLock lock;
  std::uint32_t level;
  Kind kind;
  std::array<std::uint8_t, 3> unused;
  std::array<std::uint64_t, held_bytes / 8> held;  ///< the first byte lowest

  [[nodiscard]] static constexpr bool is_kind(Kind kind) noexcept {
    return kind == Kind::n4 || kind == Kind::n20 || kind == Kind::n256;
  }
  [[nodiscard]] static constexpr unsigned capacity(Kind kind) noexcept {
    return kind == Kind::n4 ? 4 : kind == Kind::n20 ? 20 : last_symbol + 1;
  }
  [[nodiscard]] static constexpr std::size_t bytes_of(Kind kind) noexcept {
    return 32 + sizeof(std::uint64_t) * capacity(kind);
  }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_of(kind); }

  /// A node without entries in memory of `bytes_of(kind)`; `path` is that of a record below.
  template <class Keys>
  [[nodiscard]] static Node* make(void* memory, Kind kind, unsigned level,
                                  const KeyPath<Keys>& path, std::uint16_t opening) noexcept {
    Node* const node = make(memory, kind, level, opening);
    for (unsigned i = 0; i < held_bytes && i < level; ++i) {
      const unsigned at = held_bytes - 1 - i;
      node->held[at / 8] |= std::uint64_t{symbol_at(path, level - 1 - i) - 1} << at % 8 * 8;
    }
    return node;
  }
  [[nodiscard]] static Node* make(void* memory, Kind kind, const Node& as,
                                  std::uint16_t opening) noexcept {
    Node* const node = make(memory, kind, as.level, opening);
    for (unsigned i = 0; i < node->held.size(); ++i) node->held[i] = as.held[i];
    return node;
  }

  /// The byte of the path at a position among the last 16 above the level.
  [[nodiscard]] std::uint8_t byte_at(unsigned position) const noexcept {
    const unsigned at = held_bytes + position - level;
    return static_cast<std::uint8_t>(held[at / 8] >> at % 8 * 8);
  }
  [[nodiscard]] unsigned symbol_of(unsigned position) const noexcept {
    return byte_at(position) + 1U;
  }
  /// Where a path leaves that of this node, which hangs below level `above`; `level` if nowhere.
  template <class Keys>
  [[nodiscard]] unsigned fork_from(const KeyPath<Keys>& path, unsigned above) const noexcept {
    unsigned at = above;
    while (at < level && symbol_at(path, at) == symbol_of(at)) ++at;
    return at;
  }

  [[nodiscard]] std::atomic<std::uint64_t>& word(unsigned i) noexcept {
    return reinterpret_cast<std::atomic<std::uint64_t>*>(this + 1)[i];
  }
  [[nodiscard]] Entry entry(unsigned i) const noexcept {
    return Entry(const_cast<Node*>(this)->word(i).load(std::memory_order_acquire));
  }

  // Reading, without a lock.

  /// The entry that stands for `symbol`. Entries are several words, and a change may store two of
  /// them, always the one with the higher symbol first. So a second look that finds the same entry
  /// proves that there was a moment when it stood for the symbol.
  [[nodiscard]] Entry find(unsigned symbol) const noexcept {
    Entry found;
    if (kind == Kind::n256 && (found = entry(symbol))) return found;
    for (found = look(symbol);;) {
      const Entry again = look(symbol);
      if (again == found) return found;
      found = again;
    }
  }

  /// The entry with the lowest symbol from `least` on; none if there is none.
  [[nodiscard]] Entry next(unsigned least) const noexcept {
    const Kind mine = kind;
    if (mine == Kind::n256) {
      Entry lowest;
      for (unsigned i = least; i <= last_symbol && !lowest; ++i) lowest = entry(i);
      return lowest;
    }
    constexpr std::uint64_t none = ~std::uint64_t{0};
    const std::uint64_t first = Entry::first_word(least);
    std::uint64_t lowest = none;
    for (unsigned i = 0; i < capacity(mine); ++i)
      if (const std::uint64_t each = entry(i).word(); each >= first && each < lowest) lowest = each;
    return lowest == none ? Entry() : Entry(lowest);
  }

  [[nodiscard]] unsigned count() const noexcept {
    unsigned entries = 0;
    for (unsigned i = 0; i < capacity(kind); ++i) entries += entry(i) ? 1 : 0;
    return entries;
  }

  // Changing: under the lock, or before anything leads to the node.

  /// The word of an entry that is there.
  [[nodiscard]] std::atomic<std::uint64_t>& word_of(Entry present) noexcept {
    if (kind == Kind::n256) return word(present.symbol());
    unsigned i = 0;
    while (entry(i) != present) ++i;
    PERDURE_ASSERT(i < capacity(kind));
    return word(i);
  }
  /// A word for an entry with a symbol that no entry has; null: the node is full.
  [[nodiscard]] std::atomic<std::uint64_t>* free_word(unsigned symbol) noexcept {
    if (kind == Kind::n256) return &word(symbol);
    for (unsigned i = 0; i < capacity(kind); ++i)
      if (!entry(i)) return &word(i);
    return nullptr;
  }
  void add(Entry added) noexcept {
    std::atomic<std::uint64_t>* const place = free_word(added.symbol());
    PERDURE_ASSERT(place != nullptr && place->load(std::memory_order_relaxed) == 0);
    place->store(added.word(), std::memory_order_relaxed);
  }

 private:
  explicit Node(std::uint16_t opening) noexcept : lock(opening) {}

  [[nodiscard]] static Node* make(void* memory, Kind kind, unsigned level,
                                  std::uint16_t opening) noexcept {
    Node* const node = new (memory) Node(opening);
    node->level = level;
    node->kind = kind;
    node->unused = {};
    for (std::uint64_t& word : node->held) word = 0;
    for (unsigned i = 0; i < capacity(kind); ++i)
      new (&node->word(i)) std::atomic<std::uint64_t>(0);
    return node;
  }

  [[nodiscard]] Entry look(unsigned symbol) const noexcept {
    const Kind mine = kind;
    if (mine == Kind::n256) {
      unsigned i = symbol;
      Entry found = entry(i);
      while (!found && i > 0) found = entry(--i);
      return found;
    }
    const std::uint64_t last = Entry::last_word(symbol);
    std::uint64_t found = 0;
    for (unsigned i = 0; i < capacity(mine); ++i)
      if (const std::uint64_t each = entry(i).word(); each <= last && each > found) found = each;
    return Entry(found);
  }
};
static_assert(sizeof(Node) == 32, "entries begin at byte 32");
static_assert(Node::bytes_of(Kind::n4) == 64 && Node::bytes_of(Kind::n20) == 192);

}  // namespace perdure::roart
