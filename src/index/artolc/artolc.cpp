// Lookups, bulk load, the checks and the registration of ArtOlc.
#include "index/artolc/artolc.h"

#include <algorithm>

#include "index/reference/in_memory.h"
#include "index/registry.h"

namespace perdure {

template <class Keys>
ArtOlc<Keys>::ArtOlc(bool huge_pages) : arena_(huge_pages), root_(new_node(NodeKind::n256)) {}

template <class Keys>
auto ArtOlc<Keys>::new_node(NodeKind kind) -> Node* {
  return Node::make(arena_.allocate(Node::bytes_of(kind)), kind);
}

template <class Keys>
auto ArtOlc<Keys>::any_record(Position at) noexcept -> const TrieRecord* {
  for (;;) {
    Child child = at.node->here.load(std::memory_order_acquire);
    if (child == art::no_child)
      if (const unsigned byte = at.node->next_byte(0); byte != Node::no_byte)
        child = at.node->find(static_cast<std::uint8_t>(byte));
    if (!at.holds() || child == art::no_child) return nullptr;
    if (art::is_record(child)) return record_of(child);
    if (!enter(at, child)) return nullptr;
  }
}

template <class Keys>
bool ArtOlc<Keys>::find(Key key, Position& parent, Position& at,
                        TrieRecord*& found) const noexcept {
  const Path path(key);
  found = nullptr;
  for (at = start();;) {
    if (!pass_prefix(at, path)) return at.holds();
    const Child child = child_at(at, path);
    if (!at.holds()) return false;
    if (child == art::no_child) return true;
    if (art::is_record(child)) {
      TrieRecord* const record = record_of(child);
      if (record->key() == key) found = record;
      return true;
    }
    parent = at;
    if (!enter(at, child)) return false;
  }
}

template <class Keys>
Outcome ArtOlc<Keys>::lookup(Key key, ValueOut& value) {
  const Epochs::Guard guard(epochs_);
  Position parent;
  Position at;
  TrieRecord* found = nullptr;
  for (pm::Backoff backoff; !find(key, parent, at, found);) backoff.wait();
  if (found == nullptr) return Outcome::not_found;
  value = value_of(*found);
  return Outcome::ok;
}

template <class Keys>
Result<void> ArtOlc<Keys>::bulk_load(std::span<const Record> records) {
  return load_by_inserts<Keys>(*this, records, [this] { free_below(*root_); });
}

// No other thread runs. Leaves the node without entries.
template <class Keys>
void ArtOlc<Keys>::free_below(Node& node) noexcept {
  const auto free_child = [this](Child child) {
    if (child == art::no_child) return;
    if (art::is_record(child)) {
      arena_.free(record_of(child), record_of(child)->bytes());
    } else {
      free_below(*node_of(child));
      free_node(node_of(child));
    }
  };
  free_child(node.here.exchange(art::no_child));
  for (unsigned byte = node.next_byte(0); byte < Node::no_byte; byte = node.next_byte(byte + 1)) {
    const auto at = static_cast<std::uint8_t>(byte);
    free_child(node.find(at));
    node.erase(at);
  }
}

namespace {

Error broken(const char* invariant) {
  return {ErrorCode::corrupt, std::string("breaks ") + invariant, "artolc", "report this as a bug"};
}

}  // namespace

template <class Keys>
Result<void> ArtOlc<Keys>::check_invariants() const {
  const typename Node::Shape shape = root_->shape();
  if (shape.kind() != NodeKind::n256 || shape.prefix_bytes() != 0) return broken("A2");
  std::vector<std::uint8_t> path;
  return check_node(*root_, path);
}

template <class Keys>
Result<void> ArtOlc<Keys>::check_node(const Node& node, std::vector<std::uint8_t>& path) const {
  const std::uint64_t word = node.lock.peek();
  if (pm::VersionLock::is_locked(word) || pm::VersionLock::is_obsolete(word)) return broken("A3");
  if (&node != root_ && node.entries() < 2) return broken("A2");
  const std::size_t above = path.size();
  if (const unsigned length = node.shape().prefix_bytes(); length != 0) {
    const TrieRecord* const below = any_record({const_cast<Node*>(&node), word, 0});
    if (below == nullptr || art::path_of(*below).size() < above + length) return broken("A1");
    const Path whole = art::path_of(*below);
    const auto from = static_cast<unsigned>(above);
    if (art::first_bytes(whole.word(from), length) != node.prefix.load()) return broken("N2");
    for (unsigned i = 0; i < length; ++i) path.push_back(whole[from + i]);
  }
  unsigned children = 0;
  if (const Child here = node.here.load(); here != art::no_child)
    if (auto checked = check_child(here, path, true); !checked) return checked;
  for (unsigned byte = node.next_byte(0); byte < Node::no_byte; byte = node.next_byte(byte + 1)) {
    ++children;
    path.push_back(static_cast<std::uint8_t>(byte));
    auto checked = check_child(node.find(static_cast<std::uint8_t>(byte)), path, false);
    if (!checked) return checked;
    path.pop_back();
  }
  if (children != node.shape().count()) return broken("N4");
  path.resize(above);
  return {};
}

template <class Keys>
Result<void> ArtOlc<Keys>::check_child(Child child, std::vector<std::uint8_t>& path,
                                       bool ends) const {
  if (!art::is_record(child))
    return ends ? Result<void>(broken("N3")) : check_node(*node_of(child), path);
  const Path own = art::path_of(*record_of(child));
  if (own.size() < path.size() || (ends && own.size() != path.size())) return broken("A1");
  for (unsigned i = 0; i < path.size(); ++i)
    if (own[i] != path[i]) return broken("A1");
  return {};
}

template class ArtOlc<IntegerKeys>;
template class ArtOlc<ByteKeys>;

PERDURE_REGISTER_INDEX(artolc,
                       IndexInfo{
                           .name = "artolc",
                           .title = "Adaptive radix tree, optimistic lock coupling (volatile)",
                           .index_class = IndexClass::in_memory,
                           .create_integer = create_in_memory<ArtOlc, IntegerKeys>,
                           .create_bytes = create_in_memory<ArtOlc, ByteKeys>,
                       });

}  // namespace perdure
