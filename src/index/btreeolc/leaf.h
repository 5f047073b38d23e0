// The leaf of BTreeOlc: a node of 256 bytes in DRAM, records in key order.
//
//   byte 0      8                     16         136         256
//        | lock | next leaf and count | key [15] | word [15] |
//
// L1  key words (an integer, or the first eight bytes of a byte string) do not descend. A word is
//     the value of an integer, or the address of a byte string's record.
// L2  key words from the count on are 2^64 - 1, so counting the key words <= a key passes the count
//     only for the key word 2^64 - 1 itself.
// L3  a leaf is changed only under its lock. Readers take none: what they read counts once the
//     lock's version was validated, and an address is followed only after that.
// L4  the count lives in the upper 16 bits of `next`, which addresses do not use.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/assert.h"
#include "pm/pm.h"

namespace perdure::btreeolc {

struct Entry {
  std::uint64_t key = 0;
  std::uint64_t word = 0;
};

struct alignas(256) Leaf {
  static constexpr unsigned entries = 15;
  static constexpr std::uint64_t unused_key = ~std::uint64_t{0};

  pm::VersionLock lock;

  Leaf() noexcept {
    for (auto& key : key_) key.store(unused_key, std::memory_order_relaxed);
    for (auto& word : word_) word.store(0, std::memory_order_relaxed);
  }

  [[nodiscard]] unsigned count() const noexcept {
    return static_cast<unsigned>(link_.load(std::memory_order_acquire) >> count_shift);
  }
  [[nodiscard]] Leaf* next() const noexcept {
    return reinterpret_cast<Leaf*>(link_.load(std::memory_order_acquire) & address_mask);
  }
  [[nodiscard]] Entry entry(unsigned i) const noexcept {
    return {key_[i].load(std::memory_order_acquire), word_[i].load(std::memory_order_acquire)};
  }
  /// How many entries have a key word <= `key`. Safe beside a writer (L3).
  [[nodiscard]] unsigned up_to(std::uint64_t key) const noexcept {
    const unsigned found = pm::count_up_to<entries>(key_.data(), key);
    return key == unused_key ? std::min(found, count()) : found;
  }
  void prefetch() const noexcept { pm::prefetch_range(this, sizeof *this); }

  // Below: the caller holds the lock, or the leaf is not yet visible.

  void set_next(Leaf* next) noexcept { set_link(count(), reinterpret_cast<std::uint64_t>(next)); }
  /// Replaces the word of entry i; returns the old one.
  std::uint64_t exchange(unsigned i, std::uint64_t word) noexcept {
    return word_[i].exchange(word, std::memory_order_acq_rel);
  }
  /// Adds an entry at position i; the leaf is not full.
  void insert_at(unsigned i, Entry added) noexcept {
    const unsigned n = count();
    PERDURE_ASSERT(n < entries && i <= n);
    for (unsigned k = n; k > i; --k) set(k, entry(k - 1));
    set(i, added);
    set_count(n + 1);
  }
  void remove_at(unsigned i) noexcept {
    const unsigned n = count();
    PERDURE_ASSERT(i < n);
    for (unsigned k = i + 1; k < n; ++k) set(k - 1, entry(k));
    shrink(n - 1);
  }
  /// Moves the entries from `first` on to `right`, an empty leaf.
  void split(unsigned first, Leaf& right) noexcept {
    PERDURE_ASSERT(right.count() == 0);
    for (unsigned i = first, n = count(); i < n; ++i) right.insert_at(i - first, entry(i));
    shrink(first);
  }

 private:
  static constexpr unsigned count_shift = 48;
  static constexpr std::uint64_t address_mask = (std::uint64_t{1} << count_shift) - 1;

  // Release: a reader that sees the new word also sees the lock, and fails its validation.
  void set(unsigned i, Entry entry) noexcept {
    key_[i].store(entry.key, std::memory_order_release);
    word_[i].store(entry.word, std::memory_order_release);
  }
  void set_link(unsigned count, std::uint64_t next) noexcept {
    link_.store(std::uint64_t{count} << count_shift | next, std::memory_order_release);
  }
  void set_count(unsigned count) noexcept {
    set_link(count, reinterpret_cast<std::uint64_t>(next()));
  }
  void shrink(unsigned to) noexcept {
    for (unsigned i = to, n = count(); i < n; ++i)
      key_[i].store(unused_key, std::memory_order_release);  // L2
    set_count(to);
  }

  std::atomic<std::uint64_t> link_{0};
  std::array<std::atomic<std::uint64_t>, entries> key_;
  std::array<std::atomic<std::uint64_t>, entries> word_;
};
static_assert(sizeof(Leaf) == 256);

}  // namespace perdure::btreeolc
