// Masstree: a trie of B+-trees, one tree for each eight bytes of the keys; in DRAM.
// Source: Mao, Kohler, Morris, "Cache Craftiness for Fast Multicore Key-Value Storage", EuroSys
// 2012. See design.md for every deviation.
//
// Numbered invariants: node.h B1-B5, and
//
// M1  a layer at depth d holds the keys that share the first 8 d bytes, by their next slice. An
//     entry `longer` is one record, or the root of the next layer once two keys share its slice.
// M2  locks are waited for in one direction: from a layer to the next one; in a layer from a border
//     node to its left neighbour, then to its parent and on upwards. So nobody waits in a circle.
// M3  the leftmost border node of a layer and of an interior node stays while these do.
// M4  a root that was split has a parent: whoever still knows it climbs.
// M5  memory that a thread may still read is freed only after a grace period.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <span>
#include <string>

#include "core/result.h"
#include "index/common/key_prefix.h"
#include "index/masstree/node.h"
#include "index/reference/arena_allocator.h"
#include "index/reference/text_record.h"
#include "index/writable_index.h"
#include "pool/epoch.h"

namespace perdure {

namespace masstree {

/// Where a key stands in the layer at a depth.
struct Step {
  std::uint64_t slice;
  std::uint8_t length;
};
[[nodiscard]] inline Step step_at(std::uint64_t key, std::size_t) noexcept { return {key, 8}; }
[[nodiscard]] inline Step step_at(std::string_view key, std::size_t depth) noexcept {
  const std::string_view rest = key.substr(8 * depth);
  return {key_prefix(rest), static_cast<std::uint8_t>(std::min<std::size_t>(rest.size(), longer))};
}

}  // namespace masstree

template <class Keys>
class Masstree final : public WritableIndex<Masstree<Keys>, Keys> {
 public:
  using Key = typename Keys::Key;
  using Value = typename Keys::Value;
  using ValueOut = typename Keys::ValueOut;
  using Record = typename Keys::Record;
  using Scan = typename Keys::Scan;

  /// No memory for the root: std::bad_alloc.
  explicit Masstree(bool huge_pages);

  Outcome put(Key key, Value value, Put kind);
  Outcome remove(Key key) override;
  Outcome lookup(Key key, ValueOut& value) override;
  std::size_t scan(Key from, std::size_t count, Scan& out) override;
  Result<void> bulk_load(std::span<const Record> records) override;

  [[nodiscard]] std::uint64_t size() const override;
  [[nodiscard]] Result<void> check_invariants() const override;
  [[nodiscard]] std::uint64_t dram_bytes() const override {
    return arena_.dram_bytes() + sizeof *this;
  }
  void quiesce() override { epochs_.drain(); }

 private:
  static constexpr bool is_bytes = Keys::kind == KeyKind::bytes;
  using Node = masstree::Node;
  using Border = masstree::Border;
  using Interior = masstree::Interior;
  using Permutation = masstree::Permutation;
  using Entry = masstree::Entry;
  using Step = masstree::Step;

  /// A border node being read, and what proves later that it had not changed.
  struct Position {
    Border* border = nullptr;  ///< null: the layer is gone
    std::uint64_t version = 0;
    [[nodiscard]] bool holds() const noexcept { return border->lock.validate(version); }
  };
  /// Where a step is in a border node, or would be.
  struct Spot {
    unsigned rank = 0;
    bool taken = false;
    unsigned place = 0;  ///< of the entry, if `taken`
    Entry entry{};
  };
  /// Where a key's search ended: in which layer, and with what.
  struct Place {
    Position at;
    std::size_t depth = 0;
    bool found = false;
    std::uint64_t word = 0;  ///< of the entry, if `found`
    Permutation order;       ///< of the border node, and
    Spot spot;               ///< where the key's step is in it
  };
  /// Where an integer is, or would be.
  struct Number {
    Position at;
    Permutation order;
    unsigned rank;
    unsigned place;  ///< of the entry, if `taken`
    bool taken;
    std::uint64_t word;  ///< of the entry, if `taken`
  };
  class Held;    ///< locks that are released without a change, unless it is told otherwise
  class Growth;  ///< the nodes of a split: locked, and allocated, before anything changes

