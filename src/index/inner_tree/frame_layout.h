// A node of InnerTree for integer keys: separators are 32-bit words in a frame of the node's own,
// so that 25 of them and what a search needs besides fill two cache lines.
//
//   byte 0      8      16      24                   128          336   344
//        | lock | base | shape | word [25] | unused | child [26] | low | exact |
//
//   F1  a separator is base + (word << shift), exactly; words from `count` on are 2^32 - 1, which
//       no separator has.
//   F2  base <= low <= each key that leads to this node.
//   F3  where no frame holds all separators (keys in clusters far from each other), the node is
//       exact: they are 64-bit words in a block of its own, unused ones 2^64 - 1. A node keeps that
//       block as long as it lives, so a reader that arrives late finds it.
//
// A frame fits because whoever makes a separator may choose any between two keys, and takes the
// roundest (`roundest_between`).
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "core/assert.h"
#include "index/inner_tree/inner_node.h"
#include "index/inner_tree/node_arena.h"
#include "pm/pm.h"
#include "pm/simd_lines.h"

namespace perdure {

/// The key with the most low zeros in (below, up_to]; below < up_to.
[[nodiscard]] constexpr std::uint64_t roundest_between(std::uint64_t below,
                                                       std::uint64_t up_to) noexcept {
  const auto first_difference = static_cast<unsigned>(std::bit_width(below ^ up_to)) - 1;
  return up_to >> first_difference << first_difference;
}

class FrameLayout {
 public:
  using Probe = InnerProbe<IntegerKeys>;
  static constexpr bool has_texts = false;
  static constexpr unsigned most_children = 26;
  static constexpr unsigned most_entries = most_children - 1;

  FrameLayout(unsigned entries, NodeArena& arena) noexcept
      : entries_(std::min(entries, most_entries)), arena_(&arena) {}

  [[nodiscard]] unsigned entries() const noexcept { return entries_; }
  [[nodiscard]] static std::size_t node_bytes() noexcept { return sizeof(Node); }
  [[nodiscard]] static unsigned count(const InnerNode& node) noexcept {
    return of(node).shape.load(std::memory_order_acquire) & count_mask;
  }
  [[nodiscard]] static InnerSlot slot(const InnerNode& node, unsigned i) noexcept {
    return {separator(of(node), of(node).shape.load(std::memory_order_acquire), i), 0};
  }
  [[nodiscard]] static void* child(const InnerNode& node, unsigned i) noexcept {
    return reinterpret_cast<void*>(of(node).child[i].load(std::memory_order_acquire));
  }
  [[nodiscard]] static InnerNode* inner_child(const InnerNode& node, unsigned i) noexcept {
    return static_cast<InnerNode*>(child(node, i));
  }
  // For InnerTree's search on a machine with AVX-512.
  [[nodiscard]] static bool is_wide() noexcept {
    return pm::detail::simd_level == pm::SimdLevel::avx512;
  }
  [[nodiscard, gnu::always_inline]] static unsigned wide_rank(const InnerNode& node,
                                                              std::uint64_t key) noexcept {
    return rank_of(of(node), key, [](const Node& at, std::uint32_t limit) {
      return pm::detail::count_words32_avx512<words_before>(&at, limit);
    });
  }
  [[nodiscard]] static const InnerNode* wide_child(const InnerNode& node, unsigned rank) noexcept {
    return inner_child(node, rank);
  }
  /// The lines of separators are read at once; the children are fetched with them, so that the one
  /// which is chosen is under way by then.
  static void prefetch_wide(const InnerNode* node) noexcept {
    pm::prefetch_range(&of(*node).child, sizeof of(*node).child);
  }

  /// The lines that a search reads, and the children.
  static void prefetch(const void* node) noexcept { pm::prefetch_range(node, sizeof(Node)); }

