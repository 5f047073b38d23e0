#include "index/inner_tree/inner_tree.h"

#include <algorithm>
#include <vector>

#include "core/assert.h"

namespace perdure {
namespace {

/// The share of a node that `build` fills, in eighths: room to grow before the first splits.
constexpr unsigned build_fill_eighths = 7;

InnerNode& writable(const InnerNode* node) noexcept { return *const_cast<InnerNode*>(node); }

}  // namespace

template <class Keys, class Layout>
InnerTree<Keys, Layout>::InnerTree(Epochs& epochs, Options options, void* first_leaf)
    : epochs_(epochs),
      layout_(options.entries, nodes_),
      nodes_(options.huge_pages, options.pool),
      texts_(options.huge_pages, options.pool) {
  PERDURE_ASSERT(options.entries >= 3 && options.entries <= 1024);
  root_.store(root_word(new_node(first_leaf, Key{}), 1), std::memory_order_release);
}

template <class Keys, class Layout>
InnerTree<Keys, Layout>::~InnerTree() {
  epochs_.drain();  // retired nodes go back to the arenas while these exist
}

template <class Keys, class Layout>
InnerNode* InnerTree<Keys, Layout>::new_node(void* only_child, Key low) {
  auto* const node = static_cast<InnerNode*>(nodes_.allocate(layout_.node_bytes()));
  layout_.clear(*node, only_child, low);
  return node;
}

template <class Keys, class Layout>
InnerSlot InnerTree<Keys, Layout>::new_slot(Key key) {
  if constexpr (Layout::has_texts) {
    void* const text = texts_.allocate(separator_text::bytes_for(key));
    separator_text::write(text, key);
    return {key_prefix(key), reinterpret_cast<std::uint64_t>(text)};
  } else {
    return {key, 0};
  }
}

template <class Keys, class Layout>
auto InnerTree<Keys, Layout>::key_of(const InnerSlot& slot) const noexcept -> Key {
  if constexpr (Layout::has_texts)
    return separator_text::read(slot.text);
  else
    return slot.key;
}

template <class Keys, class Layout>
void InnerTree<Keys, Layout>::retire_node(InnerNode& node) {
  epochs_.retire(reinterpret_cast<std::uint64_t>(&node), layout_.node_bytes(), NodeArena::destroy,
                 &nodes_);
  if (const OwnedBlock owned = layout_.owned(node); owned.block != nullptr)
    epochs_.retire(reinterpret_cast<std::uint64_t>(owned.block), owned.bytes, NodeArena::destroy,
                   &nodes_);
}

template <class Keys, class Layout>
void InnerTree<Keys, Layout>::retire_slot(const InnerSlot& slot) {
  if constexpr (Layout::has_texts)
    epochs_.retire(slot.text, separator_text::bytes_for(separator_text::read(slot.text)),
                   NodeArena::destroy, &texts_);
}

// One level at a time for a whole group: while one key's node is on its way, the others are served.
template <class Keys, class Layout>
void InnerTree<Keys, Layout>::locate(std::span<const Key> keys,
                                     std::span<Position> positions) const {
  PERDURE_ASSERT(positions.size() >= keys.size());
  for (std::size_t first = 0; first < keys.size(); first += locate_group) {
    const auto group =
        static_cast<unsigned>(std::min<std::size_t>(locate_group, keys.size() - first));
    const InnerNode* node[locate_group];
    Step from;
    const bool started = start(from);
    Step at[locate_group];
    bool stable[locate_group];
    for (unsigned i = 0; i < group; ++i) {
      at[i] = from;
      stable[i] = started;
    }
    for (unsigned level = from.level; started && level > 1; --level) {
      for (unsigned i = 0; i < group; ++i) {
        unsigned rank = 0;
        stable[i] = stable[i] && rank_in(at[i], Probe(keys[first + i]), rank);
        if (!stable[i]) continue;
        node[i] = layout_.inner_child(*at[i].node, rank);
        stable[i] = at[i].node->lock.validate(at[i].version);
        if (stable[i]) layout_.prefetch(node[i]);
      }
      for (unsigned i = 0; i < group; ++i) {
        if (!stable[i]) continue;
        const std::uint64_t version = node[i]->lock.read_begin();
        stable[i] = at[i].node->lock.validate(at[i].version);
        at[i] = {node[i], version, level - 1};
      }
    }
    for (unsigned i = 0; i < group; ++i) {
      unsigned rank = 0;
      const bool found = stable[i] && rank_in(at[i], Probe(keys[first + i]), rank);
      void* const leaf = found ? layout_.child(*at[i].node, rank) : nullptr;
      positions[first + i] = {at[i].node, at[i].version, leaf};
      if (found && !holds(positions[first + i])) positions[first + i].leaf = nullptr;
    }
  }
}

template <class Keys, class Layout>
void* InnerTree<Keys, Layout>::find_previous(Key key) const {
  const Probe probe(key);
  void* previous = nullptr;
  for (pm::Backoff backoff; !try_find_previous(probe, previous); backoff.wait()) previous = nullptr;
  return previous;
}

// The deepest node on the path that has a child left of it leads to the answer: the rightmost leaf
// below that child. Every node read is validated once more at the end, because the answer combines
// two paths.
template <class Keys, class Layout>
bool InnerTree<Keys, Layout>::try_find_previous(const Probe& probe, void*& previous) const {
  Step read[2 * max_levels];
  unsigned steps = 0;
  Step at;
  if (!start(at)) return false;
  Step branch;
  unsigned branch_rank = 0;
  for (;;) {
    unsigned rank = 0;
    read[steps++] = at;
    if (!rank_in(at, probe, rank)) return false;
    rank = std::min(rank, layout_.count(*at.node));
    if (rank > 0) {
      branch = at;
      branch_rank = rank - 1;
    }
    if (at.level == 1) break;
    if (!enter_child(at, rank)) return false;
  }
  if (branch.node != nullptr) {
    at = branch;
    unsigned rank = branch_rank;
    while (at.level > 1) {
      if (!enter_child(at, rank)) return false;
      read[steps++] = at;
      rank = layout_.count(*at.node);
    }
    previous = layout_.child(*at.node, rank);
  }
  return std::all_of(read, read + steps,
                     [](const Step& step) { return step.node->lock.validate(step.version); });
}

template <class Keys, class Layout>
void InnerTree<Keys, Layout>::insert(Key separator, void* leaf) {
  const Probe probe(separator);
  for (pm::Backoff backoff; !try_insert(probe, separator, leaf);) backoff.wait();
}

template <class Keys, class Layout>
bool InnerTree<Keys, Layout>::try_insert(const Probe& probe, Key separator, void* leaf) {
  Step parent;
  Step at;
  if (!start(at)) return false;
  for (;;) {
    const unsigned count = layout_.count(*at.node);
    if (!at.node->lock.validate(at.version)) return false;
    if (count == layout_.entries()) {
      split(parent, at, probe);
      return false;
    }
    unsigned rank = 0;
    if (!rank_in(at, probe, rank)) return false;
    if (at.level == 1) {
      InnerNode& node = writable(at.node);
      if (!node.lock.try_upgrade(at.version)) return false;
      layout_.insert_at(node, std::min(rank, count), new_slot(separator), leaf);
      node.lock.unlock();
      return true;
    }
    parent = at;
    if (!enter_child(at, rank)) return false;
  }
}

// Splits a full node, if it and its parent are still as they were read. The parent has room: it was
// found not full on the way down, at the version that the upgrade confirms.
template <class Keys, class Layout>
void InnerTree<Keys, Layout>::split(const Step& parent, const Step& full, const Probe& probe) {
  InnerNode& node = writable(full.node);
  const bool is_root = parent.node == nullptr;
  if (!is_root && !writable(parent.node).lock.try_upgrade(parent.version)) return;
  if (!node.lock.try_upgrade(full.version)) {
    if (!is_root) writable(parent.node).lock.unlock_unchanged();
    return;
  }
  InnerNode* const right = new_node(nullptr, Key{});
  const InnerSlot between = layout_.split(node, *right);
  if (is_root) {
    // A node that was the root at this version still is: growing and shortening change its version.
    PERDURE_ASSERT(root_.load(std::memory_order_relaxed) == root_word(full.node, full.level));
    InnerNode* const root = new_node(&node, Key{});
    layout_.insert_at(*root, 0, between, right);
    root_.store(root_word(root, full.level + 1), std::memory_order_release);
  } else {
    InnerNode& above = writable(parent.node);
    unsigned rank = 0;
    (void)layout_.search(above, probe, rank, [] { return true; });
    layout_.insert_at(above, std::min(rank, layout_.count(above)), between, right);
    above.lock.unlock();
  }
  node.lock.unlock();
}

template <class Keys, class Layout>
void InnerTree<Keys, Layout>::remove(Key key, void* leaf, Fall fall) {
  const Probe probe(key);
  for (pm::Backoff backoff; !try_remove(probe, leaf, fall);) backoff.wait();
}

template <class Keys, class Layout>
bool InnerTree<Keys, Layout>::try_remove(const Probe& probe, void* leaf, Fall fall) {
  Path path;
  Step at;
  if (!start(at)) return false;
  if (at.level > 1 && layout_.count(*at.node) == 0) {
    (void)shorten(at);
    return false;
  }
  for (;;) {
    unsigned rank = 0;
    if (!rank_in(at, probe, rank)) return false;
    path.step[path.steps++] = at;
    if (at.level == 1) {
      if (fall == Fall::left && rank == 0) return pass_left(path, leaf);
      InnerNode& node = writable(at.node);
      if (!node.lock.try_upgrade(at.version)) return false;
      if (layout_.count(node) == 0) {  // another removal came first: repair before taking the last
        PERDURE_ASSERT(level_of(root_.load(std::memory_order_relaxed)) > 1);
        node.lock.unlock_unchanged();
        return false;
      }
      rank = std::min(rank, layout_.count(node));
      PERDURE_ASSERT(layout_.child(node, rank) == leaf);
      const InnerSlot gone = layout_.remove_at(node, rank);
      node.lock.unlock();
      retire_slot(gone);
      return true;
    }
    rank = std::min(rank, layout_.count(*at.node));
    if (!at.node->lock.validate(at.version)) return false;
    if (repair(at, rank)) return false;
    if (rank > 0) {
      path.branch = path.steps - 1;
      path.branch_rank = rank;
    }
    if (!enter_child(at, rank)) return false;
  }
}

// The leaf is the first child of its node: the separator left of the whole subtree moves up to the
// leaf's right neighbour. Every node from there down is locked, because a reader that has passed
// the old separator must not arrive at the neighbour.
template <class Keys, class Layout>
bool InnerTree<Keys, Layout>::pass_left(const Path& path, void* leaf) {
  PERDURE_ASSERT(path.branch < path.steps);  // the leftmost leaf has nothing left of it
  unsigned locked = path.branch;
  while (locked < path.steps &&
         writable(path.step[locked].node).lock.try_upgrade(path.step[locked].version))
    ++locked;
  InnerNode& node = writable(path.step[path.steps - 1].node);
  const bool done = locked == path.steps && layout_.count(node) > 0;
  InnerSlot gone{};
  if (done) {
    PERDURE_ASSERT(layout_.child(node, 0) == leaf);
    InnerNode& above = writable(path.step[path.branch].node);
    gone = layout_.slot(above, path.branch_rank - 1);
    layout_.set_slot(above, path.branch_rank - 1, layout_.remove_at(node, 0));
  }
  while (locked > path.branch) {
    --locked;
    writable(path.step[locked].node).lock.unlock(done);
  }
  if (done) retire_slot(gone);
  return done;
}

// A root with a single inner child gives way to it.
template <class Keys, class Layout>
bool InnerTree<Keys, Layout>::shorten(const Step& root) {
  InnerNode& node = writable(root.node);
  if (!node.lock.try_upgrade(root.version)) return false;
  PERDURE_ASSERT(root_.load(std::memory_order_relaxed) == root_word(root.node, root.level));
  root_.store(root_word(layout_.inner_child(node, 0), root.level - 1), std::memory_order_release);
  node.lock.unlock_obsolete();
  retire_node(node);
  return true;
}

// Sees to it that child `rank` can lose an entry: one with few entries is merged with a sibling,
// one with a single child is given another. True: something changed, or must be read again.
template <class Keys, class Layout>
bool InnerTree<Keys, Layout>::repair(const Step& parent, unsigned rank) {
  InnerNode& child = *layout_.inner_child(*parent.node, rank);
  if (!parent.node->lock.validate(parent.version)) return true;
  if (layout_.count(child) > layout_.entries() / 4) return false;
  if (layout_.count(*parent.node) == 0) return true;  // just lost its other children: start again
  const unsigned at = rank > 0 ? rank - 1 : 0;
  InnerNode& left = *layout_.inner_child(*parent.node, at);
  InnerNode& right = *layout_.inner_child(*parent.node, at + 1);
  if (!parent.node->lock.validate(parent.version)) return true;
  const unsigned both = layout_.count(left) + layout_.count(right) + 1;
  if (layout_.count(child) > 0 && both > layout_.entries() * 3 / 4) return false;

  InnerNode& above = writable(parent.node);
  if (!above.lock.try_upgrade(parent.version)) return true;
  if (!left.lock.try_lock()) {
    above.lock.unlock_unchanged();
    return true;
  }
  if (!right.lock.try_lock()) {
    left.lock.unlock_unchanged();
    above.lock.unlock_unchanged();
    return true;
  }
  const bool merged = merge_or_borrow(above, at, left, right);
  if (merged)
    right.lock.unlock_obsolete();
  else
    right.lock.unlock();
  left.lock.unlock();
  above.lock.unlock();
  if (merged) retire_node(right);
  return true;
}

// All three are locked; `left` and `right` are children at, at + 1. True: `right` was emptied into
// `left` and is out of the parent.
template <class Keys, class Layout>
bool InnerTree<Keys, Layout>::merge_or_borrow(InnerNode& parent, unsigned at, InnerNode& left,
                                              InnerNode& right) {
  const InnerSlot between = layout_.slot(parent, at);
  const unsigned left_count = layout_.count(left);
  const unsigned right_count = layout_.count(right);
  if (std::min(left_count, right_count) > layout_.entries() / 4) return false;  // grown meanwhile
  if (left_count + right_count + 1 <= layout_.entries()) {
    layout_.insert_at(left, left_count, between, layout_.child(right, 0));
    for (unsigned i = 0; i < right_count; ++i)
      layout_.insert_at(left, left_count + 1 + i, layout_.slot(right, i),
                        layout_.child(right, i + 1));
    (void)layout_.remove_at(parent, at + 1);
    return true;
  }
  if (left_count < right_count) {
    layout_.insert_at(left, left_count, between, layout_.child(right, 0));
    layout_.set_slot(parent, at, layout_.remove_at(right, 0));
  } else {
    void* const moving = layout_.child(left, left_count);
    const InnerSlot lowest = layout_.remove_at(left, left_count);
    layout_.insert_first(right, moving, between, lowest);
    layout_.set_slot(parent, at, lowest);
  }
  return false;
}

template <class Keys, class Layout>
void InnerTree<Keys, Layout>::free_subtree(InnerNode* node, unsigned level) {
  for (unsigned i = 0, count = layout_.count(*node); i <= count; ++i) {
    if (level > 1) free_subtree(layout_.inner_child(*node, i), level - 1);
    if (Layout::has_texts && i < count) {
      const std::uint64_t text = layout_.slot(*node, i).text;
      texts_.free(reinterpret_cast<void*>(text),
                  separator_text::bytes_for(separator_text::read(text)));
    }
  }
  if (const OwnedBlock owned = layout_.owned(*node); owned.block != nullptr)
    nodes_.free(owned.block, owned.bytes);
  nodes_.free(node, layout_.node_bytes());
}

// Level by level; a level's nodes share its children evenly, so that none is left with one.
template <class Keys, class Layout>
void InnerTree<Keys, Layout>::build(std::span<const Child> children) {
  PERDURE_ASSERT(!children.empty());
  const std::uint64_t old = root_.load(std::memory_order_relaxed);
  free_subtree(node_of(old), level_of(old));
  const std::size_t fill =
      std::max<std::size_t>(2, (std::size_t{layout_.entries()} + 1) * build_fill_eighths / 8);
  std::vector<Child> below(children.begin(), children.end());
  unsigned level = 0;
  do {
    ++level;
    const std::size_t parents = (below.size() + fill - 1) / fill;
    std::vector<Child> above;
    above.reserve(parents);
    for (std::size_t p = 0; p < parents; ++p) {
      const std::size_t begin = below.size() * p / parents;
      const std::size_t end = below.size() * (p + 1) / parents;
      InnerNode* const node = new_node(below[begin].leaf, begin == 0 ? Key{} : below[begin].lowest);
      for (std::size_t i = begin + 1; i < end; ++i)
        layout_.insert_at(*node, static_cast<unsigned>(i - begin - 1), new_slot(below[i].lowest),
                          below[i].leaf);
      above.push_back({below[begin].lowest, node});
    }
    below = std::move(above);
  } while (below.size() > 1);
  root_.store(root_word(static_cast<InnerNode*>(below[0].leaf), level), std::memory_order_release);
}

template class InnerTree<IntegerKeys>;
template class InnerTree<ByteKeys>;
template class InnerTree<IntegerKeys, FrameLayout>;

}  // namespace perdure
