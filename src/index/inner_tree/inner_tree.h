// InnerTree: sorted inner nodes in DRAM over leaves it knows only as addresses. Rebuilt at
// recovery; nothing here is durable.
//
// Traversal runs in a hardware transaction where these are on (the caller's `pm::elide`
// around `find_in_transaction`), otherwise by optimistic versions node by node (`find`), as in Leis
// et al., "The ART of Practical Synchronization" (DaMoN 2016). Both may run at once: a transaction
// aborts on a locked node, and whoever changes a node locks it, so either side notices the other.
// The software path is complete in itself.
//
// N1  a node's version lock is held while its keys or children change.
// N2  keys of a node ascend; child i covers [key i-1, key i).
// N3  every child range is covered by exactly one leaf; leaves have no two parents.
// N4  inner locks are taken top-down, after any leaf lock, and their holders never wait: a lock
//     that is not free ends the attempt.
// N5  all leaves are at one depth; the root alone may have a single child.
//     (A node below it may for a moment: the next `remove` that passes repairs it.)
//
// Nodes split top-down: a full node met on the way to an insertion is split before it is entered,
// so no split travels upwards and at most two locks are held. Removal repairs in the same way.
#pragma once

#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>

#include "core/result.h"
#include "index/index.h"
#include "index/inner_tree/frame_layout.h"
#include "index/inner_tree/inner_node.h"
#include "index/inner_tree/node_arena.h"
#include "pm/pm.h"
#include "pool/epoch.h"

namespace perdure {

template <class Keys, class Layout = InnerLayout<Keys>>
class InnerTree {
 public:
  using Key = typename Keys::Key;

  struct Options {
    unsigned entries = 128;  ///< separators a node holds, 3 .. 1024
    bool huge_pages = true;
    Pool* pool = nullptr;  ///< where nodes and texts are (node_arena.h); null: in DRAM
  };
  struct Child {
    Key lowest;  ///< separator: the lowest key that leads to `leaf` (ignored for the first)
    void* leaf;
  };
  /// The leaves right of one that was found, as far as they are under the same node: good for
  /// prefetching, and for nothing else.
  class Following {
   public:
    Following(const Layout& layout, const InnerNode& node, unsigned rank) noexcept
        : layout_(layout), node_(node), rank_(rank) {}
    /// The i-th, from 1 on; null where there is none.
    [[nodiscard]] const void* operator()(unsigned i) const noexcept {
      return rank_ + i <= layout_.count(node_) ? layout_.child(node_, rank_ + i) : nullptr;
    }

   private:
    const Layout& layout_;
    const InnerNode& node_;
    unsigned rank_;
  };
  /// A leaf found without entering it, and what proves later that it covered the key all along.
  struct Position {
    const InnerNode* parent = nullptr;
    std::uint64_t version = 0;
    void* leaf = nullptr;  ///< null: unlucky, use `find`
  };

  /// A tree of one leaf that covers every key. Leaf addresses must fit in 48 bits.
  InnerTree(Epochs& epochs, Options options, void* first_leaf);
  /// Frees what is retired in `epochs`: no thread may be pinned there.
  ~InnerTree();
  InnerTree(const InnerTree&) = delete;
  InnerTree& operator=(const InnerTree&) = delete;

  /// Descends to the leaf that covers `key` and returns `enter(leaf)`, taken at a moment when
  /// `leaf` did cover `key`. `enter` may run several times and must only read (typically the leaf's
  /// version word). One that takes a `Following` as well is given it. The caller is pinned in
  /// `epochs`.
  template <class Enter>
  [[nodiscard]] auto find(Key key, Enter&& enter) const;

  /// The same inside `pm::elide`: no validation; aborts the transaction on a locked node.
  [[nodiscard]] void* find_in_transaction(Key key) const;

