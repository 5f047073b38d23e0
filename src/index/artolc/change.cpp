// The changing half of ArtOlc: insert, upsert, update, remove, and the nodes that grow and shrink.
#include <algorithm>
#include <bit>
#include <new>

#include "index/artolc/artolc.h"
#include "index/common/bulk_check.h"

namespace perdure {

template <class Keys>
Outcome ArtOlc<Keys>::put(Key key, Value value, Put kind) {
  if (!within_limits(key, value)) return Outcome::invalid;
  const Epochs::Guard guard(epochs_);
  const Path path(key);
  Draft draft(arena_, key, value);
  try {
    for (pm::Backoff backoff;; backoff.wait())
      if (const std::optional<Outcome> outcome = try_put(path, kind, draft)) return *outcome;
  } catch (const std::bad_alloc&) {
    return Outcome::out_of_space;
  }
}

template <class Keys>
std::optional<Outcome> ArtOlc<Keys>::try_put(const Path& path, Put kind, Draft& draft) {
  const auto ok_if = [](bool done) { return done ? std::optional(Outcome::ok) : std::nullopt; };
  Position parent;
  Position at = start();
  for (;;) {
    Fork fork;
    if (!compare_prefix(at, path, fork)) return std::nullopt;
    if (fork.differs) {
      if (kind == Put::update) return Outcome::not_found;
      return ok_if(split_prefix(parent, at, fork, path, draft));
    }
    at.level += fork.common;
    const Child child = child_at(at, path);
    if (!at.holds()) return std::nullopt;
    if (child == art::no_child) {
      if (kind == Put::update) return Outcome::not_found;
      return ok_if(add(parent, at, path, draft));
    }
    if (art::is_record(child)) return put_at_record(at, record_of(child), path, kind, draft);
    parent = at;
    if (!enter(at, child)) return std::nullopt;
  }
}

template <class Keys>
bool ArtOlc<Keys>::compare_prefix(const Position& at, const Path& path, Fork& fork) noexcept {
  const unsigned length = at.node->shape().prefix_bytes();
  const std::uint64_t prefix = at.node->prefix.load(std::memory_order_acquire);
  fork = {};
  if (length == 0) return at.holds();
  if (length <= Node::prefix_held) {
    const std::uint64_t differs = prefix ^ path.word(at.level);
    fork.common = std::min(
        {static_cast<unsigned>(std::countl_zero(differs)) / 8, length, path.size() - at.level});
    fork.differs = fork.common < length;
    fork.rest_bytes = fork.differs ? length - fork.common - 1 : 0;
    if (fork.differs) fork.byte = static_cast<std::uint8_t>(prefix >> (56 - 8 * fork.common));
    if (fork.rest_bytes != 0) fork.rest = prefix << 8 * (fork.common + 1);
    return at.holds();
  }
  // N2: the node holds only the first of them.
  const TrieRecord* const below = any_record(at);
  if (below == nullptr || !at.holds()) return false;
  const Path whole = art::path_of(*below);
  fork.common = std::min(art::common_bytes(path, whole, at.level), length);
  fork.differs = fork.common < length;
  if (!fork.differs) return true;
  const unsigned forks_at = at.level + fork.common;
  fork.byte = whole[forks_at];
  fork.rest_bytes = length - fork.common - 1;
  fork.rest = art::first_bytes(whole.word(forks_at + 1), fork.rest_bytes);
  return true;
}

template <class Keys>
void ArtOlc<Keys>::put_below(Node& node, unsigned level, const Path& path, Child child) noexcept {
  if (level == path.size())
    node.here.store(child, std::memory_order_release);
  else
    node.insert(path[level], child);
}

template <class Keys>
bool ArtOlc<Keys>::lock_both(const Position& parent, const Position& at) noexcept {
  if (!parent.lock()) return false;
  if (at.lock()) return true;
  parent.node->lock.unlock_unchanged();
  return false;
}

// A new node takes the shared part of the prefix, and the place; below it are the old node and the
// new record.
template <class Keys>
bool ArtOlc<Keys>::split_prefix(const Position& parent, const Position& at, const Fork& fork,
                                const Path& path, Draft& draft) {
  const Child record = child_of(draft.record());
  Node* const made = new_node(NodeKind::n4);
  made->set_prefix(art::first_bytes(path.word(at.level), fork.common), fork.common);
  made->insert(fork.byte, child_of(at.node));
  put_below(*made, at.level + fork.common, path, record);
  if (!lock_both(parent, at)) {
    free_node(made);
    return false;
  }
  draft.taken();
  at.node->set_prefix(fork.rest, fork.rest_bytes);
  parent.node->replace(path[parent.level], child_of(made));
  parent.node->lock.unlock();
  at.node->lock.unlock();
  return true;
}

// The place of the key is free.
template <class Keys>
bool ArtOlc<Keys>::add(const Position& parent, const Position& at, const Path& path, Draft& draft) {
  if (at.level < path.size() && at.node->shape().is_full()) return grow(parent, at, path, draft);
  const Child record = child_of(draft.record());
  if (!at.lock()) return false;
  draft.taken();
  put_below(*at.node, at.level, path, record);
  at.node->lock.unlock();
  return true;
}

template <class Keys>
bool ArtOlc<Keys>::grow(const Position& parent, const Position& at, const Path& path,
                        Draft& draft) {
  const auto next = static_cast<unsigned>(at.node->shape().kind()) + 1;
  if (!at.holds()) return false;
  const Child record = child_of(draft.record());
  Node* const bigger = new_node(static_cast<NodeKind>(next));
  if (!lock_both(parent, at)) {
    free_node(bigger);
    return false;
  }
  draft.taken();
  at.node->copy_to(*bigger);
  bigger->insert(path[at.level], record);
  replace_node(parent, at, path, child_of(bigger));
  return true;
}

template <class Keys>
std::optional<Outcome> ArtOlc<Keys>::put_at_record(const Position& at, TrieRecord* present,
                                                   const Path& path, Put kind, Draft& draft) {
  if (present->key() == draft.key()) {
    if (kind == Put::insert) return Outcome::exists;
    return change_value(at, present, path, draft) ? std::optional(Outcome::ok) : std::nullopt;
  }
  if (kind == Put::update) return Outcome::not_found;
  // A new node takes the place, with both records below it.
  const Child record = child_of(draft.record());
  const Path other = art::path_of(*present);
  const unsigned level = at.level + 1;
  const unsigned common = art::common_bytes(path, other, level);
  Node* const made = new_node(NodeKind::n4);
  made->set_prefix(art::first_bytes(path.word(level), common), common);
  put_below(*made, level + common, path, record);
  put_below(*made, level + common, other, child_of(present));
  if (!at.lock()) {
    free_node(made);
    return std::nullopt;
  }
  draft.taken();
  at.node->replace(path[at.level], child_of(made));
  at.node->lock.unlock();
  return Outcome::ok;
}

template <class Keys>
bool ArtOlc<Keys>::change_value(const Position& at, TrieRecord* present, const Path& path,
                                Draft& draft) {
  if constexpr (Keys::kind == KeyKind::integer) {
    if (!at.lock()) return false;
    present->value.store(draft.value(), std::memory_order_release);
    at.node->lock.unlock_unchanged();
  } else {
    const Child record = child_of(draft.record());
    if (!at.lock()) return false;
    draft.taken();
    if (at.level == path.size())
      at.node->here.store(record, std::memory_order_release);
    else
      at.node->replace(path[at.level], record);
    at.node->lock.unlock();
    retire(present, present->bytes());
  }
  return true;
}

template <class Keys>
Outcome ArtOlc<Keys>::remove(Key key) {
  const Epochs::Guard guard(epochs_);
  const Path path(key);
  for (pm::Backoff backoff;; backoff.wait()) {
    Position parent;
    Position at;
    TrieRecord* found = nullptr;
    if (!find(key, parent, at, found)) continue;
    if (found == nullptr) return Outcome::not_found;
    if (!take_out(parent, at, path)) continue;
    retire(found, found->bytes());
    return Outcome::ok;
  }
}

// What is read before the lock is believed once it was taken: it is the same version.
template <class Keys>
bool ArtOlc<Keys>::take_out(const Position& parent, const Position& at, const Path& path) {
  const bool ends = at.level == path.size();
  if (at.node != root_) {
    if (at.node->entries() == 2) return collapse(parent, at, path);
    constexpr std::array<unsigned, 4> shrinks_at{0, 4, 13,
                                                 38};  // a few below what the smaller holds
    const typename Node::Shape shape = at.node->shape();
    if (!ends && shape.count() <= shrinks_at[static_cast<std::size_t>(shape.kind())])
      return shrink(parent, at, path);
  }
  if (!at.lock()) return false;
  if (ends)
    at.node->here.store(art::no_child, std::memory_order_release);
  else
    at.node->erase(path[at.level]);
  at.node->lock.unlock();
  return true;
}

// A smaller node takes the place. Without memory for it the node stays as large as it is.
template <class Keys>
bool ArtOlc<Keys>::shrink(const Position& parent, const Position& at, const Path& path) {
  Node* smaller = nullptr;
  try {
    smaller = new_node(static_cast<NodeKind>(static_cast<unsigned>(at.node->shape().kind()) - 1));
  } catch (const std::bad_alloc&) {
    if (!at.lock()) return false;
    at.node->erase(path[at.level]);
    at.node->lock.unlock();
    return true;
  }
  if (!lock_both(parent, at)) {
    free_node(smaller);
    return false;
  }
  at.node->copy_to(*smaller, path[at.level]);
  replace_node(parent, at, path, child_of(smaller));
  return true;
}

// The last but one entry goes: the other one takes the node's place (A2). A node there lengthens
// its prefix by this node's and the byte between.
template <class Keys>
bool ArtOlc<Keys>::collapse(const Position& parent, const Position& at, const Path& path) {
  if (!lock_both(parent, at)) return false;
  Node& node = *at.node;
  const bool ends = at.level == path.size();
  Child other = ends ? art::no_child : node.here.load(std::memory_order_relaxed);
  unsigned byte = 0;
  if (other == art::no_child) {
    byte = node.next_byte(0);
    if (!ends && byte == path[at.level]) byte = node.next_byte(byte + 1);
    other = node.find(static_cast<std::uint8_t>(byte));
  }
  if (!art::is_record(other)) {
    Node& below = *node_of(other);
    if (!below.lock.try_lock()) {
      node.lock.unlock_unchanged();
      parent.node->lock.unlock_unchanged();
      return false;
    }
    const unsigned length = node.shape().prefix_bytes();
    std::uint64_t prefix = node.prefix.load(std::memory_order_relaxed);
    if (length < 8) prefix |= std::uint64_t{byte} << (56 - 8 * length);
    if (length < 7) prefix |= below.prefix.load(std::memory_order_relaxed) >> 8 * (length + 1);
    below.set_prefix(prefix, length + 1 + below.shape().prefix_bytes());
    below.lock.unlock();
  }
  replace_node(parent, at, path, other);
  return true;
}

template <class Keys>
void ArtOlc<Keys>::replace_node(const Position& parent, const Position& at, const Path& path,
                                Child by) {
  parent.node->replace(path[parent.level], by);
  parent.node->lock.unlock();
  at.node->lock.unlock_obsolete();
  retire(at.node, at.node->shape().node_bytes());
}

template <class Keys>
void ArtOlc<Keys>::retire(const void* object, std::size_t bytes) {
  epochs_.retire(reinterpret_cast<std::uint64_t>(object), bytes, StripedArena::destroy, &arena_);
}

template Outcome ArtOlc<IntegerKeys>::put(Key, Value, Put);
template Outcome ArtOlc<ByteKeys>::put(Key, Value, Put);
template Outcome ArtOlc<IntegerKeys>::remove(Key);
template Outcome ArtOlc<ByteKeys>::remove(Key);
template bool ArtOlc<IntegerKeys>::compare_prefix(const Position&, const Path&, Fork&) noexcept;
template bool ArtOlc<ByteKeys>::compare_prefix(const Position&, const Path&, Fork&) noexcept;

}  // namespace perdure
