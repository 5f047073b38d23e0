// A compound node: up to 32 entries under a binary Patricia trie, laid out as one line of keys.
//
//   byte 0    lock: locked and obsolete bits of writers; readers never look at it
//        8    height, begin of the window, begin of the entries, entries, bits, groups, key width
//        18   the lead: the first bytes that all its keys share (6)
//        24   single mask:  mask (8)
//             multi-mask:   mask (8) x groups, byte offset (2) x 8 x groups; groups 1, 2 or 4
//        ..   partial keys: of 1, 2 or 4 bytes, one an entry
//        ..   entries:      8 bytes each, 8-aligned
//
// The node's discriminative bits, those at which its trie branches, are taken from a key by PEXT:
// all from one window of eight bytes, or from up to 32 bytes gathered by their offsets. Side by
// side, the first bit on top, they are the key's dense partial key. An entry's own partial key is
// sparse: it has only the bits on the entry's path in the trie, the others are zero. So an entry on
// a key's path is a subset of the dense partial key, and the last such entry is where the key
// belongs.
//
// A lowest node of integers knows more of each record's key than its partial key: the lead, which
// are the bytes before that of its first bit, and the sixteen bits from there on, in the top of the
// entry. An insertion mostly needs no more to see where its key branches off.
//
// N1  the sparse partial keys ascend, entry 0's is zero, and each follows from the one before: the
//     same bits above the branch between the two, a one there, and zeros below.
// N2  every bit is one in some partial key, and the partial keys are of the least width.
// N3  2 <= entries <= 32; the height is greater than that of every node below. Records have none.
// N4  everything but the lock and the entries is written before the node is linked, and never
//     after. An entry is replaced, under the lock, by one that holds the same keys or a changed set
//     of keys that still differ from the neighbours' at the branches above.
// N5  in a node of height 1 of integers, lead and hints are those of the records' keys.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/assert.h"
#include "index/hot/key_bits.h"
#include "index/hot/partial_keys.h"
#include "index/hot/wide_keys.h"
#include "pm/pm.h"

namespace perdure {

class StripedArena;

namespace hot {

inline constexpr unsigned max_entries = 32;

/// An entry: a node's address and how many lines it has, less one, from `lines_shift` on; or a
/// record's address with `record_bit` and, in the top 16 bits, its hint (N5).
using Entry = std::uint64_t;
inline constexpr Entry no_entry = 0;
inline constexpr Entry record_bit = 1;
inline constexpr unsigned lines_shift = 2;
/// With `record_bit`: taken out, but there was no memory for a node without it.
inline constexpr Entry dead_bit = 2;
inline constexpr unsigned hint_bits = 16;
inline constexpr unsigned address_bits = 64 - hint_bits;
inline constexpr unsigned lead_bytes = 6;  ///< with the hint they are an integer's eight

/// The byte at which hints begin in a node whose first discriminative bit is at `first_bit`.
[[nodiscard]] constexpr unsigned hint_byte_of(unsigned first_bit) noexcept {
  return std::min(first_bit / 8, lead_bytes);
}
/// `entry` with the hint of a record of `key` in a node where hints begin at `byte`.
[[nodiscard]] constexpr Entry with_hint(Entry entry, std::uint64_t key, unsigned byte) noexcept {
  return (entry & ~Entry{0} >> hint_bits) | key << 8 * byte >> address_bits << address_bits;
}
/// `entry`, of a record, with the hint of the entry that it replaces.
[[nodiscard]] constexpr Entry with_hint_of(Entry entry, Entry replaced) noexcept {
  return entry | replaced >> address_bits << address_bits;
}
[[nodiscard]] inline void* address_of_record(Entry entry) noexcept {
  return reinterpret_cast<void*>(entry << hint_bits >> hint_bits & ~(record_bit | dead_bit));
}
[[nodiscard]] constexpr bool is_record(Entry entry) noexcept { return (entry & record_bit) != 0; }
[[nodiscard]] constexpr bool is_dead(Entry entry) noexcept { return (entry & dead_bit) != 0; }

class Trie;
class WideExtension;

/// Where the parts of a node lie.
class NodeLayout {
 public:
  static constexpr unsigned group_bytes = 8;
  static constexpr unsigned max_groups = 4;