  /// Descends for several keys at once, so that their cache misses overlap. positions[i] belongs to
  /// keys[i]; check `holds` after reading a leaf's version word. The caller is pinned.
  void locate(std::span<const Key> keys, std::span<Position> positions) const;
  [[nodiscard]] static bool holds(const Position& position) noexcept {
    return position.parent->lock.validate(position.version);
  }

  /// The leaf directly left of the one that covers `key`, null when that is the leftmost. The
  /// caller is pinned.
  [[nodiscard]] void* find_previous(Key key) const;

  /// From now on keys from `separator` up to the next separator lead to `leaf`. The caller is
  /// pinned and holds the lock of the leaf that covered them.
  void insert(Key separator, void* leaf);

  /// Takes `leaf` out; `key` is any key it covers. Its keys fall to the left neighbour under the
  /// same node, or to the right one where it is the first. The caller is pinned and holds its lock.
  /// Never called for the last leaf.
  void remove(Key key, void* leaf) { remove(key, leaf, Fall::any); }

  /// The same, but its keys always fall to the leaf directly left of it. Never called for the
  /// leftmost leaf. Costs locks up to the node that both are below.
  void remove_to_left(Key key, void* leaf) { remove(key, leaf, Fall::left); }

  /// Replaces everything by a tree over `children` (ascending, at least one). No other thread runs.
  void build(std::span<const Child> children);

  /// Calls `visit(leaf, low, high)`, a Result<void>, for every leaf in order, with its bounds
  /// (const Key*, null: unbounded), and checks N1-N3 and N5. Stops at the first error. No other
  /// thread runs.
  template <class Visit>
  [[nodiscard]] Result<void> check(Visit&& visit) const;

  /// Bytes taken from the system: whole chunks of 2 MiB.
  [[nodiscard]] std::uint64_t dram_bytes() const noexcept {
    return nodes_.dram_bytes() + texts_.dram_bytes();
  }

 private:
  using Probe = InnerProbe<Keys>;

  /// A node being read, and the version its content must be validated against.
  struct Step {
    const InnerNode* node = nullptr;
    std::uint64_t version = 0;
    unsigned level = 0;  ///< 1: its children are leaves
  };
  static constexpr std::uint64_t level_mask = pm::cache_line_bytes - 1;
  static constexpr unsigned max_levels = 40;
  static constexpr unsigned locate_group = 32;
  /// To which neighbour the keys of a leaf fall that is removed.
  enum class Fall : std::uint8_t { any, left };
  /// The nodes of a descent, and the deepest of them that has a child left of the path.
  struct Path {
    Step step[max_levels];
    unsigned steps = 0;
    unsigned branch = max_levels;  ///< position in `step`; max_levels: none
    unsigned branch_rank = 0;
  };

  [[nodiscard]] static InnerNode* node_of(std::uint64_t root) noexcept {
    return reinterpret_cast<InnerNode*>(root & ~level_mask);
  }
  [[nodiscard]] static unsigned level_of(std::uint64_t root) noexcept {
    return static_cast<unsigned>(root & level_mask);
  }
  [[nodiscard]] static std::uint64_t root_word(const InnerNode* node, unsigned level) noexcept {
    return reinterpret_cast<std::uint64_t>(node) | level;
  }

  [[nodiscard]] bool start(Step& at) const noexcept;
  /// The rank of the key in a node; believe it once the version was validated.
  [[nodiscard]] bool search(const Step& at, const Probe& probe, unsigned& rank) const noexcept {
    return layout_.search(*at.node, probe, rank,
                          [&] { return at.node->lock.validate(at.version); });
  }
  [[nodiscard]] bool rank_in(const Step& at, const Probe& probe, unsigned& rank) const noexcept {
    return search(at, probe, rank) && at.node->lock.validate(at.version);
  }
  [[nodiscard]] bool enter_child(Step& at, unsigned rank) const noexcept;
  /// Moves to level 1 and ranks the key there.
  [[nodiscard]] bool descend(Step& at, const Probe& probe, unsigned& rank) const noexcept;
  /// The same for integer keys on a machine with AVX-512, where the layout has a search for it: few
  /// enough instructions that a lookup's descent overlaps with the misses of the one before.
  [[nodiscard]] static bool descend_wide(Step& at, std::uint64_t key, unsigned& rank) noexcept;

