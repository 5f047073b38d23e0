#include "index/pactree/search_layer.h"

#include <span>

#include "core/assert.h"
#include "index/common/index_root.h"
#include "index/common/record_store.h"
#include "index/index.h"
#include "index/pactree/node.h"

namespace perdure::pactree {
namespace {

/// Bytes that two texts share at their beginnings.
std::size_t common_bytes(std::string_view a, std::string_view b) noexcept {
  const std::size_t least = std::min(a.size(), b.size());
  std::size_t i = 0;
  while (i < least && a[i] == b[i]) ++i;
  return i;
}

std::uint8_t byte_at(std::string_view text, std::size_t i) noexcept {
  return static_cast<std::uint8_t>(text[i]);
}

/// Puts a child below the byte that follows a path, or `here` where the path ends.
void put(TrieNode& node, std::string_view rest, Child added) noexcept {
  if (rest.empty())
    node.here.store(added, std::memory_order_relaxed);
  else
    node.add(byte_at(rest, 0), added);
}

}  // namespace

/// New nodes on their way into the trie: given back unless linked.
class SearchLayer::Draft {
 public:
  explicit Draft(Heap& heap, Pool& pool) noexcept : heap_(heap), pool_(pool) {}
  ~Draft() {
    for (Reservation& block : blocks_) heap_.cancel(block);
  }
  Draft(const Draft&) = delete;
  Draft& operator=(const Draft&) = delete;

  /// Null: out of space.
  [[nodiscard]] TrieNode* make(TrieKind kind) {
    const Reservation block = heap_.reserve(TrieNode::bytes_of(kind));
    if (!block) return nullptr;
    blocks_.push_back(block);
    return TrieNode::make(pool_.at<void>(block.offset), kind);
  }
  [[nodiscard]] Child child(const TrieNode& node) const noexcept { return pool_.offset_of(&node); }

  /// Makes all of it durable, and visible by one store.
  void link(std::atomic<Child>& word, Child top) noexcept {
    for (const Reservation& block : blocks_) pm::flush(pool_.base() + block.offset, block.bytes);
    pm::fence();  // S2
    heap_.publish(blocks_, &word, top);
    blocks_.clear();
  }

