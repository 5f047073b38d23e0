// The nodes of Masstree's B+-trees: border nodes, which hold entries, and interior nodes above
// them. Source: Mao, Kohler, Morris, "Cache Craftiness for Fast Multicore Key-Value Storage",
// EuroSys 2012, section 4.
//
//   border    lock | parent | level 0 | lowest | permutation | next | prev | reused |
//             slices [15] | words [15] | lengths
//   interior  lock | parent | level | count | keys [15] | children [16]
//
// A slice is eight bytes of a key as a number that sorts as they do. Entries ascend by slice and
// length: 0 .. 8 bytes of the key lie in the slice, `longer` stands for more. A word is an
// integer's value, the address of a byte string's record, or the root of the next layer (link_bit).
//
// B1  the permutation says which places are in use, and in which order. An entry comes and goes by
//     one store of it.
// B2  a place that was in use before is filled only under a lock whose release moves the version:
//     a reader may still hold the permutation in which it was in use. `reused` has these places.
// B3  a border node holds slices from `lowest`, which never changes, up to the `lowest` of its
//     successor; a slice's entries are all in one node.
// B4  `prev` and the successor's `prev` change under the lock of the left one of both nodes;
//     `parent` under the lock of the parent.
// B5  unused keys of an interior node are 2^64 - 1; child i covers [key i-1, key i), and key i-1 is
//     the `lowest` of the leftmost border node below child i.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/assert.h"
#include "pm/pm.h"

namespace perdure::masstree {

inline constexpr unsigned width = 15;
inline constexpr std::uint8_t longer = 9;  ///< the length of what goes on after its slice
inline constexpr std::uint64_t link_bit = 1;

/// The places in use, in order, then the free ones: sixteen nibbles, the count lowest.
class Permutation {
 public:
  Permutation() = default;
  explicit constexpr Permutation(std::uint64_t word) noexcept : word_(word) {}

  [[nodiscard]] static constexpr Permutation empty() noexcept {
    return Permutation(0xedcba98765432100);
  }
  /// The first `count` places are in use, in their order.
  [[nodiscard]] static constexpr Permutation first(unsigned count) noexcept {
    return Permutation(empty().word() | count);
  }
  [[nodiscard]] constexpr std::uint64_t word() const noexcept { return word_; }
  [[nodiscard]] constexpr unsigned count() const noexcept { return word_ & 15; }
  /// The place at rank i; from `count` on a free one.
  [[nodiscard]] constexpr unsigned place(unsigned i) const noexcept {
    PERDURE_ASSERT(i < width);
    return word_ >> (4 + 4 * i) & 15;
  }

  /// Puts the first free place at rank i and returns it.
  [[gnu::always_inline]] constexpr unsigned insert(unsigned i) noexcept {
    const unsigned free = place(count());
    // Ranks i .. count - 1 move up by one; without a loop, whose length would be unpredictable.
    const std::uint64_t moved = below(count()) & ~below(i);
    word_ = (word_ & ~(moved | at_rank(15, count()))) | (word_ & moved) << 4 | at_rank(free, i);
    ++word_;
    return free;
  }
  /// Frees the place at rank i and returns it.
  constexpr unsigned erase(unsigned i) noexcept {
    const unsigned freed = place(i);
    const std::uint64_t kept = below(i);
    word_ = (word_ & kept) | ((word_ & ~kept) >> 4 & ~kept) | at_rank(freed, width - 1);
    --word_;
    return freed;
  }
  /// Frees the places from rank `kept` on; they stay in their order.
  constexpr void keep_first(unsigned kept) noexcept {
    PERDURE_ASSERT(kept <= count());
    word_ = (word_ & ~std::uint64_t{15}) | kept;
  }

 private:
  /// The bits of the count and of ranks below i.
  [[nodiscard]] static constexpr std::uint64_t below(unsigned i) noexcept {
    return (std::uint64_t{1} << (4 + 4 * i)) - 1;
  }
  [[nodiscard]] static constexpr std::uint64_t at_rank(std::uint64_t place, unsigned i) noexcept {
    return place << (4 + 4 * i);
  }

