// ArtOlc: the adaptive radix tree with optimistic lock coupling, in DRAM.
// Source: Leis, Kemper, Neumann, ICDE 2013 (the tree); Leis, Scheibner, Kemper, Neumann, "The ART
// of Practical Synchronization", DaMoN 2016 (the locks). See design.md for every deviation.
//
// Numbered invariants: node.h N1-N4, and
//
// A1  every record lies on the path of its key: the bytes of the prefixes and branches above it
//     begin its key, and are all of it where it is some node's `here`.
// A2  every node but the root has at least two entries. The root is an n256 without a prefix, and
//     is never replaced.
// A3  a node is changed only under its lock, and unlinked only under its parent's lock, too. Locks
//     are taken top-down, and never waited for while another is held.
// A4  memory that a thread may still read is freed only after a grace period.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/result.h"
#include "index/artolc/node.h"
#include "index/artolc/record.h"
#include "index/reference/arena_allocator.h"
#include "index/writable_index.h"
#include "pool/epoch.h"

namespace perdure {

template <class Keys>
class ArtOlc final : public WritableIndex<ArtOlc<Keys>, Keys> {
 public:
  using Key = typename Keys::Key;
  using Value = typename Keys::Value;
  using ValueOut = typename Keys::ValueOut;
  using Record = typename Keys::Record;
  using Scan = typename Keys::Scan;

  /// No memory for the root: std::bad_alloc.
  explicit ArtOlc(bool huge_pages);

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
  using Path = art::Path<Keys>;
  using TrieRecord = art::TrieRecord<Keys>;
  using Draft = RecordDraft<Keys>;
  using Child = art::Child;
  using Node = art::Node;
  using NodeKind = art::NodeKind;

  /// A node being read, and what proves later that it had not changed.
  struct Position {
    Node* node = nullptr;
    std::uint64_t version = 0;
    unsigned level = 0;  ///< bytes of the key above the node; once its prefix was passed, with it

    [[nodiscard]] bool holds() const noexcept { return node->lock.validate(version); }
    [[nodiscard]] bool lock() const noexcept { return node->lock.try_upgrade(version); }
  };

  /// How a node's prefix and a key compare.
  struct Fork {
    unsigned common = 0;      ///< bytes of the prefix that the key shares
    bool differs = false;     ///< false: all of them
    std::uint8_t byte = 0;    ///< the first other byte of the prefix
    std::uint64_t rest = 0;   ///< what follows it: the first eight bytes
    unsigned rest_bytes = 0;  ///< how many follow it
  };

  [[nodiscard]] static TrieRecord* record_of(Child child) noexcept {
    return reinterpret_cast<TrieRecord*>(child - art::record_bit);
  }
  [[nodiscard]] static Child child_of(const TrieRecord* record) noexcept {
    return reinterpret_cast<Child>(record) + art::record_bit;
  }
  [[nodiscard]] static Child child_of(const Node* node) noexcept {
    return reinterpret_cast<Child>(node);
  }
  [[nodiscard]] static Node* node_of(Child child) noexcept {
    return reinterpret_cast<Node*>(child);
  }

  // Going down. False, null or nothing: something changed meanwhile, start again.
  [[nodiscard]] Position start() const noexcept { return {root_, root_->lock.read_begin(), 0}; }
  [[nodiscard]] static bool enter(Position& at, Child child) noexcept;
  [[nodiscard]] static Child child_at(const Position& at, const Path& path) noexcept;
  [[nodiscard]] static const TrieRecord* any_record(Position at) noexcept;
  [[nodiscard]] static bool compare_prefix(const Position& at, const Path& path,
                                           Fork& fork) noexcept;
  /// Passes the prefix of `at`, as far as the node holds it. False: the key is not below.
  [[nodiscard]] static bool pass_prefix(Position& at, const Path& path) noexcept;
  /// Goes to the place of the key's record, and sets it or null.
  [[nodiscard]] bool find(Key key, Position& parent, Position& at,
                          TrieRecord*& found) const noexcept;

