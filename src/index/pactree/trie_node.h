// Node of PacTree's search layer: an adaptive radix tree node on media. One writer, many readers.
// Source: Kim et al., SOSP 2021, section 4 (the durable trie); Leis et al., ICDE 2013 (its nodes).
//
//   byte 0       8      16           32
//        | shape | here | prefix[16] | key bytes | children ... |
//   shape: byte 0 kind, 1 count, 2 prefix bytes, 4-7 the key bytes of an n4
//
//   kind   key bytes                                children
//   n4     in `shape`, in no order                  4
//   n16    16, in no order                          16
//   n48    256: 1 + the child's place; 0 for none   48
//   n256   none                                     256, by byte
//
// K1  only `here` and the children change once a node is linked, each by one 8-byte store. Anything
//     else is a new node, and one store into the word that leads to it.
// K2  a child is nothing, a node, or a data node (bit 0 set). Taking one out leaves its key byte
//     with nothing below it; a copy of the node drops such bytes.
// K3  `here` is the data node whose anchor ends after the prefix.
// K4  in n4, n16 and n48 the first `count` places have a key byte.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <string_view>

#include "core/assert.h"
#include "pm/pm.h"

namespace perdure::pactree {

using Child = std::uint64_t;
inline constexpr Child no_child = 0;
inline constexpr Child data_bit = 1;
[[nodiscard]] constexpr bool is_data(Child child) noexcept { return (child & data_bit) != 0; }
/// The pool offset of what the child leads to.
[[nodiscard]] constexpr std::uint64_t offset_of(Child child) noexcept { return child & ~data_bit; }

enum class TrieKind : std::uint8_t { n4, n16, n48, n256 };

struct alignas(16) TrieNode {
  static constexpr unsigned prefix_held = 16;
  static constexpr unsigned no_place = 256;

  TrieKind kind;
  std::uint8_t count;  ///< of an n256: unused
  std::uint8_t prefix_bytes;
  std::uint8_t unused;
  std::array<std::uint8_t, 4> key4;
  std::atomic<Child> here;
  std::array<char, prefix_held> prefix;

  [[nodiscard]] static constexpr unsigned capacity(TrieKind kind) noexcept {
    return std::array<unsigned, 4>{4, 16, 48, 256}[static_cast<unsigned>(kind)];
  }
  [[nodiscard]] static constexpr unsigned key_bytes(TrieKind kind) noexcept {
    return std::array<unsigned, 4>{0, 16, 256, 0}[static_cast<unsigned>(kind)];
  }
  [[nodiscard]] static constexpr std::size_t bytes_of(TrieKind kind) noexcept {
    return 32 + key_bytes(kind) + sizeof(Child) * capacity(kind);
  }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_of(kind); }

  /// An empty node in memory of `bytes_of(kind)`.
  [[nodiscard]] static TrieNode* make(void* memory, TrieKind kind) noexcept {
    std::memset(memory, 0, bytes_of(kind));
    auto* const node = new (memory) TrieNode;
    node->kind = kind;
    return node;
  }

  [[nodiscard]] std::string_view prefix_text() const noexcept {
    return {prefix.data(), prefix_bytes};
  }
  void set_prefix(std::string_view text) noexcept {
    PERDURE_ASSERT(text.size() <= prefix_held);
    std::copy(text.begin(), text.end(), prefix.begin());
    prefix_bytes = static_cast<std::uint8_t>(text.size());
  }

  [[nodiscard]] std::atomic<Child>& place(unsigned i) noexcept {
    return const_cast<std::atomic<Child>*>(places())[i];
  }
  [[nodiscard]] Child child(unsigned i) const noexcept {
    return places()[i].load(std::memory_order_acquire);
  }

  /// Where the child below `byte` is, or would be; no_place if the node has no such key byte.
  [[nodiscard]] unsigned place_of(std::uint8_t byte) const noexcept {
    if (kind == TrieKind::n256) return byte;
    if (kind == TrieKind::n48) {
      const unsigned at = keys()[byte];
      return at == 0 ? no_place : at - 1;
    }
    for (unsigned i = 0; i < count; ++i)
      if (unsorted_keys()[i] == byte) return i;
    return no_place;
  }
  [[nodiscard]] Child find(std::uint8_t byte) const noexcept {
    const unsigned at = place_of(byte);
    return at == no_place ? no_child : child(at);
  }

