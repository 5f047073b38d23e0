// Pmse: the B+-tree.
#include <algorithm>
#include <cstring>

#include "engine/pmse/pmse.h"

namespace perdure::engine::pmse {
namespace {

constexpr unsigned most_keys = order - 1;

}  // namespace

std::string_view Pmse::text_at(std::uint64_t offset) const noexcept {
  return {pool_.at<char>(offset + length_bytes), *pool_.at<std::uint64_t>(offset)};
}

unsigned Pmse::position(const Node& node, std::string_view key) const noexcept {
  unsigned at = 0;
  for (; at < node.entries; ++at) {
    const int order_of = text_at(node.key[at]).compare(key);
    if (node.is_leaf != 0 ? order_of >= 0 : order_of > 0) break;
  }
  return at;
}

Node* Pmse::descend(std::string_view key, std::vector<Step>* path) const {
  Node* node = node_at(head_.root);
  while (node->is_leaf == 0) {
    const unsigned child = position(*node, key);
    if (path != nullptr) path->push_back({node, child});
    node = node_at(node->child[child]);
  }
  return node;
}

bool Pmse::find(std::string_view key, std::uint64_t& number) const {
  const Node& leaf = *descend(key, nullptr);
  const unsigned at = position(leaf, key);
  if (at == leaf.entries || text_at(leaf.key[at]) != key) return false;
  number = leaf.child[at];
  return true;
}

std::uint64_t Pmse::make_key(PmdkTransaction& change, std::string_view key) {
  const std::uint64_t offset = change.allocate(length_bytes + key.size());
  if (offset == null_offset) return offset;
  *pool_.at<std::uint64_t>(offset) = key.size();
  std::memcpy(pool_.at<char>(offset + length_bytes), key.data(), key.size());
  return offset;
}

std::uint64_t Pmse::make_node(PmdkTransaction& change, bool is_leaf) {
  const std::uint64_t offset = change.allocate(sizeof(Node));
  if (offset == null_offset) return offset;
  Node fresh{};
  fresh.is_leaf = is_leaf ? 1 : 0;
  put_whole(node_at(offset), fresh);
  return offset;
}

/// A node with one entry more than it can hold.
struct Pmse::Full {
  std::array<std::uint64_t, order> key;
  std::array<std::uint64_t, order + 1> child;
};

bool Pmse::split(PmdkTransaction& change, Node& node, unsigned at, std::uint64_t key,
                 std::uint64_t child, std::uint64_t& right) {
  const bool is_leaf = node.is_leaf != 0;
  right = make_node(change, is_leaf);
  if (right == null_offset) return false;
  Full full{};
  std::copy_n(node.key.begin(), at, full.key.begin());
  full.key[at] = key;
  std::copy(node.key.begin() + at, node.key.end(), full.key.begin() + at + 1);
  // Of an inner node the new child comes after the key, of a leaf the number stands beside it.
  const unsigned at_child = is_leaf ? at : at + 1;
  const unsigned children = is_leaf ? most_keys : order;
  std::copy_n(node.child.begin(), at_child, full.child.begin());
  full.child[at_child] = child;
  std::copy(node.child.begin() + at_child, node.child.begin() + children,
            full.child.begin() + at_child + 1);

  constexpr unsigned left_keys = order / 2;
  Node other = *node_at(right);
  const unsigned first = is_leaf ? left_keys : left_keys + 1;  // a separator goes up
  other.entries = order - first;
  std::copy(full.key.begin() + first, full.key.end(), other.key.begin());
  std::copy(full.child.begin() + first,
            full.child.begin() + first + other.entries + (is_leaf ? 0 : 1), other.child.begin());
  if (is_leaf) other.child[order - 1] = node.child[order - 1];
  Node less = node;
  less.entries = left_keys;
  std::copy_n(full.key.begin(), left_keys, less.key.begin());
  std::copy_n(full.child.begin(), left_keys + (is_leaf ? 0 : 1), less.child.begin());
  if (is_leaf) less.child[order - 1] = right;
  put_whole(node_at(right), other);
  put_whole(&node, less);
  pm::flush(&node, sizeof node);
  return true;
}

bool Pmse::add_key(PmdkTransaction& change, std::string_view key, std::uint64_t number) {
  std::vector<Step> path;
  Node& leaf = *descend(key, &path);
  const unsigned at = position(leaf, key);
  const std::uint64_t text = make_key(change, key);
  if (text == null_offset || !change.snapshot(&leaf, sizeof leaf)) return false;
  if (leaf.entries < most_keys) {
    for (unsigned i = leaf.entries; i > at; --i) {
      leaf.key[i] = leaf.key[i - 1];
      leaf.child[i] = leaf.child[i - 1];
    }
    leaf.key[at] = text;
    leaf.child[at] = number;
    ++leaf.entries;
    pm::flush(&leaf, sizeof leaf);
    return true;
  }
  std::uint64_t right = null_offset;
  if (!split(change, leaf, at, text, number, right)) return false;
  return add_child(change, path, text_at(node_at(right)->key[0]), right);
}

// Separators are copies, because the key that one was made of may go.
bool Pmse::add_child(PmdkTransaction& change, std::vector<Step>& path, std::string_view key,
                     std::uint64_t right) {
  const std::uint64_t text = make_key(change, key);
  if (text == null_offset) return false;
  if (path.empty()) {
    const std::uint64_t offset = make_node(change, false);
    if (offset == null_offset || !change.snapshot(&head_.root, sizeof head_.root)) return false;
    Node root = *node_at(offset);
    root.entries = 1;
    root.key[0] = text;
    root.child[0] = head_.root;
    root.child[1] = right;
    put_whole(node_at(offset), root);
    store(head_.root, offset);
    return true;
  }
  const auto [node, at] = path.back();
  path.pop_back();
  if (!change.snapshot(node, sizeof *node)) return false;
  if (node->entries < most_keys) {
    for (unsigned i = node->entries; i > at; --i) {
      node->key[i] = node->key[i - 1];
      node->child[i + 1] = node->child[i];
    }
    node->key[at] = text;
    node->child[at + 1] = right;
    ++node->entries;
    pm::flush(node, sizeof *node);
    return true;
  }
  std::uint64_t other = null_offset;
  constexpr unsigned left_keys = order / 2;
  // The separator in the middle goes up; the split drops it from both halves.
  const std::uint64_t middle = at == left_keys  ? text
                               : at < left_keys ? node->key[left_keys - 1]
                                                : node->key[left_keys];
  if (!split(change, *node, at, text, right, other)) return false;
  const std::string up(text_at(middle));
  if (!change.free(middle, length_bytes + up.size())) return false;
  return add_child(change, path, up, other);
}

bool Pmse::take_key(PmdkTransaction& change, std::string_view key) {
  std::vector<Step> path;
  Node& leaf = *descend(key, &path);
  const unsigned at = position(leaf, key);
  if (!change.snapshot(&leaf, sizeof leaf) || !change.free(leaf.key[at], length_bytes + key.size()))
    return false;
  for (unsigned i = at; i + 1 < leaf.entries; ++i) {
    leaf.key[i] = leaf.key[i + 1];
    leaf.child[i] = leaf.child[i + 1];
  }
  --leaf.entries;
  pm::flush(&leaf, sizeof leaf);
  const bool has_others =
      std::ranges::any_of(path, [](const Step& step) { return step.node->entries != 0; });
  return leaf.entries != 0 || !has_others || drop_leaf(change, path, leaf);
}

Node* Pmse::leaf_before(const std::vector<Step>& path) const {
  for (std::size_t level = path.size(); level-- > 0;) {
    if (path[level].child == 0) continue;
    Node* node = node_at(path[level].node->child[path[level].child - 1]);
    while (node->is_leaf == 0) node = node_at(node->child[node->entries]);
    return node;
  }
  return nullptr;
}

// Another leaf stays, so some node of the path keeps a child.
bool Pmse::drop_leaf(PmdkTransaction& change, std::vector<Step>& path, const Node& leaf) {
  Node* const before = leaf_before(path);
  std::uint64_t& link = before != nullptr ? before->child[order - 1] : head_.first_leaf;
  if (!change.snapshot(&link, sizeof link)) return false;
  store(link, leaf.child[order - 1]);
  const Node* gone = &leaf;
  for (;;) {
    if (!change.free(pool_.offset_of(gone), sizeof *gone)) return false;
    const auto [node, at] = path.back();
    path.pop_back();
    if (node->entries != 0) return drop_child(change, *node, at, path.empty());
    gone = node;  // it was the only child
  }
}

bool Pmse::drop_child(PmdkTransaction& change, Node& node, unsigned at, bool is_root) {
  const unsigned separator = at == 0 ? 0 : at - 1;
  const std::uint64_t text = node.key[separator];
  if (!change.snapshot(&node, sizeof node) ||
      !change.free(text, length_bytes + text_at(text).size()))
    return false;
  for (unsigned i = separator; i + 1 < node.entries; ++i) node.key[i] = node.key[i + 1];
  for (unsigned i = at; i < node.entries; ++i) node.child[i] = node.child[i + 1];
  --node.entries;
  pm::flush(&node, sizeof node);
  if (!is_root || node.entries != 0) return true;
  if (!change.snapshot(&head_.root, sizeof head_.root)) return false;
  store(head_.root, node.child[0]);
  return change.free(pool_.offset_of(&node), sizeof node);
}

}  // namespace perdure::engine::pmse