  [[nodiscard]] unsigned height() const noexcept { return height_; }
  [[nodiscard]] unsigned entries() const noexcept { return entries_; }
  [[nodiscard]] unsigned bits() const noexcept { return bits_; }
  /// 0: a single mask over a window.
  [[nodiscard]] unsigned groups() const noexcept { return groups_; }
  [[nodiscard]] unsigned key_width() const noexcept { return key_width_; }

  [[nodiscard]] std::atomic<Entry>& entry(unsigned i) noexcept { return entries_begin()[i]; }
  [[nodiscard]] const std::atomic<Entry>& entry(unsigned i) const noexcept {
    return const_cast<NodeLayout*>(this)->entries_begin()[i];
  }

  /// The first discriminative bit: the branch at the node's root.
  [[nodiscard]] unsigned first_bit() const noexcept {
    const auto in_group = static_cast<unsigned>(std::countl_zero(masks()[0]));
    return groups_ == 0 ? 8U * window_ + in_group : 8U * offsets()[in_group / 8] + in_group % 8;
  }

  /// At most eight lines.
  [[nodiscard]] std::size_t bytes() const noexcept {
    return bytes_of(groups_, key_width_, entries_);
  }
  /// What a node with one entry more most often takes.
  [[nodiscard]] std::size_t bytes_with_one_more() const noexcept {
    return bytes_of(groups_, key_width_, entries_ + 1U);
  }

  mutable pm::VersionLock lock;

 protected:
  [[nodiscard]] static constexpr std::size_t keys_at(unsigned groups) noexcept {
    return header_bytes + (groups == 0 ? 8 : (8 + 2 * group_bytes) * groups);
  }
  [[nodiscard]] static constexpr std::size_t entries_at(unsigned groups, unsigned key_width,
                                                        unsigned entries) noexcept {
    return (keys_at(groups) + std::size_t{key_width} * entries + 7) / 8 * 8;
  }
  /// At least so much that 32 partial keys can be read.
  [[nodiscard]] static constexpr std::size_t bytes_of(unsigned groups, unsigned key_width,
                                                      unsigned entries) noexcept {
    return std::max(entries_at(groups, key_width, entries) + sizeof(Entry) * entries,
                    keys_at(groups) + std::size_t{key_width} * max_entries);
  }

  [[nodiscard]] std::byte* base() noexcept { return reinterpret_cast<std::byte*>(this); }
  [[nodiscard]] const std::byte* base() const noexcept {
    return reinterpret_cast<const std::byte*>(this);
  }
  [[nodiscard]] const std::uint64_t* masks() const noexcept {
    return reinterpret_cast<const std::uint64_t*>(base() + header_bytes);
  }
  [[nodiscard]] std::uint64_t* masks() noexcept {
    return reinterpret_cast<std::uint64_t*>(base() + header_bytes);
  }
  [[nodiscard]] const std::uint16_t* offsets() const noexcept {
    return reinterpret_cast<const std::uint16_t*>(masks() + groups_);
  }
  [[nodiscard]] std::uint16_t* offsets() noexcept {
    return reinterpret_cast<std::uint16_t*>(masks() + groups_);
  }
  [[nodiscard]] const std::byte* keys_begin() const noexcept { return base() + keys_at(groups_); }
  [[nodiscard]] std::byte* keys_begin() noexcept { return base() + keys_at(groups_); }
  [[nodiscard]] std::atomic<Entry>* entries_begin() noexcept {
    return reinterpret_cast<std::atomic<Entry>*>(base() + entries_at_);
  }

  /// On top of a word.
  [[nodiscard]] std::uint64_t lead() const noexcept {
    std::uint64_t word = 0;
    std::memcpy(&word, base() + header_bytes - sizeof word, sizeof word);
    return word >> hint_bits << hint_bits;
  }
  void set_lead(std::uint64_t key, unsigned bytes) noexcept {
    const std::uint64_t shared = bytes == 0 ? 0 : key >> (64 - 8 * bytes) << (64 - 8 * bytes);
    std::memcpy(lead_.data(), reinterpret_cast<const std::byte*>(&shared) + hint_bits / 8,
                lead_bytes);
  }

  static constexpr std::size_t header_bytes = 24;

