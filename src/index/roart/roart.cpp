#include "index/roart/roart.h"

#include <cstddef>

#include "index/roart/walk.h"

namespace perdure {

namespace {

/// What the root block keeps besides the root.
enum Stored : std::size_t { stored_entries = 0, stored_restart = 1 };

}  // namespace

template <class Keys>
Roart<Keys>::Roart(const IndexPlace& place, const IndexRoot& root, std::uint32_t openings)
    : pool_(*place.pool),
      heap_(place.pool->heap()),
      threads_(place.threads),
      entries_(static_cast<unsigned>(place.options.get("leaf_entries"))),
      opening_(static_cast<std::uint16_t>(openings % roart::OpeningLock::most_openings)),
      has_restart_(root.option[stored_restart] != null_offset),
      root_(pool_.at<Node>(root.head)),
      records_(*place.pool, epochs_),
      walk_(std::make_unique<Walk>()) {
  walk_->has_worker = place.options.get("workers") != 0;
}

template <class Keys>
auto Roart<Keys>::create(const IndexPlace& place) -> MadeIndex<Keys> {
  Pool& pool = *place.pool;
  Heap& heap = pool.heap();
  const Error full{ErrorCode::out_of_space, "no room for an empty tree", pool.path(),
                   "create a larger pool"};
  constexpr std::array<std::size_t, 3> bytes{Node::bytes_of(Kind::n4), sizeof(LeafArray),
                                             sizeof(roart::Restart)};
  std::array<Reservation, 3> block;
  for (std::size_t i = 0; i < block.size(); ++i) {
    block[i] = heap.reserve(bytes[i]);
    if (block[i]) continue;
    while (i-- > 0) heap.cancel(block[i]);
    return full;
  }
  const std::array<std::uint64_t, 3> at{block[0].offset, block[1].offset, block[2].offset};
  Node* const node = Node::make(pool.at<void>(at[0]), Kind::n4, 0, Path(Key{}), 0);
  node->add({0, Kind::leaf_array, at[1]});
  pm::flush(node, node->bytes());
  pm::flush(LeafArray::make(pool.at<void>(at[1]), 0), sizeof(LeafArray));
  roart::Restart* const restart = roart::Restart::make(pool.at<void>(at[2]));
  pm::flush(restart, sizeof *restart);
  pm::fence();
  heap.publish(block);
  const Result<void> rooted = create_index_root(
      pool, place.root_name, root_kind, {place.options.get("leaf_entries"), at[2], 0}, at[0]);
  if (!rooted) {
    for (std::size_t i = 0; i < block.size(); ++i) heap.free(at[i], bytes[i]);
    return rooted.error();
  }
  (void)heap.keep_high_water(restart->high_water);  // a cut before: the next opening walks first
  const Result<IndexRoot> root = read_index_root(pool, place.root_name, root_kind);
  if (!root) return root.error();
  return std::unique_ptr<OrderedIndex<Keys>>(new Roart(place, *root, 0));
}

template <class Keys>
auto Roart<Keys>::recover(const IndexPlace& place) -> MadeIndex<Keys> {
  Pool& pool = *place.pool;
  const Result<IndexRoot> root = read_index_root(pool, place.root_name, root_kind);
  if (!root) return root.error();
  if (Result<void> same = check_index_option(pool, "leaf_entries", root->option[0],
                                             place.options.get("leaf_entries"));
      !same)
    return same.error();
  const std::uint64_t at = root->option[stored_restart];
  roart::Restart* restart = nullptr;
  std::uint32_t openings = 0;
  if (at != null_offset) {
    std::optional<std::uint32_t> before;
    if (pool.contains(at, sizeof *restart)) {
      restart = pool.at<roart::Restart>(at);
      before = restart->openings();
    }
    if (!before) return detail::corrupt_record("the count of openings is damaged", at, pool);
    openings = *before + 1;
  }
  std::unique_ptr<Roart> tree(new Roart(place, *root, openings));
  const bool anew = tree->opening_ == 0;  // K2: the count says so when all locks do
  if (restart != nullptr && !anew) {
    restart->set_openings(openings);
    const Result<bool> early = tree->open_early(place.root_name, at);
    if (!early) pool.note_damage();
    if (!early) return early.error();
    if (*early) return std::unique_ptr<OrderedIndex<Keys>>(std::move(tree));
  }
  if (restart != nullptr && !pool.heap().mark(at, sizeof *restart))
    return tree->corrupt("the count of openings is no block of the heap", at);
  if (Result<void> done = tree->recover_tree(anew); !done) return done.error();
  if (restart != nullptr && anew) restart->set_openings(openings);
  if (restart != nullptr) (void)pool.heap().keep_high_water(restart->high_water);
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
  if (state_.early()) return state_.is_damaged() ? Outcome::invalid : lookup_early(key, value);
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
  return {{"restart",
           sizeof(roart::Restart),
           {{"opening", offsetof(roart::Restart, opening), 8},
            {"high_water", offsetof(roart::Restart, high_water), 8}}},
          node("n20", Kind::n20),
          node("n256", Kind::n256),
          {"leaf array",
           sizeof(roart::LeafArray),
           {{"lock", offsetof(roart::LeafArray, lock), 8},
            {"slot[]", offsetof(roart::LeafArray, word), 8, roart::LeafArray::most_entries}}}};
}

PERDURE_REGISTER_INDEX(
    roart,
    IndexInfo{.name = "roart",
              .title = "ROART (Ma et al., FAST 2021)",
              .index_class = IndexClass::persistent,
              .options = {{.name = "leaf_entries",
                           .description = "records a leaf array leads to; 64 fill it",
                           .fallback = roart::LeafArray::most_entries,
                           .least = 2,
                           .most = roart::LeafArray::most_entries},
                          {.name = "workers",
                           .description = "1: a background thread walks the tree after a restart;"
                                          " 0: changes do, as always under simulation",
                           .fallback = pm::detail::instruction::simulated ? 0 : 1,
                           .least = 0,
                           .most = 1}},
              .create_integer = Roart<IntegerKeys>::create,
              .create_bytes = Roart<ByteKeys>::create,
              .recover_integer = Roart<IntegerKeys>::recover,
              .recover_bytes = Roart<ByteKeys>::recover,
              .media = roart_media});

}  // namespace perdure
