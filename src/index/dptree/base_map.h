// Where the base leaves begin: an adaptive radix tree in DRAM over their separators, made anew by
// each merge and never changed.
//
// A node stands for a run of leaves whose separators share their first `depth` bytes, and leads on
// by the next one. It is one cache line: a bit for each byte that a child has, and before each word
// of bits how many there are; the first leaves of the children lie side by side, and behind the
// last one the leaf where the node's run ends. A child with a handful of leaves has no node: its
// separators are compared, which costs no more misses than one of them, and no branch that nobody
// can predict. So evenly spread keys need two levels of nodes, and these few lines.
//
// M1  leaf i covers the keys from separator i up to separator i + 1, the first all below, too.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "index/index.h"

namespace perdure::dptree {

/// Separators and their leaves, as the tree reads them: bytes that sort as the keys do.
class IntegerSeparators {
 public:
  /// A key that is looked for.
  class Probe {
   public:
    explicit Probe(std::uint64_t key) noexcept : key_(key) {}
    [[nodiscard]] std::uint64_t word() const noexcept { return key_; }
    [[nodiscard]] static std::uint32_t size() noexcept { return sizeof(std::uint64_t); }
    [[nodiscard]] std::uint8_t byte(std::uint32_t i) const noexcept {
      return static_cast<std::uint8_t>(key_ >> (56 - 8 * i));
    }
    /// How its first `bytes` bytes compare with those of `other`.
    [[nodiscard]] int compare(Probe other, std::uint32_t bytes) const noexcept {
      const unsigned rest = 64 - 8 * bytes;
      const std::uint64_t mine = bytes == 0 ? 0 : key_ >> rest;
      const std::uint64_t theirs = bytes == 0 ? 0 : other.key_ >> rest;
      return mine < theirs ? -1 : static_cast<int>(mine > theirs);
    }

   private:
    std::uint64_t key_;
  };

  void add(std::uint64_t key, std::uint64_t leaf) { entries_.push_back({key, leaf}); }
  /// So many are compared rather than told apart by a node: two cache lines.
  static constexpr std::uint32_t few = 8;
  [[nodiscard]] std::size_t size() const noexcept { return entries_.size(); }
  [[nodiscard]] Probe probe(std::size_t i) const noexcept { return Probe(entries_[i].key); }
  [[nodiscard]] std::uint64_t key(std::size_t i) const noexcept { return entries_[i].key; }
  /// How many from `first` up to `end` are not above `key`. Most often there are two at most, which
  /// are counted without a branch; those behind `end` are above it.
  [[nodiscard]] std::uint32_t up_to(std::uint32_t first, std::uint32_t end,
                                    Probe key) const noexcept {
    const std::span<const Entry> entries = entries_;
    const std::uint32_t last = static_cast<std::uint32_t>(entries.size()) - 1;
    const auto counts = [&](std::uint32_t i) -> std::uint32_t {
      return static_cast<std::uint32_t>(i < end) &
             static_cast<std::uint32_t>(entries[std::min(i, last)].key <= key.word());
    };
    std::uint32_t count = counts(first) + counts(first + 1);
    for (std::uint32_t i = first + 2; i < end; ++i) count += counts(i);
    return count;
  }
  [[nodiscard]] std::uint64_t leaf(std::size_t i) const noexcept { return entries_[i].leaf; }
  [[nodiscard]] std::uint64_t bytes() const noexcept { return entries_.capacity() * sizeof(Entry); }

 private:
  struct Entry {
    std::uint64_t key;
    std::uint64_t leaf;
  };
  std::vector<Entry> entries_;
};

class TextSeparators {
 public:
  class Probe {
   public:
    explicit Probe(std::string_view key) noexcept : key_(key) {}
    [[nodiscard]] std::uint32_t size() const noexcept {
      return static_cast<std::uint32_t>(key_.size());
    }
    [[nodiscard]] std::uint8_t byte(std::uint32_t i) const noexcept {
      return static_cast<std::uint8_t>(key_[i]);
    }
    [[nodiscard]] int compare(Probe other, std::uint32_t bytes) const noexcept {
      return key_.substr(0, bytes).compare(other.key_.substr(0, bytes));
    }