  /// Sets `rank` to the number of separators <= the key.
  template <class Stable>
  [[nodiscard, gnu::always_inline]] bool search(const InnerNode& node, const Probe& probe,
                                                unsigned& rank, Stable&&) const noexcept {
    rank = rank_of(of(node), probe.word, [](const Node& at, std::uint32_t limit) {
      return pm::count_words32_up_to<words_before>(&at, limit);
    });
    return true;
  }

  /// F1 - F3. No other thread runs.
  [[nodiscard]] static bool is_sound(const InnerNode& node) noexcept {
    const Node& at = of(node);
    const std::uint64_t shape = at.shape.load(std::memory_order_acquire);
    if (low_of(at) < at.base.load(std::memory_order_acquire)) return false;
    for (unsigned i = 0; i < most_children; ++i) {
      const bool used = i < (shape & count_mask);
      if (used && separator(at, shape, i) < low_of(at)) return false;
      if (is_exact(shape)) {
        if (used != (exact_of(at)[i].load(std::memory_order_acquire) != unused_exact)) return false;
      } else if (used != (at.word[i].load(std::memory_order_acquire) != unused_word)) {
        return false;
      }
    }
    return true;
  }

  // Below: the caller holds the node's lock, or the node is not yet visible.

  /// Makes the node hold one child and no separator; no key below `low` leads to it.
  void clear(InnerNode& node, void* only_child, std::uint64_t low) const noexcept {
    auto* const at = new (&node) Node;
    set_child(*at, 0, only_child);
    encode(*at, Separators{}, 0, low);
  }

  /// Adds `slot` at position i and `child` right of it.
  void insert_at(InnerNode& node, unsigned i, InnerSlot slot, void* child) const {
    Node& at = of(node);
    const std::uint64_t shape = at.shape.load(std::memory_order_relaxed);
    const auto n = static_cast<unsigned>(shape & count_mask);
    PERDURE_ASSERT(n < entries_ && i <= n);
    for (unsigned k = n; k > i; --k) set_child(at, k + 1, this->child(node, k));
    set_child(at, i + 1, child);
    if (const std::uint64_t word = word_in_frame(at, shape, slot.key); word < unused_word) {
      for (unsigned k = n; k > i; --k)
        store(at.word[k], at.word[k - 1].load(std::memory_order_relaxed));
      store(at.word[i], static_cast<std::uint32_t>(word));
      store(at.shape, shape + 1);
      return;
    }
    Separators all = decode(at, shape);
    std::copy_backward(all.begin() + i, all.begin() + n, all.begin() + n + 1);
    all[i] = slot.key;
    encode(at, all, n + 1, low_of(at));
  }

  /// Adds `child` as the first one, with `slot` between it and the present first. No key below that
  /// of `low` leads to it.
  void insert_first(InnerNode& node, void* child, InnerSlot slot, InnerSlot low) const {
    Node& at = of(node);
    const std::uint64_t shape = at.shape.load(std::memory_order_relaxed);
    const auto n = static_cast<unsigned>(shape & count_mask);
    encode(at, decode(at, shape), n, low.key);
    insert_at(node, 0, slot, this->child(node, 0));
    set_child(at, 0, child);
  }

  /// Takes child i out and the separator beside it (its left one, where it has one), which is
  /// returned.
  InnerSlot remove_at(InnerNode& node, unsigned i) const noexcept {
    Node& at = of(node);
    const std::uint64_t shape = at.shape.load(std::memory_order_relaxed);
    const auto n = static_cast<unsigned>(shape & count_mask);
    PERDURE_ASSERT(n > 0 && i <= n);
    const unsigned gone = i == 0 ? 0 : i - 1;
    const InnerSlot slot = this->slot(node, gone);
    for (unsigned k = i; k < n; ++k) set_child(at, k, child(node, k + 1));
    for (unsigned k = gone + 1; k < n; ++k) {
      store(at.word[k - 1], at.word[k].load(std::memory_order_relaxed));
      if (is_exact(shape))
        store(exact_of(at)[k - 1], exact_of(at)[k].load(std::memory_order_relaxed));
    }
    shrink(node, n - 1);
    return slot;
  }

