// Where the base leaves begin: an adaptive radix tree in DRAM over their separators, made anew by
// each merge and never changed.
//
// A node stands for a run of leaves whose separators share their first `depth` bytes, and leads on
// by the next one. It is one cache line: a bit for each byte that a child has, and before each word
// of bits how many there are; the children lie side by side. A child with a handful of leaves has
// no node: its separators are compared, which costs no unpredictable branch, and where
// they are integers no line but the child's. So evenly spread keys need two levels of nodes, which
// stay in the cache, and one line.
//
// M1  leaf i covers the keys from separator i up to separator i + 1, the first all below, too.
// M2  beside a leaf stands which of its sets is current in this version, so that a reader
//     prefetches no line of the other.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "index/index.h"
#include "pm/pm.h"
#include "pool/ptr.h"

namespace perdure::dptree {

/// A leaf by its pool offset, and which of its sets is current, in one word.
class LeafLink {
 public:
  LeafLink() noexcept = default;
  LeafLink(std::uint64_t offset, unsigned which) noexcept : word_(offset | which) {}
  [[nodiscard]] std::uint64_t offset() const noexcept { return word_ & ~std::uint64_t{1}; }
  [[nodiscard]] unsigned which() const noexcept { return static_cast<unsigned>(word_ & 1); }
  [[nodiscard]] bool operator==(const LeafLink&) const noexcept = default;

 private:
  std::uint64_t word_ = null_offset;
};
/// A leaf and its number.
struct LeafPlace {
  std::size_t number;
  LeafLink leaf;
};
/// Where a child has no node.
inline constexpr std::uint32_t no_node = ~std::uint32_t{0} >> 2;

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

  void add(std::uint64_t key, LeafLink leaf) { entries_.push_back({key, leaf}); }
  /// Up to this many are compared rather than told apart by a node.
  static constexpr std::uint32_t few = 3;
  /// The separators from one number up to another, of which there are a few, or else a node.
  class alignas(64) Run {
   public:
    Run(const IntegerSeparators& all, std::uint32_t first, std::uint32_t end) noexcept
        : first_(end - first > few ? end - 1 : first), count_and_node_(end - first_) {
      const std::uint32_t count = end - first_;
      leaf_[0] = all.leaf(first_ == 0 ? 0 : first_ - 1);
      for (std::uint32_t i = 0; i < few; ++i) {
        key_[i] = i < count ? all.key(first_ + i) : ~std::uint64_t{0};
        leaf_[i + 1] = all.leaf(first_ + std::min(i, count - 1));
      }
      set_node(no_node);
    }
    [[nodiscard]] std::uint32_t node() const noexcept { return count_and_node_ >> 2; }
    void set_node(std::uint32_t node) noexcept {
      count_and_node_ = (count_and_node_ & 3) | node << 2;
    }
    /// The last separator that is not above `key`: in the run, or just before it. Of a run with a
    /// node, when `key` is after all of them, the last.
    [[nodiscard]] LeafPlace find(const IntegerSeparators& /*all*/, Probe key) const noexcept {
      std::uint32_t up_to = 0;
      for (const std::uint64_t separator : key_)
        up_to += static_cast<std::uint32_t>(separator <= key.word());
      const std::uint32_t number = first_ + std::min(up_to, count_and_node_ & 3);
      return {number == 0 ? 0 : number - 1, leaf_[up_to]};
    }

   private:
    std::uint32_t first_;
    std::uint32_t count_and_node_;  ///< two bits, and the rest
    std::array<std::uint64_t, few> key_;
    std::array<LeafLink, few + 1> leaf_;  ///< of the separator before the run, and its own
  };

  [[nodiscard]] std::size_t size() const noexcept { return entries_.size(); }
  [[nodiscard]] Probe probe(std::size_t i) const noexcept { return Probe(entries_[i].key); }
  [[nodiscard]] std::uint64_t key(std::size_t i) const noexcept { return entries_[i].key; }
  [[nodiscard]] LeafLink leaf(std::size_t i) const noexcept { return entries_[i].leaf; }
  void prefetch(std::size_t i) const noexcept { pm::prefetch(&entries_[i]); }
  [[nodiscard]] std::uint64_t bytes() const noexcept { return entries_.capacity() * sizeof(Entry); }

 private:
  struct Entry {
    std::uint64_t key;
    LeafLink leaf;
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

