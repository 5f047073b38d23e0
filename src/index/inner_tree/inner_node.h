// A node of InnerTree: raw words whose number the tree's options decide.
//
//   byte 0              8                                 (ByteKeys only)
//        | version lock | sample [s] | pad | key word [e] | separator text [e] | child [e + 1] |
//
//   e = entries; s = e / 8, or 0 in a node of at most 15 entries, which has no pad either. In a
//   larger one key words begin a cache line, and so do children.
//
// A large node is searched in two steps of misses: the samples (every eighth key word, prefetched
// with the node), then one line of eight key words beside one line of children. With 15 integer
// entries a node is exactly one 256-byte block. There is no room for a count, and lookups need
// none:
//   W1  key words from `count` on are 2^64 - 1, so counting the key words <= a key over all e slots
//       passes `count` only for the key 2^64 - 1 itself, and then gives e;
//   W2  child[e] is the last child, full or not: the slot that key arrives at;
//   W3  the count lives in the upper 16 bits of child[0], which addresses do not use;
//   W4  sample[g] is key word 8g + 7.
// A key word is the key (IntegerKeys) or its first eight bytes (ByteKeys); only words that tie are
// followed to the separator's text, an immutable copy {length, bytes}.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <type_traits>

#include "core/assert.h"
#include "index/common/key_prefix.h"
#include "index/index.h"
#include "index/inner_tree/node_arena.h"
#include "pm/pm.h"

namespace perdure {

struct InnerNode {
  pm::VersionLock lock;

  [[nodiscard]] std::atomic<std::uint64_t>* words() noexcept {
    return reinterpret_cast<std::atomic<std::uint64_t>*>(this + 1);
  }
  [[nodiscard]] const std::atomic<std::uint64_t>* words() const noexcept {
    return reinterpret_cast<const std::atomic<std::uint64_t>*>(this + 1);
  }
};
static_assert(sizeof(InnerNode) == 8);

/// An immutable copy of a byte-string separator: 4 bytes of length, then the bytes.
namespace separator_text {
[[nodiscard]] inline std::size_t bytes_for(std::string_view key) noexcept {
  return sizeof(std::uint32_t) + key.size();
}
inline void write(void* at, std::string_view key) noexcept {
  const auto length = static_cast<std::uint32_t>(key.size());
  std::memcpy(at, &length, sizeof length);
  if (length != 0) std::memcpy(static_cast<char*>(at) + sizeof length, key.data(), length);
}
[[nodiscard]] inline std::string_view read(std::uint64_t address) noexcept {
  const auto* const at = reinterpret_cast<const char*>(address);
  std::uint32_t length = 0;
  std::memcpy(&length, at, sizeof length);
  return {at + sizeof length, length};
}
}  // namespace separator_text

/// A separator as a node holds it.
struct InnerSlot {
  std::uint64_t key;
  std::uint64_t text;  ///< address of the separator's text; 0 for integer keys
};

/// A block of the nodes' arena that a node has besides its own.
struct OwnedBlock {
  void* block = nullptr;
  std::size_t bytes = 0;
};

/// A key made ready for searching.
template <class Keys>
struct InnerProbe {
  explicit InnerProbe(typename Keys::Key wanted) noexcept : key(wanted) {
    if constexpr (Keys::kind == KeyKind::bytes)
      word = key_prefix(wanted);
    else
      word = wanted;
  }
  typename Keys::Key key;
  std::uint64_t word;
};

/// Where the words of one tree's nodes are, and how they are read. Safe beside a writer, but what
/// was read means something only after the node's version was validated.
template <class Keys>
class InnerWords {
 public:
  static constexpr bool has_texts = Keys::kind == KeyKind::bytes;
  static constexpr unsigned small_entries = 15;
  static constexpr unsigned count_shift = 48;
  static constexpr std::uint64_t address_mask = (std::uint64_t{1} << count_shift) - 1;

