// Changes of Roart's structure: splits, forks, larger and smaller nodes, and what goes when a leaf
// array is empty. Each builds the new parts aside, makes them durable in any order under one fence,
// and links them by one word, or by two in an order that recovery understands (T2).
#include <algorithm>
#include <vector>

#include "index/roart/draft.h"
#include "index/roart/roart.h"

namespace perdure {

/// How the records of a full array are parted: those with a lower symbol at `level` go left.
template <class Keys>
struct Roart<Keys>::Halves {
  std::vector<Slot> slots;
  std::vector<unsigned> symbols;
  unsigned level = 0;
  unsigned boundary = 0;  ///< the lowest symbol of the right half; 0: the array is not full
};

template <class Keys>
auto Roart<Keys>::halve(const LeafArray& array, unsigned level) const -> Halves {
  Halves halves;
  for (unsigned i = 0; i < entries_; ++i) {
    const Slot slot = array.slot(i);
    if (!slot) return halves;
    records_.prefetch(slot.offset());
    halves.slots.push_back(slot);
  }
  const auto path_of = [&](Slot slot) { return Path(records_.key_of(slot.offset())); };
  const Path first = path_of(halves.slots.front());
  halves.level = ~0U;
  for (unsigned i = 1; i < entries_; ++i)
    halves.level = std::min(halves.level, roart::fork_of(first, path_of(halves.slots[i]), level));
  for (const Slot slot : halves.slots)
    halves.symbols.push_back(roart::symbol_at(path_of(slot), halves.level));
  std::vector<unsigned> sorted = halves.symbols;
  std::ranges::sort(sorted);
  // The change of symbol that is nearest to the middle.
  const std::size_t middle = sorted.size() / 2;
  for (std::size_t away = 0; halves.boundary == 0; ++away) {
    if (middle >= away + 1 && sorted[middle - away - 1] != sorted[middle - away])
      halves.boundary = sorted[middle - away];
    else if (middle + away + 1 < sorted.size() &&
             sorted[middle + away] != sorted[middle + away + 1])
      halves.boundary = sorted[middle + away + 1];
  }
  return halves;
}

// Where the records differ at the node's own level, the array's entry becomes two, else a node with
// two arrays takes its place. Power-cut states, with the same records: before; after; between the
// two stores, the old array and the new right half (T2).
// Cost: the lines of two arrays and of new nodes, 2 or 3 fences.
template <class Keys>
bool Roart<Keys>::split(const Place& at, const Path& path) {
  {
    Node& node = *at.node;
    Hold node_hold(node.lock);
    if (!node_hold || node.find(roart::symbol_at(path, node.level)) != at.entry) return true;  // T4
    LeafArray& array = *array_at(at.entry);
    Hold array_hold(array.lock);
    const Halves halves = halve(array, node.level);
    if (halves.boundary == 0) return true;
    const bool deeper = halves.level > node.level;
    std::atomic<std::uint64_t>* const free =
        deeper ? &node.word_of(at.entry) : node.free_word(halves.boundary);
    if (free != nullptr) {
      Draft draft(*this);
      LeafArray* const left = draft.array();
      LeafArray* const right = left == nullptr ? nullptr : draft.array();
      if (right == nullptr) return false;
      for (std::size_t i = 0; i < halves.slots.size(); ++i)
        (halves.symbols[i] < halves.boundary ? left : right)->add(halves.slots[i], entries_);
      const Entry left_entry(0, Kind::leaf_array, offset_of(left));
      const Entry right_entry(halves.boundary, Kind::leaf_array, offset_of(right));
      if (deeper) {
        const Path below(records_.key_of(halves.slots.front().offset()));
        const Entry hung = draft.hang(halves.level, node.level, below, left_entry, right_entry);
        if (!hung) return false;
        draft.link(*free, hung.from(at.entry.symbol()));
      } else {
        draft.link(*free, right_entry);
        pm::store_persist(node.word_of(at.entry), left_entry.from(at.entry.symbol()).word());
      }
      array_hold.unlock_obsolete();
      node_hold.unlock_changed();
      retire(array);
      return true;
    }
  }
  return resize(at, path, roart::larger(at.node->kind));
}

// The key leaves the path of the node that its entry leads to: it gets an empty array of its own
// beside it. Above the node's level a node with both takes the entry's place; at it the entry
// becomes two. Power-cut states: before; after; where the key comes first, the same node below two
// entries (T2). Cost: a few lines, 2 or 3 fences.
template <class Keys>
bool Roart<Keys>::fork(const Place& at, const Path& path) {
  {
    Node& node = *at.node;
    Hold hold(node.lock);
    if (!hold || node.find(roart::symbol_at(path, node.level)) != at.entry) return true;  // T4
    const Node& below = *node_at(at.entry);
    const unsigned mine = roart::symbol_at(path, at.fork);
    const unsigned other = below.symbol_of(at.fork);
    const bool first = mine < other;
    const bool deeper = at.fork > node.level;
    std::atomic<std::uint64_t>& word = node.word_of(at.entry);
    std::atomic<std::uint64_t>* const free =
        deeper ? &word : node.free_word(first ? other : other + 1);
    if (free != nullptr) {
      Draft draft(*this);
      const LeafArray* const array = draft.array();
      if (array == nullptr) return false;
      const Entry fresh(first ? 0 : other + 1, Kind::leaf_array, offset_of(array));
      if (deeper) {
        const Entry old = at.entry.from(first ? other : 0);
        const Entry hung =
            draft.hang(at.fork, node.level, path, first ? fresh : old, first ? old : fresh);
        if (!hung) return false;
        draft.link(word, hung.from(at.entry.symbol()));
      } else if (first) {
        pm::store_persist(*free, at.entry.from(other).word());
        draft.link(word, fresh.from(at.entry.symbol()));
      } else {
        draft.link(*free, fresh);
      }
      hold.unlock_changed();
      return true;
    }
  }
  return resize(at, path, roart::larger(at.node->kind));
}

// A node of another size takes the place. Power-cut states: before; after.
template <class Keys>
bool Roart<Keys>::resize(const Place& at, const Path& path, Kind kind) {
  Hold above_hold(at.above->lock);
  const Entry entry = at.above->find(roart::symbol_at(path, at.above->level));
  if (!above_hold || entry.offset() != offset_of(at.node)) return true;  // T4
  Node& node = *at.node;
  Hold node_hold(node.lock);
  if (node.count() > Node::capacity(kind)) return true;
  Draft draft(*this);
  Node* const other = draft.node(kind, node);
  if (other == nullptr) return false;
  for (unsigned i = 0; i < Node::capacity(node.kind); ++i)
    if (const Entry each = node.entry(i)) other->add(each);
  draft.link(at.above->word_of(entry), {entry.symbol(), kind, offset_of(other)});
  node_hold.unlock_obsolete();
  above_hold.unlock_changed();
  retire(node);
  return true;
}

template <class Keys>
void Roart<Keys>::reclaim(const Place& at, const Path& path) {
  for (Place now = at;; now = find_place(path)) {
    if (now.node == nullptr) return;
    const unsigned left = take_out(now, path);
    if (left > 2) {
      // Without room for a smaller node the large one stays.
      const Kind smaller = roart::smaller(now.node->kind);
      if (smaller != now.node->kind && left <= roart::shrinks_at(smaller))
        (void)resize(now, path, smaller);
      return;
    }
    if (!collapse(now, path)) return;
  }
}

// Takes the entry of an empty array out. Returns how many entries the node has then. The lowest
// stays (N2), with an empty array. Power-cut states: before; after. Cost: 1 flushed line, 1 fence.
template <class Keys>
unsigned Roart<Keys>::take_out(const Place& at, const Path& path) {
  Node& node = *at.node;
  Hold node_hold(node.lock);
  if (!node_hold || node.find(roart::symbol_at(path, node.level)) != at.entry)  // T4
    return Node::capacity(node.kind);
  if (at.forks || at.entry.symbol() == 0) return node.count();
  // T7: the entry before gets the range.
  if (state_.early() && !touch(node, node.find(at.entry.symbol() - 1), path))
    return Node::capacity(node.kind);
  LeafArray& array = *array_at(at.entry);
  Hold array_hold(array.lock);
  if (!array.is_empty()) return node.count();
  pm::store_persist(node.word_of(at.entry), 0);
  const unsigned left = node.count();
  array_hold.unlock_obsolete();
  node_hold.unlock_changed();
  retire(array);
  return left;
}

// Replaces a node with one entry by what that leads to; one with two, of which the lower leads to
// an empty array, by the other. Not where the child could not hold the longer prefix (N1).
// Power-cut states: before; after. Cost: 1 flushed line, 1 fence.
template <class Keys>
bool Roart<Keys>::collapse(const Place& at, const Path& path) {
  if (at.above == nullptr) return false;
  Hold above_hold(at.above->lock);
  const Entry entry = at.above->find(roart::symbol_at(path, at.above->level));
  if (!above_hold || entry.offset() != offset_of(at.node)) return false;
  Node& node = *at.node;
  Hold node_hold(node.lock);
  const unsigned count = node.count();
  const Entry lowest = node.next(0);
  if (count > 2 || (count == 2 && !lowest.is_array())) return false;
  const Entry kept = count == 1 ? lowest : node.next(1);
  if (state_.early() && !(touch(node, lowest, path) && touch(node, kept, path)))
    return false;  // T7
  if (!kept.is_array() && node_at(kept)->level - at.above->level > Node::held_bytes) return false;
  const auto link = [&] {
    pm::store_persist(at.above->word_of(entry), kept.from(entry.symbol()).word());
    node_hold.unlock_obsolete();
    above_hold.unlock_changed();
    retire(node);
  };
  if (count == 2) {
    LeafArray& array = *array_at(lowest);
    Hold array_hold(array.lock);
    if (!array.is_empty()) return false;
    link();
    array_hold.unlock_obsolete();
    retire(array);
  } else {
    link();
  }
  return true;
}

template bool Roart<IntegerKeys>::split(const Place&, const Path&);
template bool Roart<ByteKeys>::split(const Place&, const Path&);
template bool Roart<IntegerKeys>::fork(const Place&, const Path&);
template bool Roart<ByteKeys>::fork(const Place&, const Path&);
template void Roart<IntegerKeys>::reclaim(const Place&, const Path&);
template void Roart<ByteKeys>::reclaim(const Place&, const Path&);

}  // namespace perdure