  /// The child below the highest byte under `limit` (0 .. 256) that has one; `here` when none has.
  [[nodiscard]] Child below(unsigned limit) const noexcept {
    if (kind == TrieKind::n4 || kind == TrieKind::n16) {
      Child best = no_child;
      int highest = -1;
      for (unsigned i = 0; i < count; ++i) {
        const unsigned byte = unsorted_keys()[i];
        if (byte >= limit || static_cast<int>(byte) <= highest) continue;
        if (const Child found = child(i); found != no_child) {
          best = found;
          highest = static_cast<int>(byte);
        }
      }
      return highest >= 0 ? best : here.load(std::memory_order_acquire);
    }
    for (unsigned byte = limit; byte-- > 0;)
      if (const Child found = find(static_cast<std::uint8_t>(byte)); found != no_child)
        return found;
    return here.load(std::memory_order_acquire);
  }

  /// Calls `visit(byte, child)` in any order, in small nodes only; children may be null.
  template <class Visit>
  void each_unsorted(Visit&& visit) const {
    if (kind != TrieKind::n4 && kind != TrieKind::n16) return;
    for (unsigned i = 0; i < count; ++i) visit(unsorted_keys()[i], child(i));
  }

  /// How many children there are, `here` included.
  [[nodiscard]] unsigned children() const noexcept {
    unsigned found = here.load(std::memory_order_relaxed) != no_child;
    const unsigned places = kind == TrieKind::n256 ? 256U : count;
    for (unsigned i = 0; i < places; ++i) found += child(i) != no_child;
    return found;
  }

  /// Calls `visit(byte, child)` for what is there, in ascending order of bytes, `here` not
  /// included.
  template <class Visit>
  void each(Visit&& visit) const {
    const auto visit_if_there = [&](unsigned byte, const std::atomic<Child>& child) {
      const Child found = child.load(std::memory_order_acquire);
      if (found != no_child) visit(static_cast<std::uint8_t>(byte), found);
    };
    const std::atomic<Child>* const children = places();
    if (kind == TrieKind::n256) {
      for (unsigned byte = 0; byte < 256; ++byte) visit_if_there(byte, children[byte]);
    } else if (kind == TrieKind::n48) {
      for (unsigned first = 0; first < 256; first += sizeof(std::uint64_t)) {
        std::uint64_t places = 0;
        std::memcpy(&places, keys() + first, sizeof places);
        for (unsigned byte = first; places != 0; ++byte, places >>= 8)
          if (const unsigned place = places & 0xff; place != 0)
            visit_if_there(byte, children[place - 1]);
      }
    } else {
      const auto held = std::min<unsigned>(count, 16);  // on damaged media it is anything
      const std::uint8_t* const bytes = unsorted_keys();
      std::array<unsigned, 16> order;  // the byte, then its place
      for (unsigned i = 0; i < held; ++i) {
        const unsigned key = unsigned{bytes[i]} << 8 | i;
        unsigned at = i;
        for (; at > 0 && order[at - 1] > key; --at) order[at] = order[at - 1];
        order[at] = key;
      }
      for (unsigned i = 0; i < held; ++i) visit_if_there(order[i] >> 8, children[order[i] & 0xff]);
    }
  }

  // Filling, before the node is linked.

  /// Adds a child below a byte that has no place. There is room.
  void add(std::uint8_t byte, Child added) noexcept {
    unsigned at = byte;
    if (kind != TrieKind::n256) {
      PERDURE_ASSERT(count < capacity(kind) && place_of(byte) == no_place);
      at = count++;
      if (kind == TrieKind::n48)
        keys()[byte] = static_cast<std::uint8_t>(at + 1);
      else
        unsorted_keys()[at] = byte;
    }
    place(at).store(added, std::memory_order_relaxed);
  }

 private:
  TrieNode() = default;

  [[nodiscard]] const std::atomic<Child>* places() const noexcept {
    return reinterpret_cast<const std::atomic<Child>*>(keys() + key_bytes(kind));
  }
  [[nodiscard]] std::uint8_t* keys() noexcept { return reinterpret_cast<std::uint8_t*>(this + 1); }
  [[nodiscard]] const std::uint8_t* keys() const noexcept {
    return reinterpret_cast<const std::uint8_t*>(this + 1);
  }
  [[nodiscard]] std::uint8_t* unsorted_keys() noexcept {
    return kind == TrieKind::n4 ? key4.data() : keys();
  }
  [[nodiscard]] const std::uint8_t* unsorted_keys() const noexcept {
    return kind == TrieKind::n4 ? key4.data() : keys();
  }
};
static_assert(sizeof(TrieNode) == 32);
static_assert(offsetof(TrieNode, here) == 8, "`here` must be failure-atomic");
static_assert(TrieNode::bytes_of(TrieKind::n4) == 64);
static_assert(TrieNode::bytes_of(TrieKind::n16) == 176);
static_assert(TrieNode::bytes_of(TrieKind::n48) == 672);
static_assert(TrieNode::bytes_of(TrieKind::n256) == 2080);

}  // namespace perdure::pactree