  explicit InnerWords(unsigned entries) noexcept
      : entries_(entries),
        samples_(entries > small_entries ? entries / group : 0),
        key_at_(entries > small_entries ? line_up(1 + samples_) - 1 : 0),
        text_at_(key_at_ + entries),
        child_at_(samples_ == 0 ? text_at_ + (has_texts ? entries : 0)
                                : line_up(1 + text_at_ + (has_texts ? entries : 0)) - 1) {}

  [[nodiscard]] unsigned entries() const noexcept { return entries_; }
  /// One 256-byte block, where the keys are integers.
  [[nodiscard]] bool is_small() const noexcept { return entries_ == small_entries; }
  // For InnerTree's search on a machine with AVX-512.
  [[nodiscard]] bool is_wide() const noexcept {
    return is_small() && !has_texts && pm::detail::simd_level == pm::SimdLevel::avx512;
  }
  [[nodiscard, gnu::always_inline]] static unsigned wide_rank(const InnerNode& node,
                                                              std::uint64_t key) noexcept {
    // The node's first two lines, whose first word is the lock.
    return pm::detail::count_16_avx512<0xfffe>(&node, key);
  }
  [[nodiscard]] static const InnerNode* wide_child(const InnerNode& node, unsigned rank) noexcept {
    return reinterpret_cast<const InnerNode*>(load(node, small_entries + rank) & address_mask);
  }
  /// The first two lines are read at once, by version and search.
  static void prefetch_wide(const InnerNode* node) noexcept {
    constexpr std::size_t first = 2 * pm::cache_line_bytes;
    pm::prefetch_range(reinterpret_cast<const std::byte*>(node) + first,
                       sizeof(InnerNode) + 8 * (2 * small_entries + 1) - first);
  }

  [[nodiscard]] std::size_t node_bytes() const noexcept {
    const std::size_t bytes = sizeof(InnerNode) + 8 * (std::size_t{child_at_} + entries_ + 1);
    return (bytes + pm::cache_line_bytes - 1) & ~(pm::cache_line_bytes - 1);
  }

  [[nodiscard]] unsigned count(const InnerNode& node) const noexcept {
    return static_cast<unsigned>(load(node, child_at_) >> count_shift);
  }
  [[nodiscard]] InnerSlot slot(const InnerNode& node, unsigned i) const noexcept {
    return {load(node, key_at_ + i), has_texts ? load(node, text_at_ + i) : 0};
  }
  [[nodiscard]] void* child(const InnerNode& node, unsigned i) const noexcept {
    return reinterpret_cast<void*>(load(node, child_at_ + i) & address_mask);
  }
  [[nodiscard]] InnerNode* inner_child(const InnerNode& node, unsigned i) const noexcept {
    return static_cast<InnerNode*>(child(node, i));
  }

  /// W1, W2 and W4.
  [[nodiscard]] bool is_sound(const InnerNode& node) const noexcept {
    const unsigned n = count(node);
    if (child(node, n) != child(node, entries_)) return false;
    for (unsigned i = n; i < entries_; ++i)
      if (load(node, key_at_ + i) != unused_key) return false;
    for (unsigned i = 0; i < samples_; ++i)
      if (load(node, i) != load(node, key_at_ + group * i + group - 1)) return false;
    return true;
  }

  /// Prefetches the lines a search of `node` reads first: all of a small integer node, else version
  /// lock and samples.
  void prefetch(const void* node) const noexcept {
    if (is_small() && !has_texts)
      pm::prefetch_range(node, sizeof(InnerNode) + 8 * (2 * small_entries + 1));
    else
      pm::prefetch_range(node, sizeof(InnerNode) + 8 * std::size_t{key_at_});
  }

 protected:
  static constexpr std::uint64_t unused_key = ~std::uint64_t{0};
  static constexpr unsigned group = pm::cache_line_bytes / sizeof(std::uint64_t);

  [[nodiscard]] static constexpr unsigned line_up(unsigned words) noexcept {
    return (words + group - 1) / group * group;
  }
  [[nodiscard]] static std::uint64_t load(const InnerNode& node, unsigned i) noexcept {
    return node.words()[i].load(std::memory_order_acquire);
  }