   private:
    std::string_view key_;
  };

  void add(std::string_view key, std::uint64_t leaf) {
    entries_.push_back({text_.size(), leaf});
    text_.append(key);
  }
  [[nodiscard]] std::size_t size() const noexcept { return entries_.size(); }
  [[nodiscard]] Probe probe(std::size_t i) const noexcept { return Probe(key(i)); }
  [[nodiscard]] std::string_view key(std::size_t i) const noexcept {
    const std::size_t end = i + 1 < entries_.size() ? entries_[i + 1].begin : text_.size();
    return std::string_view(text_).substr(entries_[i].begin, end - entries_[i].begin);
  }
  static constexpr std::uint32_t few = 1;  // each has its text elsewhere
  [[nodiscard]] std::uint32_t up_to(std::uint32_t first, std::uint32_t end,
                                    Probe key) const noexcept {
    std::uint32_t count = 0;
    while (first + count < end && key.compare(probe(first + count), ~std::uint32_t{0}) >= 0)
      ++count;
    return count;
  }
  [[nodiscard]] std::uint64_t leaf(std::size_t i) const noexcept { return entries_[i].leaf; }
  [[nodiscard]] std::uint64_t bytes() const noexcept {
    return entries_.capacity() * sizeof(Entry) + text_.capacity();
  }

 private:
  struct Entry {
    std::size_t begin;
    std::uint64_t leaf;
  };
  std::vector<Entry> entries_;
  std::string text_;
};

template <class Separators>
class RadixTree {
 public:
  using Probe = typename Separators::Probe;

  void build(const Separators& separators);
  /// The last separator that is not above `key`; the first where all are. There is one at least.
  [[nodiscard]] std::size_t find(const Separators& separators, Probe key) const noexcept;
  [[nodiscard]] std::uint64_t bytes() const noexcept {
    return nodes_.capacity() * sizeof(Node) +
           (first_leaves_.capacity() + child_nodes_.capacity()) * sizeof(std::uint32_t);
  }

 private:
  struct alignas(64) Node {
    std::uint32_t first;
    std::uint32_t last;
    std::uint32_t depth;
    std::uint32_t children;              ///< where in `first_leaves_`
    std::array<std::uint64_t, 4> bits;   ///< a child has this byte
    std::array<std::uint8_t, 4> before;  ///< bits in the words before
    std::uint32_t nodes;                 ///< where in `child_nodes_`; `none`: no child has a node
    bool ends_here;                      ///< the first separator is `depth` bytes long
  };
  static_assert(sizeof(Node) == 64);
  static constexpr std::uint32_t none = ~std::uint32_t{0};

  std::uint32_t build_range(const Separators& separators, std::uint32_t first, std::uint32_t end,
                            std::uint32_t depth);

  std::vector<Node> nodes_;
  std::vector<std::uint32_t> first_leaves_;  ///< of children
  std::vector<std::uint32_t> child_nodes_;   ///< `none`: its leaves are compared
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
    separators_.add(size() == 0 ? Key{} : separator, leaf);  // M1
  }
  /// After the last `add`.
  void finish() {
    if (size() != 0) tree_.build(separators_);
  }

  [[nodiscard]] std::size_t size() const noexcept { return separators_.size(); }
  [[nodiscard]] std::uint64_t leaf(std::size_t i) const noexcept { return separators_.leaf(i); }
  [[nodiscard]] Key separator(std::size_t i) const noexcept { return separators_.key(i); }
  [[nodiscard]] std::size_t find(Key key) const noexcept {
    return tree_.find(separators_, typename Separators::Probe(key));
  }
  [[nodiscard]] std::uint64_t bytes() const noexcept {
    return sizeof *this + separators_.bytes() + tree_.bytes();
  }

  const std::uint64_t version;
  std::uint64_t records = 0;  ///< when it was made
  /// Leaves in the chain that removals in place have emptied, as recovery found them: they cover
  /// nothing, and the next merge leaves them out.
  std::vector<std::uint64_t> empty_leaves;

 private:
  Separators separators_;
  RadixTree<Separators> tree_;
};

extern template class RadixTree<IntegerSeparators>;
extern template class RadixTree<TextSeparators>;

}  // namespace perdure::dptree
