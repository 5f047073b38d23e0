// The inner nodes of an adaptive radix tree in DRAM: four sizes with one header.
// Source: Leis, Kemper, Neumann, "The Adaptive Radix Tree", ICDE 2013, section III.
//
//   byte 0              8       16       24     32
//        | version lock | shape | prefix | here | key bytes | children ...
//
//   kind   key bytes                       children
//   n4     8 (4 used), in no order         4, child i for key byte i
//   n16    16, in no order                 16
//   n48    256: 1 + the child's place      48, in no order; 0 is a free place
//   n256   none                            256, by byte
//
// N1  shape, prefix, here, key bytes and children change only under the lock; the kind never does.
// N2  `prefix` holds the first eight bytes of the path that all keys below share, the first byte on
//     top; shape has its whole length, which may be more (then a record below has the rest).
// N3  `here` is the record whose key ends after the prefix.
// N4  in n4 and n16 the first `count` places are in use.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <new>

#include "core/assert.h"
#include "pm/pm.h"

namespace perdure::art {

/// What a place leads to: nothing (0), a node, or a record (bit 0 set).
using Child = std::uint64_t;
inline constexpr Child no_child = 0;
inline constexpr Child record_bit = 1;
[[nodiscard]] constexpr bool is_record(Child child) noexcept { return (child & record_bit) != 0; }

enum class NodeKind : std::uint8_t { n4, n16, n48, n256 };

struct Node {
  static constexpr unsigned prefix_held = 8;  ///< bytes
  static constexpr unsigned no_byte = 256;

  /// Kind, number of children and length of the prefix, by value.
  struct Shape {
    std::uint64_t word = 0;

    [[nodiscard]] NodeKind kind() const noexcept { return static_cast<NodeKind>(word & 3); }
    [[nodiscard]] unsigned count() const noexcept { return word >> 8 & 0xffff; }
    [[nodiscard]] unsigned prefix_bytes() const noexcept {
      return static_cast<unsigned>(word >> 24);
    }
    [[nodiscard]] unsigned capacity() const noexcept { return capacities[word & 3]; }
    [[nodiscard]] unsigned key_words() const noexcept { return key_word_counts[word & 3]; }
    [[nodiscard]] bool is_full() const noexcept { return count() == capacity(); }
    [[nodiscard]] std::size_t node_bytes() const noexcept {
      return sizeof(Node) + sizeof(std::uint64_t) * (key_words() + capacity());
    }
  };

  pm::VersionLock lock;
  std::atomic<std::uint64_t> shape_word;
  std::atomic<std::uint64_t> prefix;
  std::atomic<Child> here;

  /// An empty node in memory of `bytes_of(kind)`.
  [[nodiscard]] static Node* make(void* memory, NodeKind kind) noexcept {
    Node* const node = new (memory) Node;
    const Shape shape{static_cast<std::uint64_t>(kind)};
    node->shape_word.store(shape.word, std::memory_order_relaxed);
    node->prefix.store(0, std::memory_order_relaxed);
    node->here.store(no_child, std::memory_order_relaxed);
    for (unsigned i = 0; i < shape.key_words() + shape.capacity(); ++i)
      new (node->words() + i) std::atomic<std::uint64_t>(0);
    return node;
  }
  [[nodiscard]] static std::size_t bytes_of(NodeKind kind) noexcept {
    return Shape{static_cast<std::uint64_t>(kind)}.node_bytes();
  }

  [[nodiscard]] Shape shape() const noexcept {
    return {shape_word.load(std::memory_order_acquire)};
  }

  // Reading: beside a writer the answer means something once the version was validated.

  /// The child below `byte`.
  [[nodiscard]] Child find(std::uint8_t byte) const noexcept {
    const Shape now = shape();
    const unsigned place = place_of(now, byte);
    return place == no_byte ? no_child : child(now, place);
  }

  /// The lowest byte from `least` on that has a child; no_byte if there is none.
  [[nodiscard]] unsigned next_byte(unsigned least) const noexcept {
    const Shape now = shape();
    unsigned lowest = no_byte;
    if (now.kind() == NodeKind::n4 || now.kind() == NodeKind::n16) {
      for (unsigned i = 0; i < now.count(); ++i)
        if (const unsigned byte = key_byte(i); byte >= least) lowest = std::min(lowest, byte);
      return lowest;
    }
    const bool by_byte = now.kind() == NodeKind::n256;
    for (unsigned byte = least; byte < no_byte && lowest == no_byte; ++byte)
      if (by_byte ? child(now, byte) != no_child : key_byte(byte) != 0) lowest = byte;
    return lowest;
  }

  /// Records and nodes directly below.
  [[nodiscard]] unsigned entries() const noexcept {
    return shape().count() + (here.load(std::memory_order_acquire) != no_child);
  }

  // Changing: under the lock, or before anybody else sees the node.

  void set_prefix(std::uint64_t first_bytes, unsigned length) noexcept {
    prefix.store(first_bytes, std::memory_order_release);
    set_shape(shape().count(), length);
  }