  /// How many of the e key words are <= `word`, without a branch on any of them.
  [[nodiscard]] unsigned words_up_to(const InnerNode& node, std::uint64_t word) const noexcept {
    if (is_small()) return pm::count_up_to<small_entries>(node.words(), word);
    const unsigned groups = rank_among(node.words(), samples_, word);
    const unsigned before = groups * group;
    pm::prefetch(node.words() + child_at_ + before);
    const std::atomic<std::uint64_t>* const keys = node.words() + key_at_ + before;
    if (before + group <= entries_) return before + pm::count_up_to<group>(keys, word);
    return before + rank_among(keys, entries_ - before, word);
  }

  /// How many of any number of ascending words are <= `word`: halved until few are left, then
  /// counted.
  [[nodiscard]] static unsigned rank_among(const std::atomic<std::uint64_t>* words, unsigned count,
                                           std::uint64_t word) noexcept {
    constexpr unsigned few = 16;
    const std::atomic<std::uint64_t>* base = words;
    while (count > few) {
      const unsigned half = count / 2;
      const bool below = base[half - 1].load(std::memory_order_acquire) <= word;
      base += half & (0U - static_cast<unsigned>(below));
      count -= half;
    }
    auto rank = static_cast<unsigned>(base - words);
    if (count == few) return rank + pm::count_up_to<few>(base, word);
    for (unsigned i = 0; i < count; ++i) rank += base[i].load(std::memory_order_acquire) <= word;
    return rank;
  }

  unsigned entries_;
  unsigned samples_;
  unsigned key_at_;  ///< where key words begin, in words after the lock
  unsigned text_at_;
  unsigned child_at_;
};

/// Searches and changes nodes of one tree.
template <class Keys>
class InnerLayout : public InnerWords<Keys> {
  using Base = InnerWords<Keys>;

 public:
  using Probe = InnerProbe<Keys>;
  using Base::Base;
  InnerLayout(unsigned entries, NodeArena& /*arena*/) noexcept : Base(entries) {}
  /// Nothing.
  [[nodiscard]] static OwnedBlock owned(const InnerNode& /*node*/) noexcept { return {}; }
  using Base::child, Base::count, Base::slot;
  using Base::count_shift, Base::address_mask, Base::has_texts;

  /// Sets `rank` to the number of separators <= the key; as a child number it may be e instead of
  /// `count`, which leads to the same child (W2). Asks `stable()` before it follows a text; when
  /// that is false it gives up and returns false.
  template <class Stable>
  [[nodiscard]] bool search(const InnerNode& node, const Probe& probe, unsigned& rank,
                            Stable&& stable) const noexcept {
    rank = words_up_to(node, probe.word);
    if constexpr (has_texts) {
      rank = std::min(rank, count(node));
      if (rank == 0 || load(node, key_at_ + rank - 1) != probe.word) return true;
      return search_texts(node, probe, rank, stable);
    }
    return true;
  }

  // Below: the caller holds the node's lock, or the node is not yet visible.

  /// Makes the node hold one child and no separator.
  void clear(InnerNode& node, void* only_child, typename Keys::Key /*low*/) const noexcept {
    new (&node) InnerNode;
    std::atomic<std::uint64_t>* const words = node.words();
    const unsigned end = child_at_ + entries_ + 1;
    static_assert(unused_key == ~std::uint64_t{0});
    std::memset(static_cast<void*>(words), 0xff, sizeof(*words) * text_at_);
    std::memset(static_cast<void*>(words + text_at_), 0, sizeof(*words) * (end - text_at_));
    set_child(node, 0, only_child);
    set_count(node, 0);
  }

  /// Adds `slot` at position i and `child` right of it.
  void insert_at(InnerNode& node, unsigned i, InnerSlot slot, void* child) const noexcept {
    const unsigned n = count(node);
    PERDURE_ASSERT(n < entries_ && i <= n);
    for (unsigned k = n; k > i; --k) {
      set_slot(node, k, this->slot(node, k - 1));
      set_child(node, k + 1, this->child(node, k));
    }
    set_slot(node, i, slot);
    set_child(node, i + 1, child);
    set_count(node, n + 1);
  }

