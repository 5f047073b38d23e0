// WideExtension: a record more in a node of integers, in the fewest instructions.
#pragma once

#include <cstring>
#include <new>
#include <utility>

#include "index/hot/node.h"
#include "index/hot/wide_keys.h"
#include "index/reference/arena_allocator.h"

namespace perdure::hot {

/// What `extend` does, in two steps: what can be done before it is known where the key branches
/// off, for which the record may have to come from memory, and the rest, without a branch on that.
/// Only where `Node::is_wide()`.
class WideExtension {
 public:
  /// Of `node`, which is locked, of records, and not full. No memory: std::bad_alloc.
  [[gnu::always_inline]] WideExtension(StripedArena& arena, const Node& node)
      : arena_(arena), node_(node), count_(node.entries_ + 1U), width_(node.key_width_) {
    if (width_ > sizeof(std::uint16_t)) return;
    bytes_ = Node::bytes_of(0, width_, count_);
    made_ = new (arena.allocate(bytes_)) Node;
    std::memcpy(static_cast<void*>(&made_->height_), &node.height_,
                Node::header_bytes - sizeof node.lock);
    made_->entries_at_ = static_cast<std::uint16_t>(Node::entries_at(0, width_, count_));
    made_->entries_ = static_cast<std::uint8_t>(count_);
  }
  [[gnu::always_inline]] ~WideExtension() {
    if (made_ != nullptr) [[unlikely]]
      arena_.free(made_, bytes_);
  }
  WideExtension(const WideExtension&) = delete;
  WideExtension& operator=(const WideExtension&) = delete;

  /// The new node: `entry`, of `key`, branches off from the way to entry `near` where the first bit
  /// `differs`. None: it does so above the node's own branches, or the partial keys get wider.
  [[nodiscard, gnu::target("avx512f,avx512bw,bmi2,popcnt")]] Entry finish(std::uint64_t key,
                                                                          std::uint64_t differs,
                                                                          unsigned near,
                                                                          Entry entry) noexcept {
    const std::uint64_t bit = std::uint64_t{1} << 63 >> __builtin_clzll(differs);
    const std::uint64_t mask = node_.masks()[0];
    const auto is_new = static_cast<std::uint32_t>((mask & bit) == 0);
    const unsigned bits = node_.bits_ + is_new;
    if (made_ == nullptr || mask < bit || bits > 8 * width_) [[unlikely]]
      return no_entry;
    made_->bits_ = static_cast<std::uint8_t>(bits);
    made_->masks()[0] = mask | bit;
    const unsigned after = static_cast<unsigned>(_mm_popcnt_u64(mask & (bit - 1)));
    const bool one = (key & bit) != 0;
    const unsigned at = width_ == 1 ? place<std::uint8_t>(after, is_new, near, one)
                                    : place<std::uint16_t>(after, is_new, near, one);
    copy_with_gap_wide(reinterpret_cast<const std::uint64_t*>(&node_.entry(0)), count_ - 1, at,
                       reinterpret_cast<std::uint64_t*>(&made_->entry(0)));
    const auto first_bit = static_cast<unsigned>(__builtin_clzll(mask));
    new (&made_->entry(at)) std::atomic<Entry>(with_hint(entry, key, hint_byte_of(first_bit)));
    return entry_of(std::exchange(made_, nullptr), bytes_);
  }

 private:
  /// Writes all partial keys; the new entry's place. `after`: how many of the node's bits come
  /// after that of the branch, which is one of them unless it `is_new`.
  template <class Word>
  [[gnu::always_inline, gnu::target("avx512f,avx512bw,bmi2,popcnt")]] unsigned place(
      unsigned after, std::uint32_t is_new, unsigned near, bool one) noexcept {
    const auto* const keys = reinterpret_cast<const Word*>(node_.base() + Node::keys_at(0));
    const std::uint32_t below = low_bits(after);
    const std::uint32_t value = below + 1;
    const std::uint32_t up_to_old = below + (value & (is_new - 1));
    const std::uint32_t same =
        match_masked_wide(keys, low_bits(count_ - 1), ~up_to_old, keys[near]);
    const auto first = static_cast<unsigned>(__builtin_ctz(same));
    const unsigned end = 32U - static_cast<unsigned>(__builtin_clz(same));
    const unsigned at = one ? end : first;
    const std::uint32_t high = ~below & (0 - is_new);
    const std::uint32_t way = keys[first] + (keys[first] & high);
    const std::uint32_t on_one = 0 - std::uint32_t{one};
    KeyShift by;
    by.before = low_bits(at);
    by.gap = by.before + 1;
    by.after = low_bits(count_) & ~(by.before | by.gap);
    by.high = high;
    // After a new zero the others get a one.
    by.marked = low_bits(end + 1) & ~low_bits(first + 1) & ~on_one;
    by.mark = value;
    by.fresh = (way & ~(value | below)) | (value & on_one);
    shift_keys(keys, by, reinterpret_cast<Word*>(made_->base() + Node::keys_at(0)));
    return at;
  }

  StripedArena& arena_;
  const Node& node_;
  const unsigned count_;
  const unsigned width_;
  std::size_t bytes_ = 0;
  Node* made_ = nullptr;
};

}  // namespace perdure::hot
