// FreeNodes: which nodes of a slab are free: a bitmap in DRAM, changed without locks.
//
// F1  bit i of word w is set <=> node 64 w + i is free. Whoever clears a bit owns the node.
// F2  it is not kept on media: recovery makes it anew from the nodes that it finds in use.
// F3  with arenas a thread takes nodes from words of its own, side by side, and from any when those
//     have none: no node is out of reach.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "pm/thread.h"

namespace perdure::lockfree {

/// No node.
inline constexpr std::uint32_t no_node = ~std::uint32_t{0};

class FreeNodes {
 public:
  /// All nodes free.
  explicit FreeNodes(std::uint32_t nodes)
      : nodes_(nodes),
        words_((nodes + 63) / 64),
        word_(std::make_unique<std::atomic<std::uint64_t>[]>(words_)) {
    for (std::uint32_t w = 0; w < words_; ++w) word_[w].store(~std::uint64_t{0}, relaxed);
    if (nodes % 64 != 0) word_[words_ - 1].store((std::uint64_t{1} << nodes % 64) - 1, relaxed);
    for (Hint& hint : hint_) hint.end = words_;
  }

  /// A node for the thread with this slot, or `no_node`. Cost: a locked instruction, unless words
  /// are exhausted.
  [[nodiscard]] std::uint32_t take(std::size_t slot) noexcept {
    Hint& hint = hint_[slot];
    const std::uint32_t node = take_from(hint.word, hint.first, hint.end);
    if (node != no_node || hint.end - hint.first == words_) return node;
    return take_from(hint.elsewhere, 0, words_);  // F3
  }
  /// The caller owns the node, and nobody reads it any more.
  void give(std::uint32_t node) noexcept {
    word_[node / 64].fetch_or(std::uint64_t{1} << node % 64, std::memory_order_acq_rel);
  }
  /// Recovery: the node is in use. False: somebody has said so before.
  [[nodiscard]] bool claim(std::uint32_t node) noexcept {
    const std::uint64_t bit = std::uint64_t{1} << node % 64;
    return (word_[node / 64].fetch_and(~bit, relaxed) & bit) != 0;
  }
  [[nodiscard]] bool is_free(std::uint32_t node) const noexcept {
    return (word_[node / 64].load(relaxed) >> node % 64 & 1) != 0;
  }
  [[nodiscard]] std::uint32_t size() const noexcept { return nodes_; }
  [[nodiscard]] std::uint64_t free_count() const noexcept {
    std::uint64_t count = 0;
    for (std::uint32_t w = 0; w < words_; ++w)
      count += static_cast<unsigned>(std::popcount(word_[w].load(relaxed)));
    return count;
  }
  /// Threads begin in different words, so that their nodes share no line; with arenas (F3), in
  /// parts of their own, not all of them where the part begins: parts are often as large as a power
  /// of two, and their beginnings share the sets of a cache. Parts are a word at least, which
  /// threads then share.
  void spread(bool arenas) noexcept {
    const auto parts = std::min(words_, static_cast<std::uint32_t>(hint_.size()));
    for (std::size_t slot = 0; slot < hint_.size(); ++slot) {
      Hint& hint = hint_[slot];
      const auto begin = static_cast<std::uint32_t>(slot * 7 % words_);
      const std::uint64_t part = slot % parts;
      hint.first = arenas ? static_cast<std::uint32_t>(part * words_ / parts) : 0;
      hint.end = arenas ? static_cast<std::uint32_t>((part + 1) * words_ / parts) : words_;
      hint.word.store(hint.first + static_cast<std::uint32_t>(slot * 7 % (hint.end - hint.first)),
                      relaxed);
      hint.elsewhere.store(begin, relaxed);
    }
  }
  [[nodiscard]] std::uint64_t dram_bytes() const noexcept {
    return words_ * sizeof(std::uint64_t) + sizeof hint_;
  }

 private:
  static constexpr auto relaxed = std::memory_order_relaxed;
  struct alignas(64) Hint {
    std::atomic<std::uint32_t> word{0};       ///< where the thread found its last node
    std::uint32_t first = 0;                  ///< it looks in the words from here
    std::uint32_t end = 0;                    ///< to here,
    std::atomic<std::uint32_t> elsewhere{0};  ///< and then from here on
  };

  [[nodiscard]] std::uint32_t take_from(std::atomic<std::uint32_t>& hint, std::uint32_t first,
                                        std::uint32_t end) noexcept {
    std::uint32_t w = hint.load(relaxed);
    for (std::uint32_t looked = first; looked < end; ++looked) {
      for (std::uint64_t free = word_[w].load(relaxed); free != 0;) {
        const std::uint64_t bit = free & (~free + 1);
        free = word_[w].fetch_and(~bit, std::memory_order_acq_rel);
        if ((free & bit) == 0) continue;  // another thread took it
        hint.store(w, relaxed);
        return w * 64 + static_cast<std::uint32_t>(std::countr_zero(bit));
      }
      if (++w >= end) w = first;
    }
    return no_node;
  }

  std::uint32_t nodes_;
  std::uint32_t words_;
  std::unique_ptr<std::atomic<std::uint64_t>[]> word_;
  std::array<Hint, pm::max_threads> hint_;
};

}  // namespace perdure::lockfree