  std::uint64_t word_ = 0;
};

struct Interior;

/// What both kinds begin with.
struct alignas(pm::cache_line_bytes) Node {
  explicit Node(unsigned height) noexcept : level(height) {}

  pm::VersionLock lock;
  std::atomic<Interior*> parent{nullptr};  ///< null: the root of its layer
  const std::uint64_t level;               ///< 0: a border node
};

struct Entry {
  std::uint64_t slice;
  std::uint8_t length;
  std::uint64_t word;
};

/// True when an entry (slice, length) sorts before another one.
[[nodiscard]] constexpr bool before(std::uint64_t slice, std::uint8_t length,
                                    std::uint64_t other_slice, std::uint8_t other_length) noexcept {
  return slice < other_slice || (slice == other_slice && length < other_length);
}

struct Border : Node {
  explicit Border(std::uint64_t lowest_slice) noexcept : Node(0), lowest(lowest_slice) {}

  const std::uint64_t lowest;
  std::atomic<std::uint64_t> permutation{Permutation::empty().word()};
  std::atomic<Border*> next{nullptr};
  std::atomic<Border*> prev{nullptr};
  std::uint64_t reused = 0;  ///< bit i: place i was in use before; under the lock
  std::array<std::atomic<std::uint64_t>, width> slices{};
  std::array<std::atomic<std::uint64_t>, width> words{};
  std::array<std::atomic<std::uint8_t>, 16> lengths{};

  [[nodiscard]] Permutation order() const noexcept {
    return Permutation(permutation.load(std::memory_order_acquire));
  }
  [[nodiscard]] Entry entry(unsigned place) const noexcept {
    return {slices[place].load(std::memory_order_acquire),
            lengths[place].load(std::memory_order_acquire),
            words[place].load(std::memory_order_acquire)};
  }
  /// The rank of the first entry not before (slice, length); `found` when it is equal.
  [[nodiscard]] unsigned rank(Permutation now, std::uint64_t slice, std::uint8_t length,
                              bool& found) const noexcept {
    found = false;
    unsigned i = pm::count_below_in_order(slices.data(), now.word(), slice);
    for (; i < now.count(); ++i) {
      const unsigned place = now.place(i);
      const std::uint64_t here = slices[place].load(std::memory_order_acquire);
      if (here < slice) continue;  // it changed meanwhile
      const std::uint8_t bytes = lengths[place].load(std::memory_order_acquire);
      if (before(here, bytes, slice, length)) continue;
      found = here == slice && bytes == length;
      break;
    }
    return i;
  }

  // Under the lock.

  /// Fills a free place and puts it at rank i. True: it was in use before (B2).
  [[gnu::always_inline]] bool insert(unsigned i, const Entry& entry) noexcept {
    Permutation now = order();
    PERDURE_ASSERT(now.count() < width);
    const unsigned place = now.insert(i);
    slices[place].store(entry.slice, std::memory_order_release);
    lengths[place].store(entry.length, std::memory_order_release);
    words[place].store(entry.word, std::memory_order_release);
    permutation.store(now.word(), std::memory_order_release);
    return (reused >> place & 1) != 0;
  }
  /// Fills a node that nobody else sees yet and that is empty.
  void fill(std::span<const Entry> entries) noexcept {
    for (unsigned i = 0; i < entries.size(); ++i) {
      slices[i].store(entries[i].slice, std::memory_order_relaxed);
      lengths[i].store(entries[i].length, std::memory_order_relaxed);
      words[i].store(entries[i].word, std::memory_order_relaxed);
    }
    permutation.store(Permutation::first(static_cast<unsigned>(entries.size())).word(),
                      std::memory_order_release);
  }
  /// Takes the entries from rank `kept` on out.
  void keep_first(unsigned kept) noexcept {
    Permutation now = order();
    for (unsigned i = kept; i < now.count(); ++i) reused |= std::uint64_t{1} << now.place(i);
    now.keep_first(kept);
    permutation.store(now.word(), std::memory_order_release);
  }
  void erase(unsigned i) noexcept {
    Permutation now = order();
    reused |= std::uint64_t{1} << now.erase(i);
    permutation.store(now.word(), std::memory_order_release);
  }
};

struct Interior : Node {
  explicit Interior(std::uint64_t height) noexcept : Node(static_cast<unsigned>(height)) {
    for (auto& key : keys) key.store(unused_key, std::memory_order_relaxed);
  }

