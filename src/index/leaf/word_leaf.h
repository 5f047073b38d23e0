// A leaf in DRAM with n entries of two words in key order: BTreeOlc's, and that of DPTree's buffer
// trees.
//
//   byte 0      8                     16        16 + 8n   16 + 16n
//        | lock | next leaf and count | key [n] | word [n] |
//
// Beside the invariants S1 to S3 of sorted_leaf.h:
//
// W1  counting the key words <= a key passes the count only for the key word 2^64 - 1 itself (S2).
// W2  the count lives in the upper 16 bits of `next`, which addresses do not use.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "index/leaf/sorted_leaf.h"
#include "pm/pm.h"

namespace perdure {

struct WordEntry {
  std::uint64_t key = 0;
  std::uint64_t word = 0;
};

/// `n` is 15 or 31: 256 bytes or 512.
template <unsigned n>
struct alignas(256) WordLeaf : SortedLeaf<WordLeaf<n>, WordEntry> {
  static constexpr unsigned entries = n;
  using SortedLeaf<WordLeaf, WordEntry>::unused_key;

  pm::VersionLock lock;

  WordLeaf() noexcept {
    for (auto& key : key_) key.store(unused_key, std::memory_order_relaxed);
    for (auto& word : word_) word.store(0, std::memory_order_relaxed);
  }

  [[nodiscard]] unsigned count() const noexcept {
    return static_cast<unsigned>(link_.load(std::memory_order_acquire) >> count_shift);
  }
  [[nodiscard]] WordLeaf* next() const noexcept {
    return reinterpret_cast<WordLeaf*>(link_.load(std::memory_order_acquire) & address_mask);
  }
  [[nodiscard]] std::uint64_t key_word(unsigned i) const noexcept {
    return key_[i].load(std::memory_order_acquire);
  }
  [[nodiscard]] WordEntry entry(unsigned i) const noexcept {
    return {key_word(i), word_[i].load(std::memory_order_acquire)};
  }
  /// How many entries have a key word <= `key`. Safe beside a writer (S3).
  [[nodiscard]] unsigned up_to(std::uint64_t key) const noexcept {
    unsigned found = 0;
    if constexpr (entries > 16) {
      constexpr unsigned first = 16;
      found = pm::count_up_to<first>(key_.data(), key) +
              pm::count_up_to<entries - first>(key_.data() + first, key);
    } else {
      found = pm::count_up_to<entries>(key_.data(), key);
    }
    return key == unused_key ? std::min(found, count()) : found;
  }
  void prefetch() const noexcept { pm::prefetch_range(this, sizeof *this); }

  // Below: the caller holds the lock, or the leaf is not yet visible.

  void set_next(WordLeaf* next) noexcept {
    set_link(count(), reinterpret_cast<std::uint64_t>(next));
  }
  void set_word(unsigned i, std::uint64_t word) noexcept {
    word_[i].store(word, std::memory_order_release);
  }
  /// Replaces the word of entry i; returns the old one.
  std::uint64_t exchange(unsigned i, std::uint64_t word) noexcept {
    return word_[i].exchange(word, std::memory_order_acq_rel);
  }

 private:
  friend class SortedLeaf<WordLeaf, WordEntry>;
  static constexpr unsigned count_shift = 48;
  static constexpr std::uint64_t address_mask = (std::uint64_t{1} << count_shift) - 1;

  // Release: a reader that sees the new word also sees the lock, and fails its validation.
  void set(unsigned i, WordEntry entry) noexcept {
    key_[i].store(entry.key, std::memory_order_release);
    word_[i].store(entry.word, std::memory_order_release);
  }
  void set_link(unsigned count, std::uint64_t next) noexcept {
    link_.store(std::uint64_t{count} << count_shift | next, std::memory_order_release);
  }
  void set_count(unsigned count) noexcept {
    set_link(count, reinterpret_cast<std::uint64_t>(next()));
  }
  void unset(unsigned i) noexcept { key_[i].store(unused_key, std::memory_order_release); }

  std::atomic<std::uint64_t> link_{0};
  std::array<std::atomic<std::uint64_t>, entries> key_;
  std::array<std::atomic<std::uint64_t>, entries> word_;
};
static_assert(sizeof(WordLeaf<15>) == 256 && sizeof(WordLeaf<31>) == 512);

}  // namespace perdure