  /// Adds `child` as the first one, with `slot` between it and the present first.
  void insert_first(InnerNode& node, void* child, InnerSlot slot,
                    InnerSlot /*low*/) const noexcept {
    insert_at(node, 0, slot, this->child(node, 0));
    set_child(node, 0, child);
  }

  /// Takes child i out and the separator beside it (its left one, where it has one), which is
  /// returned.
  InnerSlot remove_at(InnerNode& node, unsigned i) const noexcept {
    const unsigned n = count(node);
    PERDURE_ASSERT(n > 0 && i <= n);
    const unsigned gone = i == 0 ? 0 : i - 1;
    const InnerSlot slot = this->slot(node, gone);
    if (i == 0) set_child(node, 0, child(node, 1));
    for (unsigned k = gone + 1; k < n; ++k) {
      set_slot(node, k - 1, this->slot(node, k));
      set_child(node, k, child(node, k + 1));
    }
    shrink(node, n - 1);
    return slot;
  }

  /// Drops the separators from `to` on and the children right of them.
  void shrink(InnerNode& node, unsigned to) const noexcept {
    for (unsigned k = to, n = count(node); k < n; ++k) set_slot(node, k, {unused_key, 0});
    set_count(node, to);
  }

  /// Moves the upper half of a full node to `right`, a cleared one; returns the separator between.
  InnerSlot split(InnerNode& node, InnerNode& right) const noexcept {
    const unsigned n = count(node);
    const unsigned middle = n / 2;
    clear(right, child(node, middle + 1), {});
    for (unsigned k = middle + 1; k < n; ++k)
      insert_at(right, k - middle - 1, slot(node, k), child(node, k + 1));
    const InnerSlot between = slot(node, middle);
    shrink(node, middle);
    return between;
  }

  void set_slot(InnerNode& node, unsigned i, InnerSlot slot) const noexcept {
    store(node, key_at_ + i, slot.key);
    if (i % group == group - 1 && i / group < samples_) store(node, i / group, slot.key);  // W4
    if constexpr (has_texts) store(node, text_at_ + i, slot.text);
  }

 private:
  using Base::child_at_, Base::entries_, Base::key_at_, Base::samples_, Base::text_at_;
  using Base::group, Base::load, Base::unused_key, Base::words_up_to;

  // Release: a reader that sees the new word also sees the lock, and fails its validation.
  static void store(InnerNode& node, unsigned i, std::uint64_t word) noexcept {
    node.words()[i].store(word, std::memory_order_release);
  }

  void set_child(InnerNode& node, unsigned i, void* child) const noexcept {
    const std::uint64_t kept = i == 0 ? load(node, child_at_) & ~address_mask : 0;
    store(node, child_at_ + i, kept | reinterpret_cast<std::uint64_t>(child));
  }
  void set_count(InnerNode& node, unsigned count) const noexcept {
    const std::uint64_t first = load(node, child_at_) & address_mask;
    store(node, child_at_, first | std::uint64_t{count} << count_shift);
    store(node, child_at_ + entries_, reinterpret_cast<std::uint64_t>(child(node, count)));  // W2
  }

  // Separators in [first, rank) share the key's first eight bytes; their texts decide.
  template <class Stable>
  [[nodiscard]] bool search_texts(const InnerNode& node, const Probe& probe, unsigned& rank,
                                  Stable&& stable) const noexcept {
    unsigned first = probe.word == 0 ? 0 : std::min(rank, words_up_to(node, probe.word - 1));
    while (first < rank) {
      const unsigned middle = first + (rank - first) / 2;
      const std::uint64_t text = load(node, text_at_ + middle);
      if (!stable()) return false;
      if (separator_text::read(text) <= probe.key)
        first = middle + 1;
      else
        rank = middle;
    }
    return true;
  }
};

}  // namespace perdure