  [[nodiscard]] InnerNode* new_node(void* only_child, Key low);
  [[nodiscard]] InnerSlot new_slot(Key key);
  [[nodiscard]] Key key_of(const InnerSlot& slot) const noexcept;
  void retire_node(InnerNode& node);
  void retire_slot(const InnerSlot& slot);
  [[nodiscard]] bool try_insert(const Probe& probe, Key separator, void* leaf);
  void split(const Step& parent, const Step& full, const Probe& probe);
  void remove(Key key, void* leaf, Fall fall);
  [[nodiscard]] bool try_remove(const Probe& probe, void* leaf, Fall fall);
  [[nodiscard]] bool pass_left(const Path& path, void* leaf);
  [[nodiscard]] bool shorten(const Step& root);
  [[nodiscard]] bool repair(const Step& parent, unsigned rank);
  [[nodiscard]] bool merge_or_borrow(InnerNode& parent, unsigned at, InnerNode& left,
                                     InnerNode& right);
  [[nodiscard]] bool try_find_previous(const Probe& probe, void*& previous) const;
  void free_subtree(InnerNode* node, unsigned level);
  template <class Visit>
  [[nodiscard]] Result<void> check_node(const InnerNode& node, unsigned level, const Key* low,
                                        const Key* high, Visit& visit) const;

  [[nodiscard]] static Error broken(const char* invariant) {
    return {ErrorCode::corrupt, std::string("inner node breaks ") + invariant, "inner tree",
            "reopen the pool: inner nodes are rebuilt at recovery"};
  }

