// Hot: the height optimized trie with ROWEX, in DRAM.
// Source: Binna, Zangerle, Pichl, Specht, Leis, "HOT: A Height Optimized Trie Index for Main-Memory
// Database Systems", SIGMOD 2018. See design.md for every deviation.
//
// A binary Patricia trie over the keys' bits, cut into compound nodes of up to 32 entries so that
// the tree of nodes is low. Nodes are replaced, never changed, but for their entries; readers take
// no locks and never start again.
//
// Numbered invariants: key_bits.h K1, node.h N1-N5, and
//
// H1  all keys below an entry agree on every bit before the first branch below it, and the keys on
//     the two sides of a branch differ at its bit first. So the records ascend from left to right.
// H2  an entry is replaced only under the lock of its node (`root_lock_` for the root), and only if
//     it still is what the writer had read. Locks are taken from the bottom up; whoever does not
//     get one gives back all and starts again, or does without.
// H3  a replaced node is marked obsolete before its lock is released. So what is obsolete does not
//     change any more: a reader in it reads what was true when it was replaced.
// H4  memory that a thread may still read is freed only after a grace period.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "core/result.h"
#include "index/hot/node.h"
#include "index/hot/short_list.h"
#include "index/hot/trie.h"
#include "index/reference/arena_allocator.h"
#include "index/reference/volatile_record.h"
#include "index/writable_index.h"
#include "pool/epoch.h"

namespace perdure {

template <class Keys>
class Hot final : public WritableIndex<Hot<Keys>, Keys> {
 public:
  using Key = typename Keys::Key;
  using Value = typename Keys::Value;
  using ValueOut = typename Keys::ValueOut;
  using Record = typename Keys::Record;
  using Scan = typename Keys::Scan;

  explicit Hot(bool huge_pages) : arena_(huge_pages) {}

  Outcome put(Key key, Value value, Put kind);
  Outcome update(Key key, Value value) override;
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

  /// Levels of nodes.
  [[nodiscard]] unsigned height() const noexcept {
    const Entry root = root_.load(std::memory_order_acquire);
    return root == hot::no_entry ? 0 : hot::height_of(root);
  }
  /// No other operation may run.
  [[nodiscard]] std::uint64_t nodes() const noexcept { return nodes_below(root_.load()); }

 private:
  using KeyBits = hot::KeyBits<Keys>;
  using LeafRecord = VolatileRecord<Keys>;
  using Draft = RecordDraft<Keys>;
  using Entry = hot::Entry;
  using Node = hot::Node;

  /// Of integers, each level has a bit of its own at least, so no way is longer.
  static constexpr std::size_t usual_depth = Keys::kind == KeyKind::integer ? 64 : 24;

  /// A node on the way to a record, and the entry that leads on.
  struct Step {
    Node* node;
    unsigned index;
  };

  /// The way from the root to a record.
  struct Route {
    hot::ShortList<Step, usual_depth> steps;
    Entry leaf = hot::no_entry;  ///< the record, none only in an empty trie
  };

  /// Where a new key branches off a route.
  struct Branch {
    std::size_t level;  ///< of the step whose node takes the branch
    unsigned position;  ///< the bit
    bool one;           ///< the new key's bit there
    bool at_record;     ///< all that shares the way up to there is the record at the route's end
    Node::Range range;  ///< the entries of that node that share it
  };

  /// A change in the making: what it has locked and made.
  class Change;
  /// The locks of a normal insert.
  struct Locks;

  [[nodiscard]] static LeafRecord* record_of(Entry entry) noexcept {
    return static_cast<LeafRecord*>(hot::address_of_record(entry));
  }
  [[nodiscard]] static Entry entry_of(const LeafRecord* record) noexcept {
    return reinterpret_cast<Entry>(record) + hot::record_bit;
  }
  [[nodiscard]] static std::uint64_t number_of(Entry leaf) noexcept
    requires(Keys::kind == KeyKind::integer)
  {
    return record_of(leaf)->key();
  }
  [[nodiscard]] static constexpr hot::Trie::KeyOf key_of() noexcept {
    if constexpr (Keys::kind == KeyKind::integer)
      return number_of;
    else
      return nullptr;
  }
  [[nodiscard]] static KeyBits bits_of(Entry leaf) noexcept {
    return KeyBits(record_of(leaf)->key());
  }

  /// The record that `key` would be found at, or none. The caller is pinned, as everywhere below.
  [[nodiscard]] Entry find(const KeyBits& key) const noexcept;
  template <class Pass>
  [[nodiscard]] Entry descend(const KeyBits& key, Pass&& pass) const;
  void find(const KeyBits& key, Route& route) const;
  [[nodiscard]] static Branch branch_of(const Route& route, const KeyBits& key,
                                        unsigned position) noexcept;