  // Changing (change.cpp). The caller is pinned.
  [[nodiscard]] std::optional<Outcome> try_put(const Path& path, Put kind, Draft& draft);
  [[nodiscard]] std::optional<Outcome> put_at_record(const Position& at, TrieRecord* present,
                                                     const Path& path, Put kind, Draft& draft);
  [[nodiscard]] bool change_value(const Position& at, TrieRecord* present, const Path& path,
                                  Draft& draft);
  [[nodiscard]] bool split_prefix(const Position& parent, const Position& at, const Fork& fork,
                                  const Path& path, Draft& draft);
  [[nodiscard]] bool add(const Position& parent, const Position& at, const Path& path,
                         Draft& draft);
  [[nodiscard]] bool grow(const Position& parent, const Position& at, const Path& path,
                          Draft& draft);
  [[nodiscard]] bool shrink(const Position& parent, const Position& at, const Path& path);
  [[nodiscard]] bool take_out(const Position& parent, const Position& at, const Path& path);
  [[nodiscard]] bool collapse(const Position& parent, const Position& at, const Path& path);

  /// Puts `child` in the place of `path` after the first `level` bytes. The place is free.
  static void put_below(Node& node, unsigned level, const Path& path, Child child) noexcept;
  /// Locks both, or neither.
  [[nodiscard]] static bool lock_both(const Position& parent, const Position& at) noexcept;
  /// Replaces the node at `at` by `by` below `parent`. Both are locked, and released.
  void replace_node(const Position& parent, const Position& at, const Path& path, Child by);
  [[nodiscard]] Node* new_node(NodeKind kind);
  void free_node(Node* node) noexcept { arena_.free(node, node->shape().node_bytes()); }
  void retire(const void* object, std::size_t bytes);
  void free_below(Node& node) noexcept;

  // Walking in order (walk.cpp).
  struct Frame {
    Position at;           ///< level: after the prefix
    unsigned next = 0;     ///< 0: `here` comes next; else the first child from byte next - 1 on
    bool bounded = false;  ///< the child below the walk's own byte may hold what lies before it
  };
  template <class Visit>
  [[nodiscard]] static bool walk(const Position& root, Key from, bool after,
                                 std::vector<Frame>& frames, Visit&& visit);
  /// Calls `visit(record)` for every record from `from` on, in order, until it says false.
  template <class Visit>
  void walk_from(Key from, Visit&& visit) const;
  [[nodiscard]] static bool open(std::vector<Frame>& frames, Position at, const Path& from,
                                 bool bounded, bool after);

  [[nodiscard]] Result<void> check_node(const Node& node, std::vector<std::uint8_t>& path) const;
  [[nodiscard]] Result<void> check_child(Child child, std::vector<std::uint8_t>& path,
                                         bool ends) const;

  StripedArena arena_;
  mutable Epochs epochs_;  // declared after the arena: it goes first
  Node* const root_;
};

/// Moves on to the node `child`, which was read at `at`.
template <class Keys>
bool ArtOlc<Keys>::enter(Position& at, Child child) noexcept {
  Node* const node = node_of(child);
  const std::uint64_t version = node->lock.read_begin();
  if (pm::VersionLock::is_obsolete(version) || !at.holds()) return false;
  at = {node, version, at.level + 1};
  return true;
}

/// `at.level` is after the prefix.
template <class Keys>
auto ArtOlc<Keys>::child_at(const Position& at, const Path& path) noexcept -> Child {
  return at.level == path.size() ? at.node->here.load(std::memory_order_acquire)
                                 : at.node->find(path[at.level]);
}

template <class Keys>
bool ArtOlc<Keys>::pass_prefix(Position& at, const Path& path) noexcept {
  const unsigned length = at.node->shape().prefix_bytes();
  if (length == 0) return true;
  if (path.size() < at.level + length) return false;
  const unsigned held = std::min(length, Node::prefix_held);
  const std::uint64_t differs =
      at.node->prefix.load(std::memory_order_acquire) ^ path.word(at.level);
  at.level += length;
  return differs >> (64 - 8 * held) == 0;
}

}  // namespace perdure
