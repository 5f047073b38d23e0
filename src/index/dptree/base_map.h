// Where the base leaves begin: an adaptive radix tree in DRAM over their separators, made anew by
// each merge and never changed.
//
// A node stands for a run of leaves whose separators share their first `depth` bytes, and leads on
// by the next one; up to 32 children are counted, more are looked up in a table of 256.
//
// M1  leaf i covers the keys from separator i up to separator i + 1, the first all below, too.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "index/index.h"

namespace perdure::dptree {

/// Separators as the tree reads them: bytes that sort as the keys do.
class IntegerSeparators {
 public:
  void add(std::uint64_t key) { words_.push_back(__builtin_bswap64(key)); }
  [[nodiscard]] std::size_t size() const noexcept { return words_.size(); }
  [[nodiscard]] std::string_view text(std::size_t i) const noexcept {
    return {reinterpret_cast<const char*>(&words_[i]), sizeof(std::uint64_t)};
  }
  [[nodiscard]] std::uint64_t key(std::size_t i) const noexcept {
    return __builtin_bswap64(words_[i]);
  }
  [[nodiscard]] std::uint64_t bytes() const noexcept { return words_.capacity() * 8; }

 private:
  std::vector<std::uint64_t> words_;
};

class TextSeparators {
 public:
  void add(std::string_view key) {
    begins_.push_back(text_.size());
    text_.append(key);
  }
  [[nodiscard]] std::size_t size() const noexcept { return begins_.size(); }
  [[nodiscard]] std::string_view text(std::size_t i) const noexcept {
    const std::size_t end = i + 1 < begins_.size() ? begins_[i + 1] : text_.size();
    return std::string_view(text_).substr(begins_[i], end - begins_[i]);
  }
  [[nodiscard]] std::string_view key(std::size_t i) const noexcept { return text(i); }
  [[nodiscard]] std::uint64_t bytes() const noexcept {
    return begins_.capacity() * sizeof(std::size_t) + text_.capacity();
  }

 private:
  std::vector<std::size_t> begins_;
  std::string text_;
};

class RadixTree {
 public:
  template <class Separators>
  void build(const Separators& separators);
  /// The last separator that is not above `key`; the first where all are. There is one at least.
  template <class Separators>
  [[nodiscard]] std::size_t find(const Separators& separators, std::string_view key) const noexcept;
  [[nodiscard]] std::uint64_t bytes() const noexcept {
    return nodes_.capacity() * sizeof(Node) + bytes_.capacity() + children_.capacity() * 4;
  }

 private:
  struct Node {
    std::uint32_t first;
    std::uint32_t last;
    std::uint32_t depth;
    std::uint32_t count;     ///< children
    std::uint32_t bytes;     ///< where in `bytes_`: the children's bytes, or the table of ranks
    std::uint32_t children;  ///< where in `children_`
    bool ends_here;          ///< the first separator is `depth` bytes long
  };
  static constexpr std::uint32_t leaf_bit = 1U << 31;
  static constexpr std::uint32_t counted = 32;

  template <class Separators>
  [[nodiscard]] std::uint32_t build_range(const Separators& separators, std::uint32_t first,
                                          std::uint32_t end, std::uint32_t depth);
  [[nodiscard]] std::uint32_t rank_of(const Node& node, std::uint8_t byte) const noexcept;
  [[nodiscard]] std::uint32_t first_of(std::uint32_t child) const noexcept {
    return (child & leaf_bit) != 0 ? child & ~leaf_bit : nodes_[child].first;
  }

  std::vector<Node> nodes_;
  std::vector<std::uint8_t> bytes_;
  std::vector<std::uint32_t> children_;
  std::uint32_t root_ = 0;
};

/// One version of the base tree: its leaves in key order.
template <class Keys>
class BaseMap {
 public:
  using Key = typename Keys::Key;
  using Separators =
      std::conditional_t<Keys::kind == KeyKind::integer, IntegerSeparators, TextSeparators>;

  explicit BaseMap(std::uint64_t version) : version(version) {}

  void add(Key separator, std::uint64_t leaf) {
    separators_.add(size() == 0 ? Key{} : separator);  // M1
    leaves_.push_back(leaf);
  }
  /// After the last `add`.
  void finish() {
    if (size() != 0) tree_.build(separators_);
  }

  [[nodiscard]] std::size_t size() const noexcept { return leaves_.size(); }
  [[nodiscard]] std::uint64_t leaf(std::size_t i) const noexcept { return leaves_[i]; }
  [[nodiscard]] Key separator(std::size_t i) const noexcept { return separators_.key(i); }
  [[nodiscard]] std::size_t find(Key key) const noexcept {
    if constexpr (Keys::kind == KeyKind::integer) {
      const std::uint64_t word = __builtin_bswap64(key);
      return tree_.find(separators_, {reinterpret_cast<const char*>(&word), sizeof word});
    } else {
      return tree_.find(separators_, key);
    }
  }
  [[nodiscard]] std::uint64_t bytes() const noexcept {
    return sizeof *this + separators_.bytes() + tree_.bytes() + leaves_.capacity() * 8;
  }

  const std::uint64_t version;
  std::uint64_t records = 0;  ///< when it was made
  /// Leaves in the chain that removals in place have emptied, as recovery found them: they cover
  /// nothing, and the next merge leaves them out.
  std::vector<std::uint64_t> empty_leaves;

 private:
  Separators separators_;
  std::vector<std::uint64_t> leaves_;
  RadixTree tree_;
};

}  // namespace perdure::dptree