  /// What leads to what is at `level` of the route: the entry above, or the root; and its lock.
  [[nodiscard]] std::atomic<Entry>& place_of(const Route& route, std::size_t level) noexcept {
    if (level == 0) return root_;
    const Step& above = route.steps[level - 1];
    return above.node->entry(above.index);
  }
  [[nodiscard]] pm::VersionLock& lock_of(const Route& route, std::size_t level) noexcept {
    return level == 0 ? root_lock_ : route.steps[level - 1].node->lock;
  }

  // Changing (change.cpp). False or nothing: something changed meanwhile, start again.
  [[nodiscard]] std::optional<Outcome> try_put(const KeyBits& key, Put kind, Route& route,
                                               Draft& draft);
  [[nodiscard]] bool insert_first(Draft& draft);
  [[nodiscard]] bool replace_record(const Route& route, Draft& draft);
  [[nodiscard]] bool push_down(const Route& route, const Branch& branch, Draft& draft);
  enum class Attempt : std::uint8_t { done, beaten, unfit };
  [[nodiscard]] static bool has_room(const Route& route) noexcept;
  [[nodiscard]] static std::uint64_t known_difference(const KeyBits& key, Put kind,
                                                      const Route& route) noexcept;
  [[nodiscard]] bool lock(const Route& route, Locks& locks) noexcept;
  [[nodiscard]] Attempt insert_into(const Route& route, const Branch& branch, Draft& draft,
                                    Locks& locks);
  [[nodiscard]] bool extend_wide(const Route& route, std::uint64_t differs, Draft& draft,
                                 Locks& locks)
    requires(Keys::kind == KeyKind::integer);
  void replace_last(const Route& route, Entry made, Draft& draft, Locks& locks);
  [[nodiscard]] bool add(const Route& route, const Branch& branch, Draft& draft);
  [[nodiscard]] bool take_out(const Route& route);
  /// False: nothing is done, what `rest` holds remains to be put in place.
  [[nodiscard]] bool merge(Change& change, const Route& route, const hot::Trie& rest);
  void retire(const void* object, std::size_t bytes);
  void retire_record(Entry leaf) { retire(record_of(leaf), record_of(leaf)->bytes()); }
  void free_below(Entry entry) noexcept;
  [[nodiscard]] static std::uint64_t nodes_below(Entry entry) noexcept;

  // Walking in order (walk.cpp).
  /// Calls `visit(record)` for every record from `from` on, in order, until it says false.
  template <class Visit>
  void walk_from(Key from, Visit&& visit) const;
  /// Makes `route` lead to the first entry with keys >= `from`, or to what may hold it.
  void seek(const KeyBits& from, Route& route) const;

  static void prefetch(Entry entry) noexcept;
  static void prefetch_entries(const Step& step) noexcept;

  class Checker;

  StripedArena arena_;
  mutable Epochs epochs_;  // declared after the arena: it goes first
  mutable pm::VersionLock root_lock_;
  std::atomic<Entry> root_{hot::no_entry};
};

// Calls `pass(node, index)` for each node on the way.
template <class Keys>
template <class Pass>
[[gnu::always_inline]] inline auto Hot<Keys>::descend(const KeyBits& key, Pass&& pass) const
    -> Entry {
  Entry entry = root_.load(std::memory_order_acquire);
  if (entry == hot::no_entry) return entry;
  const auto follow = [&](auto&& find_in) __attribute__((always_inline)) {
    while (!hot::is_record(entry)) {
      hot::prefetch_node(entry);
      Node& node = *hot::node_of(entry);
      const unsigned index = find_in(node);
      pass(node, index);
      entry = node.entry(index).load(std::memory_order_acquire);
    }
    return entry;
  };
  if constexpr (Keys::kind == KeyKind::integer)
    if (Node::is_wide()) return follow([&](Node& node) { return node.find_wide(key.word(0)); });
  return follow([&](Node& node) { return node.find(key); });
}

template <class Keys>
auto Hot<Keys>::find(const KeyBits& key) const noexcept -> Entry {
  return descend(key, [](Node&, unsigned) {});
}

template <class Keys>
[[gnu::always_inline]] inline void Hot<Keys>::find(const KeyBits& key, Route& route) const {
  route.steps.clear();
  if constexpr (Keys::kind == KeyKind::integer) {
    Step* step = route.steps.begin();
    route.leaf = descend(key, [&](Node& node, unsigned i) { *step++ = {&node, i}; });
    route.steps.end_at(step);
  } else {
    route.leaf = descend(key, [&](Node& node, unsigned i) { route.steps.push_back({&node, i}); });
  }
}

}  // namespace perdure