  void add(std::string_view key, LeafLink leaf) {
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
  class Run {
   public:
    Run(const TextSeparators& /*all*/, std::uint32_t first, std::uint32_t end) noexcept
        : first_(end - first > few ? end - 1 : first), node_(no_node) {}
    [[nodiscard]] std::uint32_t node() const noexcept { return node_; }
    void set_node(std::uint32_t node) noexcept { node_ = node; }
    [[nodiscard]] LeafPlace find(const TextSeparators& all, Probe key) const noexcept {
      const bool is_below = first_ != 0 && key.compare(all.probe(first_), ~std::uint32_t{0}) < 0;
      const std::size_t number = is_below ? first_ - 1 : first_;
      return {number, all.leaf(number)};
    }

   private:
    std::uint32_t first_;
    std::uint32_t node_;
  };
  [[nodiscard]] LeafLink leaf(std::size_t i) const noexcept { return entries_[i].leaf; }
  void prefetch(std::size_t i) const noexcept { pm::prefetch(&entries_[i]); }
  [[nodiscard]] std::uint64_t bytes() const noexcept {
    return entries_.capacity() * sizeof(Entry) + text_.capacity();
  }

 private:
  struct Entry {
    std::size_t begin;
    LeafLink leaf;
  };
  std::vector<Entry> entries_;
  std::string text_;
};

template <class Separators>
class RadixTree {
 public:
  using Probe = typename Separators::Probe;
  using Run = typename Separators::Run;
  /// How far a search has come without the line that is likely not in the cache: to a run of
  /// separators, or, without one, to a separator.
  struct Way {
    const Run* run = nullptr;
    std::size_t number = 0;
    /// Prefetches the line, for a caller who does something else before it goes on.
    void prefetch() const noexcept {
      if (run != nullptr) pm::prefetch(run);
    }
  };

  void build(const Separators& separators);
  /// There is one separator at least.
  [[nodiscard]] Way approach(const Separators& separators, Probe key) const noexcept;
  /// The last separator that is not above `key`; the first where all are.
  [[nodiscard]] static LeafPlace find(const Separators& separators, Probe key, Way way) noexcept {
    if (way.run != nullptr) return way.run->find(separators, key);
    return {way.number, separators.leaf(way.number)};
  }
  [[nodiscard]] LeafPlace find(const Separators& separators, Probe key) const noexcept;
  [[nodiscard]] std::uint64_t bytes() const noexcept {
    return nodes_.capacity() * sizeof(Node) + children_.capacity() * sizeof(Run);
  }

 private:
  struct alignas(64) Node {
    std::uint32_t first;
    std::uint32_t last;
    std::uint32_t depth;
    std::uint32_t children;              ///< where in `children_`
    std::array<std::uint64_t, 4> bits;   ///< a child has this byte
    std::array<std::uint8_t, 4> before;  ///< bits in the words before
    bool ends_here;                      ///< the first separator is `depth` bytes long
    bool is_last;                        ///< no child has a node
  };
  static_assert(sizeof(Node) == 64);

  std::uint32_t build_range(const Separators& separators, std::uint32_t first, std::uint32_t end,
                            std::uint32_t depth);

  std::vector<Node> nodes_;
  std::vector<Run> children_;
};

/// One version of the base tree: its leaves in key order.
template <class Keys>
class BaseMap {
 public:
  using Key = typename Keys::Key;
  using Separators =
      std::conditional_t<Keys::kind == KeyKind::integer, IntegerSeparators, TextSeparators>;
  using Way = typename RadixTree<Separators>::Way;

  explicit BaseMap(std::uint64_t version) : version(version) {}

  void add(Key separator, LeafLink leaf) {
    separators_.add(size() == 0 ? Key{} : separator, leaf);  // M1
  }
  /// After the last `add`.
  void finish() {
    if (size() != 0) tree_.build(separators_);
  }

  [[nodiscard]] std::size_t size() const noexcept { return separators_.size(); }
  [[nodiscard]] LeafLink leaf(std::size_t i) const noexcept { return separators_.leaf(i); }
  [[nodiscard]] Key separator(std::size_t i) const noexcept { return separators_.key(i); }
  /// Prefetches a separator and its leaf's place.
  void prefetch(std::size_t i) const noexcept { separators_.prefetch(i); }
  /// The first part of a search; `find` goes on.
  [[nodiscard]] Way approach(Key key) const noexcept {
    return size() == 0 ? Way{} : tree_.approach(separators_, typename Separators::Probe(key));
  }
  /// The leaf that covers the key; without leaves, none.
  [[nodiscard]] LeafPlace find(Key key, Way way) const noexcept {
    if (size() == 0) return {};
    return tree_.find(separators_, typename Separators::Probe(key), way);
  }
  [[nodiscard]] LeafPlace find(Key key) const noexcept {
    if (size() == 0) return {};
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