  Epochs& epochs_;
  const Layout layout_;
  NodeArena nodes_;
  NodeArena texts_;
  alignas(pm::cache_line_bytes) std::atomic<std::uint64_t> root_{0};  ///< address | level
};

// Inlined by force from here to `find`: as calls they pass `Step` through memory at every level,
// which costs a lookup whose nodes are cached a quarter of its time.
template <class Keys, class Layout>
[[gnu::always_inline]] inline bool InnerTree<Keys, Layout>::start(Step& at) const noexcept {
  const std::uint64_t root = root_.load(std::memory_order_acquire);
  at.node = node_of(root);
  at.level = level_of(root);
  at.version = at.node->lock.read_begin();
  return !pm::VersionLock::is_obsolete(at.version) && root_.load(std::memory_order_acquire) == root;
}

/// Moves to child `rank`. The child is followed only after validation, so it is a node that this
/// thread's pin keeps.
template <class Keys, class Layout>
[[gnu::always_inline]] inline bool InnerTree<Keys, Layout>::enter_child(
    Step& at, unsigned rank) const noexcept {
  const InnerNode* const child = layout_.inner_child(*at.node, rank);
  if (!at.node->lock.validate(at.version)) return false;
  layout_.prefetch(child);
  const std::uint64_t version = child->lock.read_begin();
  if (!at.node->lock.validate(at.version)) return false;
  at = {child, version, at.level - 1};
  return true;
}

template <class Keys, class Layout>
[[gnu::always_inline]] inline bool InnerTree<Keys, Layout>::descend_wide(Step& at,
                                                                         std::uint64_t key,
                                                                         unsigned& rank) noexcept {
  for (;; --at.level) {
    const InnerNode* const node = at.node;
    rank = Layout::wide_rank(*node, key);
    if (at.level == 1) return true;
    const InnerNode* const child = Layout::wide_child(*node, rank);
    if (!node->lock.validate(at.version)) return false;
    Layout::prefetch_wide(child);
    const std::uint64_t version = child->lock.peek();
    if (pm::VersionLock::is_locked(version) || !node->lock.validate(at.version)) return false;
    at.node = child;
    at.version = version;
  }
}

template <class Keys, class Layout>
[[gnu::always_inline]] inline bool InnerTree<Keys, Layout>::descend(Step& at, const Probe& probe,
                                                                    unsigned& rank) const noexcept {
  if constexpr (Keys::kind == KeyKind::integer)
    if (layout_.is_wide()) return descend_wide(at, probe.word, rank);
  while (at.level > 1)
    if (!search(at, probe, rank) || !enter_child(at, rank)) return false;
  return search(at, probe, rank);
}

template <class Keys, class Layout>
template <class Enter>
[[gnu::always_inline]] inline auto InnerTree<Keys, Layout>::find(Key key, Enter&& enter) const {
  const Probe probe(key);
  for (pm::Backoff backoff;; backoff.wait()) {
    Step at;
    unsigned rank = 0;
    if (!start(at) || !descend(at, probe, rank)) continue;
    void* const leaf = layout_.child(*at.node, rank);
    if (!at.node->lock.validate(at.version)) continue;
    auto entered = [&] {
      if constexpr (std::is_invocable_v<Enter, void*, Following>)
        return enter(leaf, Following(layout_, *at.node, rank));
      else
        return enter(leaf);
    }();
    if (at.node->lock.validate(at.version)) return entered;
  }
}

template <class Keys, class Layout>
void* InnerTree<Keys, Layout>::find_in_transaction(Key key) const {
  const Probe probe(key);
  const std::uint64_t root = root_.load(std::memory_order_acquire);
  const InnerNode* node = node_of(root);
  for (unsigned level = level_of(root);; --level) {
    if ((node->lock.peek() & (pm::VersionLock::locked_bit | pm::VersionLock::obsolete_bit)) != 0)
      pm::abort_transaction();
    unsigned rank = 0;
    (void)layout_.search(*node, probe, rank, [] { return true; });
    if (level == 1) return layout_.child(*node, rank);
    node = layout_.inner_child(*node, rank);
    layout_.prefetch(node);
  }
}

template <class Keys, class Layout>
template <class Visit>
Result<void> InnerTree<Keys, Layout>::check(Visit&& visit) const {
  const std::uint64_t root = root_.load(std::memory_order_acquire);
  return check_node(*node_of(root), level_of(root), nullptr, nullptr, visit);
}

template <class Keys, class Layout>
template <class Visit>
Result<void> InnerTree<Keys, Layout>::check_node(const InnerNode& node, unsigned level,
                                                 const Key* low, const Key* high,
                                                 Visit& visit) const {
  const unsigned count = layout_.count(node);
  if ((node.lock.peek() & (pm::VersionLock::locked_bit | pm::VersionLock::obsolete_bit)) != 0)
    return broken("N1: locked at rest");
  if (!layout_.is_sound(node)) return broken("W1-W4 or F1-F3: its words");
  Key bound_low{};
  Key bound_high{};
  const Key* child_low = low;
  for (unsigned i = 0; i <= count; ++i) {
    const Key* child_high = high;
    if (i < count) {
      bound_high = key_of(layout_.slot(node, i));
      child_high = &bound_high;
      if ((child_low != nullptr && !(*child_low < bound_high)) ||
          (high != nullptr && !(bound_high < *high)))
        return broken("N2: separators do not ascend within the node's bounds");
    }
    if (layout_.child(node, i) == nullptr) return broken("N3: a child is missing");
    Result<void> result = level == 1 ? visit(layout_.child(node, i), child_low, child_high)
                                     : check_node(*layout_.inner_child(node, i), level - 1,
                                                  child_low, child_high, visit);
    if (!result) return result;
    bound_low = bound_high;
    child_low = &bound_low;
  }
  return {};
}

extern template class InnerTree<IntegerKeys>;
extern template class InnerTree<ByteKeys>;
extern template class InnerTree<IntegerKeys, FrameLayout>;

}  // namespace perdure