  /// Drops the separators from `to` on and the children right of them.
  void shrink(InnerNode& node, unsigned to) const noexcept {
    Node& at = of(node);
    const std::uint64_t shape = at.shape.load(std::memory_order_relaxed);
    for (auto k = to; k < (shape & count_mask); ++k) {
      store(at.word[k], unused_word);
      if (is_exact(shape)) store(exact_of(at)[k], unused_exact);
    }
    store(at.shape, (shape & ~count_mask) | to);
  }

  /// Moves the upper half of a full node to `right`; returns the separator between.
  InnerSlot split(InnerNode& node, InnerNode& right) const {
    Node& at = of(node);
    const std::uint64_t shape = at.shape.load(std::memory_order_relaxed);
    const auto n = static_cast<unsigned>(shape & count_mask);
    const unsigned middle = n / 2;
    const Separators all = decode(at, shape);
    clear(right, child(node, middle + 1), all[middle]);
    Separators upper{};
    std::copy(all.begin() + middle + 1, all.begin() + n, upper.begin());
    for (unsigned k = middle + 1; k < n; ++k) set_child(of(right), k - middle, child(node, k + 1));
    encode(of(right), upper, n - middle - 1, all[middle]);
    encode(at, all, middle, low_of(at));
    return {all[middle], 0};
  }

  void set_slot(InnerNode& node, unsigned i, InnerSlot slot) const {
    Node& at = of(node);
    const std::uint64_t shape = at.shape.load(std::memory_order_relaxed);
    Separators all = decode(at, shape);
    all[i] = slot.key;
    encode(at, all, static_cast<unsigned>(shape & count_mask), low_of(at));
  }

  /// F3.
  [[nodiscard]] static OwnedBlock owned(const InnerNode& node) noexcept {
    return {exact_of(of(node)), exact_bytes};
  }

 private:
  static constexpr std::uint32_t unused_word = ~std::uint32_t{0};
  static constexpr std::uint64_t unused_exact = ~std::uint64_t{0};
  static constexpr std::uint64_t count_mask = 0xff;
  static constexpr unsigned shift_at = 8;
  static constexpr std::uint64_t exact_bit = 1 << 16;
  using Separators = std::array<std::uint64_t, most_children>;
  using ExactWord = std::atomic<std::uint64_t>;
  static constexpr unsigned exact_words = 32;  ///< as they are searched by 16
  static constexpr std::size_t exact_bytes = exact_words * sizeof(ExactWord);

  struct alignas(pm::cache_line_bytes) Node : InnerNode {
    std::atomic<std::uint64_t> base{0};
    std::atomic<std::uint64_t> shape{0};  ///< count, shift << shift_at, exact_bit
    std::array<std::atomic<std::uint32_t>, most_children> word;
    std::array<std::atomic<std::uint64_t>, most_children> child;
    std::atomic<std::uint64_t> low{0};
    std::atomic<ExactWord*> exact{nullptr};
  };
  static_assert(sizeof(Node) == 6 * pm::cache_line_bytes);
  /// So many 32-bit words are before the separators in the two lines that a search reads.
  static constexpr unsigned words_before = 32 - most_children;

  [[nodiscard]] static const Node& of(const InnerNode& node) noexcept {
    return static_cast<const Node&>(node);
  }
  [[nodiscard]] static Node& of(InnerNode& node) noexcept { return static_cast<Node&>(node); }
  [[nodiscard]] static bool is_exact(std::uint64_t shape) noexcept {
    return (shape & exact_bit) != 0;
  }
  [[nodiscard]] static std::uint64_t low_of(const Node& node) noexcept {
    return node.low.load(std::memory_order_relaxed);
  }
  [[nodiscard]] static ExactWord* exact_of(const Node& node) noexcept {
    return node.exact.load(std::memory_order_acquire);
  }
  // Release: a reader that sees the new word also sees the lock, and fails its validation.
  template <class Word>
  static void store(std::atomic<Word>& at, Word word) noexcept {
    at.store(word, std::memory_order_release);
  }
  static void set_child(Node& node, unsigned i, void* child) noexcept {
    store(node.child[i], reinterpret_cast<std::uint64_t>(child));
  }