  std::uint16_t height_ = 0;
  std::uint16_t window_ = 0;  ///< the byte of the key at which the window of a single mask begins
  std::uint16_t entries_at_ = 0;
  std::uint8_t entries_ = 0;
  std::uint8_t bits_ = 0;
  std::uint8_t groups_ = 0;
  std::uint8_t key_width_ = 0;
  std::array<std::byte, lead_bytes> lead_{};
};

/// What is looked for in a node.
class Node : public NodeLayout {
 public:
  /// The entry under which `key` would lie.
  template <class Keys>
  [[nodiscard]] unsigned find(const KeyBits<Keys>& key) const noexcept {
    const std::uint32_t dense = dense_key(key);
    const std::byte* const keys = keys_begin();
    std::uint32_t subsets = 0;
    if (key_width_ == 1)
      subsets = match_subsets(reinterpret_cast<const std::uint8_t*>(keys), dense);
    else if (key_width_ == 2)
      subsets = match_subsets(reinterpret_cast<const std::uint16_t*>(keys), dense);
    else
      subsets = match_subsets(reinterpret_cast<const std::uint32_t*>(keys), dense);
    subsets &= ~std::uint32_t{0} >> (max_entries - entries_);
    return static_cast<unsigned>(std::bit_width(subsets)) - 1;  // N1: entry 0 always matches
  }

  /// True when `find_wide` may be called.
  [[nodiscard]] static bool is_wide() noexcept {
    return pm::detail::simd_level == pm::SimdLevel::avx512 && pm::detail::has_pext;
  }
  /// `find` in the fewest instructions: integers have a single mask (`KeyBits::word`).
  [[nodiscard, gnu::always_inline]] unsigned find_wide(std::uint64_t key) const noexcept {
    const auto dense = static_cast<std::uint32_t>(pm::detail::extract_bits_bmi2(key, masks()[0]));
    const std::byte* const keys = base() + keys_at(0);
    if (key_width_ > 2) [[unlikely]]
      return find_long(dense);
    const std::uint32_t subsets =
        pm::detail::match_short_subsets_avx512(keys, key_width_ < 2, dense, entries_);
    return 31U ^ static_cast<unsigned>(__builtin_clz(subsets));  // N1: entry 0 always matches
  }

  /// The entries [first, end) that share the way to entry `i` up to `position`.
  struct Range {
    unsigned first;
    unsigned end;
    [[nodiscard]] unsigned size() const noexcept { return end - first; }
  };
  [[nodiscard]] Range sharing(unsigned i, unsigned position) const noexcept {
    const std::uint32_t above = ~std::uint32_t{0} << (bits_ - bits_before(position));
    const std::byte* const keys = keys_begin();
    const auto way = static_cast<std::uint32_t>(key(i));
    std::uint32_t same = 0;
    if (key_width_ == 1)
      same = match_masked(reinterpret_cast<const std::uint8_t*>(keys), above, way);
    else if (key_width_ == 2)
      same = match_masked(reinterpret_cast<const std::uint16_t*>(keys), above, way);
    else
      same = match_masked(reinterpret_cast<const std::uint32_t*>(keys), above, way);
    same &= ~std::uint32_t{0} >> (max_entries - entries_);
    // Side by side, because the keys ascend.
    return {static_cast<unsigned>(std::countr_zero(same)),
            static_cast<unsigned>(std::bit_width(same))};
  }

  /// The sparse partial key of entry `i`.
  [[nodiscard]] std::uint64_t key(unsigned i) const noexcept {
    const std::byte* const keys = keys_begin();
    if (key_width_ == 1) return reinterpret_cast<const std::uint8_t*>(keys)[i];
    if (key_width_ == 2) return reinterpret_cast<const std::uint16_t*>(keys)[i];
    return reinterpret_cast<const std::uint32_t*>(keys)[i];
  }

  /// The bits at which `key` differs from that of the record's entry `entry` of this node, as far
  /// as the node knows: the first one is the first of all. None: ask the record.
  [[nodiscard, gnu::always_inline]] std::uint64_t known_difference(std::uint64_t key,
                                                                   Entry entry) const noexcept {
    const auto first_bit = static_cast<unsigned>(__builtin_clzll(masks()[0]));
    const unsigned unknown = address_bits - 8 * hint_byte_of(first_bit);
    const std::uint64_t known = lead() | entry >> address_bits << unknown;
    return (key ^ known) >> unknown << unknown;
  }