  static constexpr std::uint64_t unused_key = ~std::uint64_t{0};

  std::atomic<std::uint64_t> count{0};  ///< of keys
  std::array<std::atomic<std::uint64_t>, width> keys{};
  std::array<std::atomic<Node*>, width + 1> children{};

  [[nodiscard]] unsigned key_count() const noexcept {
    return static_cast<unsigned>(count.load(std::memory_order_acquire));
  }
  [[nodiscard]] bool is_full() const noexcept { return key_count() == width; }
  /// The child that covers a slice: a hint until the version was validated. But a child at the time
  /// when the count is read, or later, since children are stored before the count that has them.
  [[nodiscard]] Node* child_for(std::uint64_t slice) const noexcept {
    const unsigned rank = pm::count_up_to<width>(keys.data(), slice);
    return child(std::min(rank, key_count()));
  }
  /// True when `child_for_wide`, which does not ask at every level, may be called.
  [[nodiscard]] static bool is_wide() noexcept {
    return pm::detail::simd_level == pm::SimdLevel::avx512;
  }
  [[nodiscard]] Node* child_for_wide(std::uint64_t slice) const noexcept {
    const unsigned rank = pm::detail::count_16_avx512<(1U << width) - 1>(keys.data(), slice);
    return child(std::min(rank, key_count()));
  }
  [[nodiscard]] Node* child(unsigned i) const noexcept {
    return children[i].load(std::memory_order_acquire);
  }
  [[nodiscard]] std::uint64_t key(unsigned i) const noexcept {
    return keys[i].load(std::memory_order_acquire);
  }

  // Under the lock, or before anybody else sees the node.

  [[nodiscard]] unsigned place_of(const Node* node) const noexcept {
    unsigned i = 0;
    while (child(i) != node) ++i;
    return i;
  }
  void set_child(unsigned i, Node* node) noexcept {
    children[i].store(node, std::memory_order_release);
    node->parent.store(this, std::memory_order_release);
  }
  /// Adds `node` right of child i, with `separator` between.
  void insert(unsigned i, std::uint64_t separator, Node* node) noexcept {
    const unsigned n = key_count();
    PERDURE_ASSERT(n < width && i <= n);
    for (unsigned k = n; k > i; --k) {
      keys[k].store(key(k - 1), std::memory_order_release);
      children[k + 1].store(child(k), std::memory_order_release);
    }
    keys[i].store(separator, std::memory_order_release);
    set_child(i + 1, node);
    count.store(n + 1, std::memory_order_release);
  }
  /// Takes child i out, i > 0, and the separator left of it.
  void erase(unsigned i) noexcept {
    const unsigned n = key_count();
    PERDURE_ASSERT(i > 0 && i <= n);
    for (unsigned k = i; k < n; ++k) {
      keys[k - 1].store(key(k), std::memory_order_release);
      children[k].store(child(k + 1), std::memory_order_release);
    }
    keys[n - 1].store(unused_key, std::memory_order_release);
    count.store(n - 1, std::memory_order_release);
  }
  /// Moves the children right of the middle key to `right`, a new node; returns that key.
  [[nodiscard]] std::uint64_t split(Interior& right) noexcept {
    constexpr unsigned middle = width / 2;
    const std::uint64_t between = key(middle);
    right.set_child(0, child(middle + 1));
    for (unsigned k = middle + 1; k < width; ++k)
      right.insert(k - middle - 1, key(k), child(k + 1));
    for (unsigned k = middle; k < width; ++k) keys[k].store(unused_key, std::memory_order_release);
    count.store(middle, std::memory_order_release);
    return between;
  }
};

}  // namespace perdure::masstree