  [[nodiscard]] static bool is_link(const Entry& entry) noexcept {
    return is_bytes && entry.length == masstree::longer && (entry.word & masstree::link_bit) != 0;
  }
  [[nodiscard]] static Node* root_of_link(std::uint64_t word) noexcept {
    return reinterpret_cast<Node*>(word - masstree::link_bit);
  }
  [[nodiscard]] static std::uint64_t link_to(const Node* node) noexcept {
    return reinterpret_cast<std::uint64_t>(node) + masstree::link_bit;
  }
  [[nodiscard]] static TextRecord* text_of(std::uint64_t word) noexcept {
    return reinterpret_cast<TextRecord*>(word);
  }
  [[nodiscard]] static bool is_of(const Entry& entry, Key key) noexcept {
    if constexpr (is_bytes)
      return entry.length != masstree::longer || text_of(entry.word)->key() == key;
    else
      return true;
  }

  // Reading (find.h, masstree.cpp). The caller is pinned.
  [[nodiscard]] static Node* climb(Node* node) noexcept;
  template <class ChildOf>
  [[nodiscard]] static Position descend(Node* node, ChildOf&& child_of) noexcept;
  [[nodiscard]] static Position find_border(Node* root, std::uint64_t slice) noexcept;
  [[nodiscard, gnu::noinline]] static Node* wait_for_root(Node* root) noexcept;
  [[nodiscard]] Number find_number(std::uint64_t slice) const noexcept;
  [[nodiscard]] static Number number_in(const Border& border, std::uint64_t slice) noexcept;
  [[nodiscard]] static Spot spot_of(const Border& border, Permutation order,
                                    const Step& step) noexcept;
  [[nodiscard]] static Spot spot_again(const Place& place, const Step& step) noexcept;
  [[nodiscard]] static bool advance(Position& at, std::uint64_t slice) noexcept;
  /// The place of `key`, in the layer at depth `deepest` at the most (then it may be a link).
  /// Nothing: a layer was taken out meanwhile, start again.
  [[nodiscard]] std::optional<Place> find(Key key,
                                          std::size_t deepest = ~std::size_t{0}) const noexcept;

  // Changing (change.cpp). The caller is pinned.
  [[nodiscard]] Outcome put_number(std::uint64_t key, std::uint64_t value, Put kind)
    requires(Keys::kind == KeyKind::integer);
  [[gnu::noinline]] void split_for(Border& border, unsigned rank, Key key, Value value);
  [[nodiscard]] std::optional<Outcome> try_put(Key key, Value value, Put kind);
  [[nodiscard]] std::optional<Outcome> put_at(Border& border, const Spot& spot, Key key,
                                              Value value, Put kind, std::size_t depth, Held& held);
  void change_value(std::atomic<std::uint64_t>& word, Key key, Value value, Held& held);
  [[nodiscard]] std::uint64_t make_word(Key key, Value value);
  [[nodiscard]] std::uint64_t make_layer(TextRecord* present, TextRecord* added, std::size_t depth);
  void add(Border& border, unsigned rank, const Step& step, Key key, Value value, Held& held);
  void split(Border& border, unsigned rank, const Entry& added, Growth& growth);
  void link_above(Node& left, Node& right, std::uint64_t separator, Growth& growth);
  [[nodiscard]] std::optional<Outcome> try_remove(Key key);
  void take_out(Border& border, Held& held);
  [[nodiscard]] bool drop_layer(Key key, std::size_t depth, bool& emptied);
  [[nodiscard]] static Interior* lock_parent(const Node& node) noexcept;
  [[nodiscard]] static Border* lock_previous(const Border& border) noexcept;
  template <class Kind, class Argument>
  [[nodiscard]] Kind* new_node(Argument argument) {
    return new (arena_.allocate(sizeof(Kind))) Kind(argument);
  }
  void retire(const void* object, std::size_t bytes);
  void free_below(Node& node) noexcept;
  void free_entry(const Entry& entry) noexcept;

  // Walking in order (walk.cpp).
  struct From {
    Key key;
    bool after;  ///< without the key itself
  };
  [[nodiscard]] static Key key_of(const Entry& entry) noexcept {
    if constexpr (is_bytes)
      return text_of(entry.word)->key();
    else
      return entry.slice;
  }
  template <class Visit>
  [[nodiscard]] static bool walk(Node* root, const From& from, std::size_t depth, bool bounded,
                                 bool& ended, Visit& visit);
  template <class Visit>
  void walk_from(Key from, Visit&& visit) const;

  struct Range {
    std::uint64_t low = 0;
    std::optional<std::uint64_t> high;  ///< exclusive
  };
  [[nodiscard]] Result<void> check_layer(Node& root, std::string& above) const;
  [[nodiscard]] Result<void> check_node(Node& node, Range range, Border*& last,
                                        std::string& above) const;
  [[nodiscard]] Result<void> check_entry(const Entry& entry, std::string& above) const;

  StripedArena arena_;
  mutable Epochs epochs_;  // declared after the arena: it goes first
  std::atomic<Node*> root_;
};

}  // namespace perdure