  /// Beyond what the frame holds, a key is right of every separator.
  template <class CountUpTo>
  [[gnu::always_inline]] static unsigned rank_of(const Node& node, std::uint64_t key,
                                                 CountUpTo&& count_up_to) noexcept {
    const std::uint64_t shape = node.shape.load(std::memory_order_acquire);
    if (is_exact(shape)) [[unlikely]]
      return exact_rank_of(node, key);
    const std::uint64_t distance =
        (key - node.base.load(std::memory_order_acquire)) >> (shape >> shift_at & 63);
    const auto limit =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(distance, unused_word - 1));
    return count_up_to(node, limit);
  }
  [[gnu::noinline]] static unsigned exact_rank_of(const Node& node, std::uint64_t key) noexcept {
    const ExactWord* const words = exact_of(node);
    const unsigned rank = pm::count_up_to<16>(words, key) + pm::count_up_to<16>(words + 16, key);
    return std::min(rank, count(node));
  }

  [[nodiscard]] static std::uint64_t separator(const Node& node, std::uint64_t shape,
                                               unsigned i) noexcept {
    if (is_exact(shape)) return exact_of(node)[i].load(std::memory_order_acquire);
    return node.base.load(std::memory_order_acquire) +
           (std::uint64_t{node.word[i].load(std::memory_order_acquire)}
            << (shape >> shift_at & 63));
  }
  [[nodiscard]] static Separators decode(const Node& node, std::uint64_t shape) noexcept {
    Separators all{};
    for (unsigned i = 0; i < (shape & count_mask); ++i) all[i] = separator(node, shape, i);
    return all;
  }

  /// The word of a separator in the node's present frame; `unused_word` or more: it has none.
  [[nodiscard]] static std::uint64_t word_in_frame(const Node& node, std::uint64_t shape,
                                                   std::uint64_t key) noexcept {
    if (is_exact(shape)) return unused_word;
    const unsigned shift = shape >> shift_at & 63;
    const std::uint64_t distance = key - node.base.load(std::memory_order_relaxed);
    const std::uint64_t word = distance >> shift;
    return word << shift == distance ? word : unused_word;
  }

  /// Stores `n` separators, in the frame that leaves most room, or exactly.
  void encode(Node& node, const Separators& all, unsigned n, std::uint64_t low) const {
    unsigned zeros = 63;
    for (unsigned i = 0; i < n; ++i)
      zeros = std::min(zeros, static_cast<unsigned>(std::countr_zero(all[i])));
    const auto bits = n == 0 ? 0U : static_cast<unsigned>(std::bit_width(all[n - 1] - low));
    // One bit is left free where possible, for separators to come.
    const unsigned shift = std::min(bits > 31 ? bits - 31 : 0, zeros);
    const std::uint64_t base = low >> shift << shift;
    const bool fits = n == 0 || (all[n - 1] - base) >> shift < unused_word;
    if (!fits && exact_of(node) == nullptr) {
      auto* const words = static_cast<ExactWord*>(arena_->allocate(exact_bytes));
      for (unsigned i = 0; i < exact_words; ++i) new (words + i) ExactWord{unused_exact};
      store(node.exact, words);
    }
    store(node.low, low);
    store(node.base, base);
    for (unsigned i = 0; i < most_children; ++i) {
      const bool framed = fits && i < n;
      store(node.word[i],
            framed ? static_cast<std::uint32_t>((all[i] - base) >> shift) : unused_word);
      if (!fits) store(exact_of(node)[i], i < n ? all[i] : unused_exact);
    }
    store(node.shape, n | std::uint64_t{shift} << shift_at | (fits ? 0 : exact_bit));
  }

  unsigned entries_;
  NodeArena* arena_;
};

}  // namespace perdure