 private:
  friend class Trie;
  friend class WideExtension;
  friend Entry extend(StripedArena& arena, const Node& node, unsigned position, Range range,
                      bool one, Entry entry);

  [[nodiscard, gnu::noinline, gnu::cold]] unsigned find_long(std::uint32_t dense) const noexcept {
    const auto* const keys = reinterpret_cast<const std::uint32_t*>(keys_begin());
    const std::uint32_t subsets =
        match_subsets(keys, dense) & ~std::uint32_t{0} >> (max_entries - entries_);
    return 31U ^ static_cast<unsigned>(__builtin_clz(subsets));
  }

  template <class Keys>
  [[nodiscard]] std::uint32_t dense_key(const KeyBits<Keys>& key) const noexcept {
    if (groups_ == 0)
      return static_cast<std::uint32_t>(pm::extract_bits(key.word(window_), masks()[0]));
    std::uint32_t dense = 0;
    for (unsigned group = 0; group < groups_; ++group) {
      std::uint64_t word = 0;
      for (unsigned i = 0; i < group_bytes; ++i)
        word = word << 8 | key.byte(offsets()[group * group_bytes + i]);
      const std::uint64_t mask = masks()[group];
      // 31 bits at most, so no shift is by 32 or more.
      dense = dense << ones(mask) | static_cast<std::uint32_t>(pm::extract_bits(word, mask));
    }
    return dense;
  }

  /// How many bits of `mask` are set: popcnt is not in every processor either, and is a call
  /// there.
  [[nodiscard]] static unsigned ones(std::uint64_t mask) noexcept {
    return static_cast<unsigned>(std::bit_width(pm::extract_bits(~std::uint64_t{0}, mask)));
  }
  /// How many of the discriminative bits come before `position`.
  [[nodiscard]] unsigned bits_before(unsigned position) const noexcept {
    if (groups_ == 0) {
      if (position <= 8U * window_) return 0;
      const unsigned bits = position - 8U * window_;
      return bits >= 64 ? bits_ : ones(masks()[0] >> (64 - bits));
    }
    unsigned count = 0;
    for (unsigned place = 0; place < groups_ * group_bytes; ++place) {
      const std::uint64_t mask = masks()[place / group_bytes] >> 8 * (7 - place % group_bytes);
      const unsigned byte = offsets()[place];
      if (byte < position / 8)
        count += ones(mask & 0xff);
      else if (byte == position / 8)
        count += ones((mask & 0xff) >> (8 - position % 8));
    }
    return count;
  }
};

static_assert(sizeof(Node) == 24);

// The arena aligns to a line what takes one, as the smallest node does; so six bits of an address
// are free.
[[nodiscard]] inline Entry entry_of(const Node* node, std::size_t bytes) noexcept {
  return reinterpret_cast<Entry>(node) | (bytes - 1) / pm::cache_line_bytes << lines_shift;
}
[[nodiscard]] inline Entry entry_of(const Node* node) noexcept {
  return entry_of(node, node->bytes());
}
/// What the arena counts as the node's: whole lines.
[[nodiscard]] inline std::size_t bytes_of_node(Entry entry) noexcept {
  return ((entry >> lines_shift & 7) + 1) * pm::cache_line_bytes;
}
[[nodiscard]] inline Node* node_of(Entry entry) noexcept {
  return reinterpret_cast<Node*>(entry & ~(Entry{pm::cache_line_bytes} - 1));
}
/// Prefetches the node's lines at once: the first two and the last three, which are all that
/// nodes of integers have, but for one in the fullest. Without a branch, which could be predicted
/// no better than the node's size, and with few instructions; of the smallest nodes the
/// neighbours' lines come, too.
inline void prefetch_node(Entry entry) noexcept {
  constexpr std::size_t line = pm::cache_line_bytes;
  const auto* const node = reinterpret_cast<const std::byte*>(node_of(entry));
  const auto* const last = node + (entry * (line >> lines_shift) & 7 * line);
  pm::prefetch(node);
  pm::prefetch(node + line);
  pm::prefetch(last - 2 * line);
  pm::prefetch(last - line);
  pm::prefetch(last);
}
[[nodiscard]] inline unsigned height_of(Entry entry) noexcept {
  return is_record(entry) ? 0 : node_of(entry)->height();
}

}  // namespace hot
}  // namespace perdure
