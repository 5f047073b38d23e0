#include "index/roart/roart.h"

#include <cstddef>

namespace perdure {

template <class Keys>
Roart<Keys>::Roart(const IndexPlace& place, std::uint64_t root)
    : pool_(*place.pool),
      heap_(place.pool->heap()),
      threads_(place.threads),
      entries_(static_cast<unsigned>(place.options.get("leaf_entries"))),
      root_(pool_.at<Node>(root)),
      records_(*place.pool, epochs_) {}

template <class Keys>
auto Roart<Keys>::create(const IndexPlace& place) -> Result<std::unique_ptr<OrderedIndex<Keys>>> {
  Pool& pool = *place.pool;
  Heap& heap = pool.heap();
  const Error full{ErrorCode::out_of_space, "no room for an empty tree", pool.path(),
                   "create a larger pool"};
  std::array<Reservation, 2> block;
  block[0] = heap.reserve(Node::bytes_of(Kind::n4));
  if (!block[0]) return full;
  block[1] = heap.reserve(sizeof(LeafArray));
  if (!block[1]) {
    heap.cancel(block[0]);
    return full;
  }
  const std::uint64_t root = block[0].offset;
  const std::uint64_t array = block[1].offset;
  Node* const node = Node::make(pool.at<void>(root), Kind::n4, 0, Path(Key{}));
  node->add({0, Kind::leaf_array, array});
  pm::flush(node, node->bytes());
  pm::flush(LeafArray::make(pool.at<void>(array)), sizeof(LeafArray));
  pm::fence();
  heap.publish(block);
  const Result<void> rooted = create_index_root(pool, place.root_name, root_kind,
                                                {place.options.get("leaf_entries"), 0, 0}, root);
  if (!rooted) {
    heap.free(root, Node::bytes_of(Kind::n4));
    heap.free(array, sizeof(LeafArray));
    return rooted.error();
  }
  return std::unique_ptr<OrderedIndex<Keys>>(new Roart(place, root));
}

template <class Keys>
auto Roart<Keys>::recover(const IndexPlace& place) -> Result<std::unique_ptr<OrderedIndex<Keys>>> {
  Pool& pool = *place.pool;
  const Result<IndexRoot> root = read_index_root(pool, place.root_name, root_kind);
  if (!root) return root.error();
  if (Result<void> same = check_index_option(pool, "leaf_entries", root->option[0],
                                             place.options.get("leaf_entries"));
      !same)
    return same.error();
  std::unique_ptr<Roart> tree(new Roart(place, root->head));
  if (Result<void> done = tree->recover_tree(); !done) return done.error();
  if (Result<void> done = pool.root_recovered(place.root_name); !done) return done.error();
  return std::unique_ptr<OrderedIndex<Keys>>(std::move(tree));
}

// Prefixes are not compared: a key that is below a node lies on its path, and one that is nowhere
// is not found wherever it is looked for.
template <class Keys>
auto Roart<Keys>::find_array(const Path& path) const noexcept -> const LeafArray& {
  Entry entry = root_->find(roart::symbol_at(path, 0));
  while (!entry.is_array()) {
    const Node& node = *node_at(entry);
    entry = node.find(roart::symbol_at(path, node.level));
  }
  return *array_at(entry);
}

template <class Keys>
Outcome Roart<Keys>::lookup(Key key, ValueOut& value) {
  const Probe probe(key);
  const Epochs::Guard guard(epochs_);
  const LeafArray& array = find_array(Path(key));
  array.prefetch_for(probe.fingerprint, entries_);
  const LeafArray::Found found = search(array, probe);
  if (found.slot) records_.read_value(found.slot.offset(), value);
  if (!is_settled(array)) {  // A3
    if (found.slot) records_.flush(found.slot.offset());
    pm::persist(array.word.data(), sizeof array.word);
  }
  return found.slot ? Outcome::ok : Outcome::not_found;
}

template class Roart<IntegerKeys>;
template class Roart<ByteKeys>;

static std::vector<MediaStruct> roart_media(const IndexOptions&) {
  using roart::Kind;
  using roart::Node;
  const auto node = [](const char* name, Kind kind) {
    return MediaStruct{name,
                       Node::bytes_of(kind),
                       {{"lock", offsetof(Node, lock), 8},
                        {"level", offsetof(Node, level), 4},
                        {"kind", offsetof(Node, kind), 1},
                        {"held[]", offsetof(Node, held), 8, Node::held_bytes / 8},
                        {"entry[]", sizeof(Node), 8, Node::capacity(kind)}}};
  };
  return {node("n20", Kind::n20),
          node("n256", Kind::n256),
          {"leaf array",
           sizeof(roart::LeafArray),
           {{"lock", offsetof(roart::LeafArray, lock), 8},
            {"slot[]", offsetof(roart::LeafArray, word), 8, roart::LeafArray::most_entries}}}};
}

PERDURE_REGISTER_INDEX(roart,
                       IndexInfo{
                           .name = "roart",
                           .title = "ROART (Ma et al., FAST 2021)",
                           .index_class = IndexClass::persistent,
                           .options = {{.name = "leaf_entries",
                                        .description = "records a leaf array leads to; 64 fill it",
                                        .fallback = roart::LeafArray::most_entries,
                                        .least = 2,
                                        .most = roart::LeafArray::most_entries}},
                           .create_integer = Roart<IntegerKeys>::create,
                           .create_bytes = Roart<ByteKeys>::create,
                           .recover_integer = Roart<IntegerKeys>::recover,
                           .recover_bytes = Roart<ByteKeys>::recover,
                           .media = roart_media});

}  // namespace perdure