  /// Adds a child below a byte that has none. The node is not full.
  void insert(std::uint8_t byte, Child added) noexcept {
    const Shape now = shape();
    PERDURE_ASSERT(!now.is_full() && place_of(now, byte) == no_byte);
    unsigned place = now.count();
    switch (now.kind()) {
      case NodeKind::n4:
      case NodeKind::n16:
        set_key_byte(place, byte);
        break;
      case NodeKind::n48:
        for (place = 0; child(now, place) != no_child;) ++place;
        set_key_byte(byte, static_cast<std::uint8_t>(place + 1));
        break;
      case NodeKind::n256:
        place = byte;
        break;
    }
    set_child(now, place, added);
    set_shape(now.count() + 1, now.prefix_bytes());
  }

  /// Replaces the child below a byte that has one.
  void replace(std::uint8_t byte, Child by) noexcept {
    const Shape now = shape();
    const unsigned place = place_of(now, byte);
    PERDURE_ASSERT(place != no_byte);
    set_child(now, place, by);
  }

  /// Takes the child below `byte` out; there is one.
  void erase(std::uint8_t byte) noexcept {
    const Shape now = shape();
    const unsigned place = place_of(now, byte);
    PERDURE_ASSERT(place != no_byte);
    if (now.kind() == NodeKind::n48 || now.kind() == NodeKind::n256) {
      if (now.kind() == NodeKind::n48) set_key_byte(byte, 0);
      set_child(now, place, no_child);
    } else {
      const unsigned last = now.count() - 1;  // N4
      set_key_byte(place, key_byte(last));
      set_child(now, place, child(now, last));
      set_child(now, last, no_child);
    }
    set_shape(now.count() - 1, now.prefix_bytes());
  }

  /// Puts all of this node but the child below `without` into `into`, an empty one.
  void copy_to(Node& into, unsigned without = no_byte) const noexcept {
    for (unsigned byte = next_byte(0); byte < no_byte; byte = next_byte(byte + 1))
      if (byte != without)
        into.insert(static_cast<std::uint8_t>(byte), find(static_cast<std::uint8_t>(byte)));
    into.here.store(here.load(std::memory_order_relaxed), std::memory_order_relaxed);
    into.set_prefix(prefix.load(std::memory_order_relaxed), shape().prefix_bytes());
  }

 private:
  static constexpr std::array<std::uint16_t, 4> capacities{4, 16, 48, 256};
  static constexpr std::array<std::uint16_t, 4> key_word_counts{1, 2, 32, 0};

  Node() = default;

  [[nodiscard]] std::atomic<std::uint64_t>* words() noexcept {
    return reinterpret_cast<std::atomic<std::uint64_t>*>(this + 1);
  }
  [[nodiscard]] const std::atomic<std::uint64_t>* words() const noexcept {
    return reinterpret_cast<const std::atomic<std::uint64_t>*>(this + 1);
  }

  /// Where the child below `byte` is; no_byte if there is none.
  [[nodiscard]] unsigned place_of(Shape now, std::uint8_t byte) const noexcept {
    switch (now.kind()) {
      case NodeKind::n4:
      case NodeKind::n16: {
        // Of a node of four this reads into its children, which the count masks.
        const auto* const bytes = reinterpret_cast<const std::uint8_t*>(words());
        const std::uint32_t equal = pm::match_16(bytes, byte) & ((1U << now.count()) - 1);
        return equal == 0 ? no_byte : static_cast<unsigned>(std::countr_zero(equal));
      }
      case NodeKind::n48: {
        const unsigned place = key_byte(byte);
        return place == 0 ? no_byte : place - 1;
      }
      case NodeKind::n256:
        return child(now, byte) == no_child ? no_byte : byte;
    }
    return no_byte;
  }

  [[nodiscard]] std::uint8_t key_byte(unsigned i) const noexcept {
    return static_cast<std::uint8_t>(words()[i / 8].load(std::memory_order_acquire) >> i % 8 * 8);
  }
  void set_key_byte(unsigned i, std::uint8_t byte) noexcept {
    std::atomic<std::uint64_t>& word = words()[i / 8];
    const std::uint64_t kept =
        word.load(std::memory_order_relaxed) & ~(std::uint64_t{0xff} << i % 8 * 8);
    word.store(kept | std::uint64_t{byte} << i % 8 * 8, std::memory_order_release);
  }
  [[nodiscard]] Child child(Shape now, unsigned place) const noexcept {
    return words()[now.key_words() + place].load(std::memory_order_acquire);
  }
  // Release: a reader that sees the new word also sees the lock, and what the child leads to.
  void set_child(Shape now, unsigned place, Child child) noexcept {
    words()[now.key_words() + place].store(child, std::memory_order_release);
  }
  void set_shape(unsigned count, unsigned prefix_bytes) noexcept {
    const std::uint64_t kind = shape().word & 3;
    shape_word.store(kind | std::uint64_t{count} << 8 | std::uint64_t{prefix_bytes} << 24,
                     std::memory_order_release);
  }
};
static_assert(sizeof(Node) == 32);

}  // namespace perdure::art