 private:
  Heap& heap_;
  Pool& pool_;
  std::vector<Reservation> blocks_;
};

Result<std::uint64_t> SearchLayer::create_root(Pool& pool) {
  Reservation block = pool.heap().reserve(TrieNode::bytes_of(TrieKind::n256));
  if (!block) return no_room_for("the search layer", pool);
  const TrieNode* const root = TrieNode::make(pool.at<void>(block.offset), TrieKind::n256);
  pm::persist(root, root->bytes());
  pool.heap().publish({&block, 1});
  return block.offset;
}

/// The last data node below `child`; null beside a writer that empties a node.
Child SearchLayer::last(Child child) const noexcept {
  while (child != no_child && !is_data(child)) child = node_at(child)->below(256);
  return child;
}

void SearchLayer::prefetch_after(const TrieNode& node, std::uint8_t byte) const noexcept {
  node.each_unsorted([&](std::uint8_t other, Child child) {
    if (other > byte && is_data(child)) pm::prefetch(&pool_.at<DataNode>(offset_of(child))->commit);
  });
}

// Where nothing below the present node is at or below the key, the next lower place above is what
// counts. The nodes passed last are remembered for that; a key whose path is deeper, and forks off
// further up, begins at a node after its own and finds it by `prev`.
std::uint64_t SearchLayer::find(std::string_view key, bool and_following) const noexcept {
  struct Passed {
    const TrieNode* node;
    unsigned byte;
  };
  constexpr unsigned kept = 16;
  std::array<Passed, kept> passed;
  unsigned depth = 0;
  std::size_t level = 0;
  const TrieNode* node = node_at(root_);
  for (;;) {
    const std::string_view prefix = node->prefix_text();
    const std::string_view rest = key.substr(level);
    if (!rest.starts_with(prefix)) {
      if (prefix < rest)
        if (const Child found = last(pool_.offset_of(node)); found != no_child)
          return offset_of(found);
      break;
    }
    level += prefix.size();
    if (level == key.size()) {
      const Child here = node->here.load(std::memory_order_acquire);
      if (here != no_child) return offset_of(here);
      break;
    }
    const std::uint8_t byte = byte_at(key, level);
    const Child child = node->find(byte);
    passed[depth++ % kept] = {node, byte};
    if (and_following && (child == no_child || is_data(child))) prefetch_after(*node, byte);
    if (child == no_child) break;
    if (is_data(child)) return offset_of(child);
    node = node_at(child);
    ++level;
  }
  const unsigned least = depth > kept ? depth - kept : 0;
  while (depth-- > least)
    if (const Child found = last(passed[depth % kept].node->below(passed[depth % kept].byte));
        found != no_child)
      return offset_of(found);
  if (least == 0) return null_offset;
  return offset_of(last(pool_.offset_of(node)));
}

bool SearchLayer::insert(std::string_view anchor, std::uint64_t data) {
  const Child added = data | data_bit;
  std::atomic<Child>* link = nullptr;
  TrieNode* node = node_at(root_);
  for (std::size_t level = 0;;) {
    const std::string_view prefix = node->prefix_text();
    const std::size_t common = common_bytes(prefix, anchor.substr(level));
    if (common < prefix.size())
      return split_prefix(*node, *link, common, anchor.substr(level + common), added);
    level += prefix.size();
    std::atomic<Child>* word = &node->here;
    if (level < anchor.size()) {
      const std::uint8_t byte = byte_at(anchor, level++);
      const unsigned place = node->place_of(byte);
      if (place == TrieNode::no_place) return add(*node, link, byte, added);
      word = &node->place(place);
    }
    const Child child = word->load(std::memory_order_relaxed);
    if (child == added) return true;
    if (child == no_child) {
      pm::store_persist(*word, added);
      return true;
    }
    if (is_data(child)) return fork(*word, level, anchor, child, added);
    link = word;
    node = node_at(child);
  }
}

// K1: a copy with one key byte more, of the next kind where the children that are left fill it.
bool SearchLayer::add(TrieNode& node, std::atomic<Child>* link, std::uint8_t byte, Child added) {
  unsigned children = 0;
  node.each([&](std::uint8_t, Child) { ++children; });
  TrieKind kind = TrieKind::n4;
  while (children + 1 > TrieNode::capacity(kind))
    kind = static_cast<TrieKind>(static_cast<unsigned>(kind) + 1);
  Draft draft(pool_.heap(), pool_);
  TrieNode* const copy = draft.make(kind);
  if (copy == nullptr) return false;
  node.each([&](std::uint8_t each, Child child) { copy->add(each, child); });
  copy->add(byte, added);
  copy->here.store(node.here.load(std::memory_order_relaxed), std::memory_order_relaxed);
  copy->set_prefix(node.prefix_text());
  draft.link(*link, draft.child(*copy));
  retire(node);
  return true;
}

// A new node takes the bytes that the prefix and the anchor share, and leads to both; the old one
// is copied, with a shorter prefix.
bool SearchLayer::split_prefix(TrieNode& node, std::atomic<Child>& link, std::size_t common,
                               std::string_view rest, Child added) {
  Draft draft(pool_.heap(), pool_);
  TrieNode* const above = draft.make(TrieKind::n4);
  TrieNode* const copy = above == nullptr ? nullptr : draft.make(node.kind);
  if (copy == nullptr) return false;
  const std::string_view prefix = node.prefix_text();
  node.each([&](std::uint8_t byte, Child child) { copy->add(byte, child); });
  copy->here.store(node.here.load(std::memory_order_relaxed), std::memory_order_relaxed);
  copy->set_prefix(prefix.substr(common + 1));
  above->set_prefix(prefix.substr(0, common));
  above->add(byte_at(prefix, common), draft.child(*copy));
  put(*above, rest, added);
  draft.link(link, draft.child(*above));
  retire(node);
  return true;
}

// Two data nodes in one place: as many nodes as their anchors share bytes for, each with a full
// prefix and one child, and one that leads to both.
bool SearchLayer::fork(std::atomic<Child>& link, std::size_t level, std::string_view anchor,
                       Child present, Child added) {
  const std::string other_text = anchor_of_(offset_of(present));
  std::string_view other = std::string_view(other_text).substr(level);
  std::string_view mine = anchor.substr(level);
  PERDURE_ASSERT(mine != other);
  Draft draft(pool_.heap(), pool_);
  TrieNode* top = nullptr;
  TrieNode* above = nullptr;
  for (std::size_t left = common_bytes(mine, other);;) {
    TrieNode* const node = draft.make(TrieKind::n4);
    if (node == nullptr) return false;
    const std::size_t held = std::min<std::size_t>(left, TrieNode::prefix_held);
    node->set_prefix(mine.substr(0, held));
    if (above != nullptr) above->place(0).store(draft.child(*node), std::memory_order_relaxed);
    if (top == nullptr) top = node;
    mine.remove_prefix(held);
    other.remove_prefix(held);
    left -= held;
    if (left == 0) {
      put(*node, mine, added);
      put(*node, other, present);
      draft.link(link, draft.child(*top));
      return true;
    }
    node->add(byte_at(mine, 0), no_child);  // the next one's place
    mine.remove_prefix(1);
    other.remove_prefix(1);
    --left;
    above = node;
  }
}

void SearchLayer::take_out(std::string_view anchor, std::uint64_t data, bool retires) {
  struct Step {
    TrieNode* node;
    std::atomic<Child>* link;
  };
  std::vector<Step> steps;
  std::atomic<Child>* word = nullptr;
  TrieNode* node = node_at(root_);
  for (std::size_t level = 0;;) {
    const std::string_view prefix = node->prefix_text();
    if (!anchor.substr(level).starts_with(prefix)) return;
    level += prefix.size();
    steps.push_back({node, word});
    word = &node->here;
    if (level < anchor.size()) {
      const unsigned place = node->place_of(byte_at(anchor, level++));
      if (place == TrieNode::no_place) return;
      word = &node->place(place);
    }
    const Child child = word->load(std::memory_order_relaxed);
    if (child == no_child) return;
    if (is_data(child)) {
      if (offset_of(child) != data) return;
      break;
    }
    node = node_at(child);
  }
  // S6: nodes that lead to nothing else go with it, by one word, lest a power cut leave an empty
  // one.
  std::size_t kept = steps.size();
  for (; kept > 1 && steps[kept - 1].node->children() == 1; --kept) word = steps[kept - 1].link;
  pm::store_persist(*word, no_child);
  for (; retires && kept < steps.size(); ++kept) retire(*steps[kept].node);
}

struct SearchLayer::Walk {
  const Visit& visit;
  std::vector<std::uint64_t> nodes{};
  std::string path{};
};

Result<void> SearchLayer::check_node(const Walk& walk, std::uint64_t offset) const {
  const auto corrupt = [&](const char* what) {
    return detail::corrupt_record(what, offset, pool_);
  };
  if (!pool_.contains(offset, TrieNode::bytes_of(TrieKind::n4)) || offset % alignof(TrieNode) != 0)
    return corrupt("K2: the search layer leads outside the pool");
  const TrieNode& node = *node_at(offset);
  if (node.kind > TrieKind::n256 || node.prefix_bytes > TrieNode::prefix_held ||
      !pool_.contains(offset, node.bytes()) ||
      (node.kind != TrieKind::n256 && node.count > TrieNode::capacity(node.kind)))
    return corrupt("K4: a node of the search layer is damaged");
  if (offset == root_ &&
      (node.kind != TrieKind::n256 || node.prefix_bytes != 0 || !walk.path.empty()))
    return corrupt("S4: the root of the search layer is damaged");
  if (node.kind == TrieKind::n48)
    for (unsigned byte = 0; byte < 256; ++byte)
      if (const unsigned at = node.place_of(static_cast<std::uint8_t>(byte));
          at != TrieNode::no_place && at >= node.count)
        return corrupt("K4: a key byte leads to no place");
  if (walk.path.size() + node.prefix_bytes > max_key_bytes)
    return corrupt("S6: the search layer is too deep");
  return {};
}

// S6 bounds the depth, which also ends a walk in a circle.
Result<void> SearchLayer::walk(Walk& walk, std::uint64_t offset) const {
  Result<void> result = check_node(walk, offset);
  if (!result) return result;
  const TrieNode& node = *node_at(offset);
  walk.nodes.push_back(offset);
  walk.path += node.prefix_text();
  bool empty = offset != root_;
  if (const Child here = node.here.load(std::memory_order_relaxed); here != no_child) {
    empty = false;
    if (!is_data(here))
      return detail::corrupt_record("K3: a path ends at no data node", offset, pool_);
    result = walk.visit(pactree::offset_of(here), walk.path, true);
  }
  walk.path.push_back('\0');  // for the child's byte
  const std::size_t length = walk.path.size();
  node.each([&](std::uint8_t byte, Child child) {
    empty = false;
    if (!result.ok()) return;
    walk.path[length - 1] = static_cast<char>(byte);
    if (is_data(child)) {
      result = walk.visit(pactree::offset_of(child), walk.path, false);
    } else {
      result = this->walk(walk, child);
      walk.path.resize(length);
    }
  });
  if (result.ok() && empty)
    return detail::corrupt_record("S6: a node of the search layer is empty", offset, pool_);
  return result;
}

Result<std::vector<std::uint64_t>> SearchLayer::check(const Visit& visit) const {
  Walk all{visit};
  if (Result<void> walked = walk(all, root_); !walked) return walked.error();
  return std::move(all.nodes);
}

Result<void> SearchLayer::mark(std::span<const std::uint64_t> nodes) const {
  for (const std::uint64_t node : nodes)
    if (!pool_.heap().mark(node, node_at(node)->bytes()))
      return detail::corrupt_record(
          "S2: a node of the search layer is no block, or is linked twice", node, pool_);
  return {};
}

}  // namespace perdure::pactree
