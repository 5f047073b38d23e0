// Roart::Draft: new nodes and arrays on their way into the tree.
#pragma once

#include <vector>

#include "index/roart/roart.h"

namespace perdure {

namespace roart {

[[nodiscard]] constexpr Kind larger(Kind kind) noexcept {
  return kind == Kind::n4 ? Kind::n20 : Kind::n256;
}
[[nodiscard]] constexpr Kind smaller(Kind kind) noexcept {
  return kind == Kind::n256 ? Kind::n20 : Kind::n4;
}
/// So few entries make a node this small: a few below its capacity, so that it does not grow again
/// at once.
[[nodiscard]] constexpr unsigned shrinks_at(Kind kind) noexcept {
  return kind == Kind::n4 ? 3 : 12;
}

}  // namespace roart

/// Given back unless linked. Null or no entry: out of space.
template <class Keys>
class Roart<Keys>::Draft {
 public:
  explicit Draft(const Roart& tree) noexcept : pool_(tree.pool_), opening_(tree.opening_) {}
  ~Draft() {
    for (Reservation& block : blocks_) pool_.heap().cancel(block);
  }
  Draft(const Draft&) = delete;
  Draft& operator=(const Draft&) = delete;

  [[nodiscard]] LeafArray* array() {
    void* const memory = reserve(sizeof(LeafArray));
    return memory == nullptr ? nullptr : LeafArray::make(memory, opening_);
  }
  /// A node of `as`'s path, or of a key's.
  [[nodiscard]] Node* node(Kind kind, const Node& as) {
    void* const memory = reserve(Node::bytes_of(kind));
    return memory == nullptr ? nullptr : Node::make(memory, kind, as, opening_);
  }
  [[nodiscard]] Node* node(Kind kind, unsigned level, const Path& path) {
    void* const memory = reserve(Node::bytes_of(kind));
    return memory == nullptr ? nullptr : Node::make(memory, kind, level, path, opening_);
  }

  /// A node at `level` with two entries, to hang below level `above`.
  [[nodiscard]] Entry hang(unsigned level, unsigned above, const Path& path, Entry lower,
                           Entry higher) {
    Node* const made = node(Kind::n4, level, path);
    if (made == nullptr) return {};
    made->add(lower);
    made->add(higher);
    return chain({0, Kind::n4, pool_.offset_of(made)}, level, above, path);
  }
  /// Puts nodes with one entry between a child at `level` and level `above`, as many as its prefix
  /// needs (N1).
  [[nodiscard]] Entry chain(Entry child, unsigned level, unsigned above, const Path& path) {
    while (level - above > Node::held_bytes) {
      level -= Node::held_bytes;
      Node* const made = node(Kind::n4, level, path);
      if (made == nullptr) return {};
      made->add(child);
      child = {0, Kind::n4, pool_.offset_of(made)};
    }
    return child;
  }

  /// Makes all of it durable, and visible by one store.
  void link(std::atomic<std::uint64_t>& word, Entry entry) noexcept {
    for (const Reservation& block : blocks_) pm::flush(pool_.base() + block.offset, block.bytes);
    pm::fence();  // N4
    pool_.heap().publish(blocks_, &word, entry.word());
    blocks_.clear();
  }

 private:
  [[nodiscard]] void* reserve(std::size_t bytes) {
    const Reservation block = pool_.heap().reserve(bytes);
    if (!block) return nullptr;
    blocks_.push_back(block);
    return pool_.at<void>(block.offset);
  }

  Pool& pool_;
  const std::uint16_t opening_;
  std::vector<Reservation> blocks_;
};

}  // namespace perdure
