// The leaf of uTree: one 256-byte node in DRAM with one entry per record, leading to its list node.
//
//   byte 0      8      16         160          232         250     251       256
//        | lock | next | key [18] | low half [18] | high [18] | count | unused |
//
//   An entry is a key word (the key, or the first eight bytes of a byte string) and the pool offset
//   of its node in units of 32 bytes, as 32 low and 8 high bits: pools up to 32 TiB.
//
// Beside the invariants S1 to S3 of sorted_leaf.h:
//
// D1  entry i leads to the node of the i-th record of the leaf's range, and key words are those of
//     the nodes.
// D2  counting the key words <= a key passes `count` only for the key word 2^64 - 1 itself (S2).
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "index/leaf/sorted_leaf.h"
#include "index/utree/node.h"
#include "pm/pm.h"

namespace perdure::utree {

/// An entry of a leaf by value.
struct Entry {
  std::uint64_t key_word = 0;
  std::uint64_t node = 0;  ///< pool offset
};

struct alignas(256) Leaf : SortedLeaf<Leaf, Entry> {
  static constexpr unsigned entries = 18;
  static constexpr unsigned low_bits = 32;
  /// No pool may be larger, because an entry could not lead to its end.
  static constexpr std::uint64_t most_pool_bytes = node_alignment << (low_bits + 8);

  pm::VersionLock lock;
  std::atomic<Leaf*> next{nullptr};

  Leaf() noexcept {
    // In one piece: nobody else sees it yet, and the explorer makes leaves by the million.
    static_assert(unused_key == ~std::uint64_t{0});
    std::memset(static_cast<void*>(key_.data()), 0xff, sizeof key_);
  }

  [[nodiscard]] unsigned count() const noexcept { return count_.load(std::memory_order_acquire); }
  [[nodiscard]] std::uint64_t key_word(unsigned i) const noexcept {
    return key_[i].load(std::memory_order_acquire);
  }
  /// Pool offset of the node of entry i.
  [[nodiscard]] std::uint64_t node(unsigned i) const noexcept {
    const std::uint64_t high = high_[i].load(std::memory_order_acquire);
    return (high << low_bits | low_[i].load(std::memory_order_acquire)) * node_alignment;
  }
  [[nodiscard]] Entry entry(unsigned i) const noexcept { return {key_word(i), node(i)}; }

  /// How many entries have a key word <= `word`. Safe beside a writer (S3).
  [[nodiscard]] unsigned up_to(std::uint64_t word) const noexcept {
    constexpr unsigned wide = 16;
    unsigned count = pm::count_up_to<wide>(key_.data(), word);
    for (unsigned i = wide; i < entries; ++i) count += key_word(i) <= word;
    return word == unused_key ? std::min(count, this->count()) : count;
  }

  void prefetch() const noexcept { pm::prefetch_range(this, sizeof *this); }
  /// For a lookup: leaves are too many to be met again soon, and must not push the inner nodes out
  /// of the caches.
  void prefetch_once() const noexcept { each_line(pm::prefetch_once); }
  void prefetch_for_write() const noexcept { each_line(pm::prefetch_for_write); }

  // Below: the caller holds the lock, or the leaf is not yet visible.

 private:
  friend class SortedLeaf<Leaf, Entry>;
  template <class Prefetch>
  void each_line(Prefetch&& prefetch) const noexcept {
    for (std::size_t at = 0; at < sizeof *this; at += pm::cache_line_bytes)
      prefetch(reinterpret_cast<const std::byte*>(this) + at);
  }

  // Release: a reader that sees the new word also sees the lock, and fails its validation.
  void set(unsigned i, Entry entry) noexcept {
    const std::uint64_t place = entry.node / node_alignment;
    key_[i].store(entry.key_word, std::memory_order_release);
    low_[i].store(static_cast<std::uint32_t>(place), std::memory_order_release);
    high_[i].store(static_cast<std::uint8_t>(place >> low_bits), std::memory_order_release);
  }
  void set_count(unsigned count) noexcept {
    count_.store(static_cast<std::uint8_t>(count), std::memory_order_release);
  }
  void unset(unsigned i) noexcept { key_[i].store(unused_key, std::memory_order_release); }

  std::array<std::atomic<std::uint64_t>, entries> key_;
  std::array<std::atomic<std::uint32_t>, entries> low_;
  std::array<std::atomic<std::uint8_t>, entries> high_;
  std::atomic<std::uint8_t> count_{0};
};
static_assert(sizeof(Leaf) == 256);

}  // namespace perdure::utree
