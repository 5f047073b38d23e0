#include "index/dptree/dptree.h"

#include <algorithm>
#include <new>
#include <string>

namespace perdure {

using dptree::Anchor;
using dptree::Slots;
using dptree::State;

template <class Keys>
DpTree<Keys>::DpTree(const IndexPlace& place, std::uint64_t anchor, unsigned leaf_entries,
                     unsigned log_entries)
    : pool_(*place.pool),
      heap_(place.pool->heap()),
      leaf_entries_(leaf_entries),
      anchor_(*pool_.at<Anchor>(anchor)),
      records_(*place.pool, epochs_),
      buffers_(place, records_, anchor, log_entries),
      spare_(heap_, LeafView::bytes(leaf_entries)),
      retired_(epochs_),
      workers_(place.options.get("workers")) {}

template <class Keys>
DpTree<Keys>::~DpTree() {
  workers_.stop();
  epochs_.drain();
}

template <class Keys>
auto DpTree<Keys>::create(const IndexPlace& place) -> Result<std::unique_ptr<OrderedIndex<Keys>>> {
  Pool& pool = *place.pool;
  const auto leaf_entries = static_cast<unsigned>(place.options.get("leaf_entries"));
  const auto log_entries = static_cast<unsigned>(place.options.get("log_entries"));
  Reservation block = pool.heap().reserve(sizeof(Anchor));
  if (!block)
    return Error{ErrorCode::out_of_space, "no room for the anchor", pool.path(),
                 "create a larger pool"};
  auto* const anchor = new (pool.at<Anchor>(block.offset)) Anchor{};
  anchor->state.store(State{}.word(), std::memory_order_relaxed);
  pm::persist(anchor, sizeof *anchor);
  pool.heap().publish({&block, 1});
  Result<void> rooted = create_index_root(pool, place.root_name, root_kind,
                                          {leaf_entries, log_entries, 0}, block.offset);
  if (!rooted) {
    pool.heap().free(block.offset, sizeof(Anchor));
    return rooted.error();
  }
  std::unique_ptr<DpTree> tree(new DpTree(place, block.offset, leaf_entries, log_entries));
  auto base = std::make_unique<BaseMap>(0);
  std::unique_ptr<Buffer> front = tree->buffers_.make(State{}.generation, *base);
  front->begin_log(anchor->log[0], {});
  tree->current_.set_first({front.release(), nullptr, base.release()});
  tree->start_workers();
  return std::unique_ptr<OrderedIndex<Keys>>(std::move(tree));
}

template <class Keys>
auto DpTree<Keys>::recover(const IndexPlace& place) -> Result<std::unique_ptr<OrderedIndex<Keys>>> {
  Pool& pool = *place.pool;
  const Result<IndexRoot> root = read_index_root(pool, place.root_name, root_kind);
  if (!root) return root.error();
  const std::uint64_t leaf_entries = root->option[0];
  const std::uint64_t log_entries = root->option[1];
  Result<void> same =
      check_index_option(pool, "leaf_entries", leaf_entries, place.options.get("leaf_entries"));
  if (!same) return same.error();
  same = check_index_option(pool, "log_entries", log_entries, place.options.get("log_entries"));
  if (!same) return same.error();
  const std::uint64_t anchor = root->head;
  if (!pool.contains(anchor, sizeof(Anchor)) || !pool.heap().mark(anchor, sizeof(Anchor)))
    return detail::corrupt_record("the root leads to no anchor", anchor, pool);
  std::unique_ptr<DpTree> tree(new DpTree(place, anchor, static_cast<unsigned>(leaf_entries),
                                          static_cast<unsigned>(log_entries)));
  if (Result<void> done = tree->recover_all(); !done) return done.error();
  if (Result<void> done = pool.root_recovered(place.root_name); !done) return done.error();
  tree->count_claims();
  tree->start_workers();
  return std::unique_ptr<OrderedIndex<Keys>>(std::move(tree));
}

template <class Keys>
auto DpTree<Keys>::aim_at(Key key, std::uint64_t hash) const noexcept -> Aim {
  const Snapshot& trees = prefetch_filters(hash);
  return aim_at(trees, trees.base->find(key).leaf, hash, Expect::record);
}

// One fingerprint in 256 misleads, so of 50 records at a home one in five times.
template <class Keys>
auto DpTree<Keys>::find_in_leaf(const LeafView& view, unsigned which, Key key,
                                std::uint64_t hash) const -> std::optional<BasePlace> {
  const auto found = view.find(
      which, hash, [&](const RecordWords& words) { return records_.matches(words, key); });
  if (!found) return std::nullopt;
  return BasePlace{view, which, found->first, found->second};
}

template <class Keys>
auto DpTree<Keys>::find_in_base(const Aim& aim, Key key, std::uint64_t hash) const
    -> std::optional<BasePlace> {
  if (!aim.has_leaf()) return std::nullopt;
  const LeafView view = leaf_at(aim.leaf);
  return find_in_leaf(view, aim.leaf.which(), key, hash);
}

template <class Keys>
inline bool DpTree<Keys>::find_below(const Aim& aim, Key key, std::uint64_t hash,
                                     RecordWords& found) const {
  const Snapshot& trees = *aim.trees;
  if (trees.middle != nullptr) {
    const auto entry = trees.middle->find(key, hash);
    if (entry.any()) {
      found = trees.middle->record_of(entry.word)->words();
      return entry.is_put();
    }
  }
  if (!aim.has_leaf()) return false;
  const LeafView view = leaf_at(aim.leaf);
  const auto place = view.find(aim.leaf.which(), hash, [&](const RecordWords& words) {
    return records_.matches(words, key);
  });
  if (place) found = place->second;
  return place.has_value();
}

template <class Keys>
bool DpTree<Keys>::find_pinned(Key key, std::uint64_t hash, RecordWords& found) const {
  for (pm::Backoff backoff;; backoff.wait()) {
    const Aim aim = aim_at(key, hash);
    const Snapshot& trees = *aim.trees;
    const auto entry = trees.front->find(key, hash);
    bool present = entry.is_put();
    if (entry.any())
      found = trees.front->record_of(entry.word)->words();
    else
      present = find_below(aim, key, hash, found);
    if (current_.is_whole(trees)) return present;
  }
}

// Merges of what is left over follow each other without a rotation.
template <class Keys>
bool DpTree<Keys>::find_below_front(Aim aim, Key key, std::uint64_t hash,
                                    RecordWords& found) const {
  for (pm::Backoff backoff;; backoff.wait(), aim = aim_at(key, hash)) {
    const bool present = find_below(aim, key, hash, found);
    if (current_.is_whole(*aim.trees)) return present;
  }
}

template <class Keys>
Outcome DpTree<Keys>::lookup(Key key, ValueOut& value) {
  const Epochs::Guard guard(epochs_);
  RecordWords found;
  if (!find_pinned(key, hash_of(key), found)) return Outcome::not_found;
  records_.read_value(found, value);
  return Outcome::ok;
}

template <class Keys>
std::uint64_t DpTree<Keys>::dram_bytes() const {
  const Epochs::Guard guard(epochs_);
  const Snapshot& trees = snapshot();
  return sizeof *this + trees.base->bytes() + trees.front->dram_bytes() +
         (trees.middle == nullptr ? 0 : trees.middle->dram_bytes()) + epochs_.retired_dram_bytes() +
         buffers_.dram_bytes();
}

template class DpTree<IntegerKeys>;
template class DpTree<ByteKeys>;

static std::vector<MediaStruct> dptree_media(const IndexOptions& options) {
  using dptree::LeafSet;
  using dptree::LogRecord;
  using dptree::LogSegment;
  constexpr std::uint32_t bitmap = offsetof(LeafSet, bitmap);
  constexpr std::uint32_t bytes = sizeof(LeafSet);
  const auto entries = static_cast<std::uint32_t>(options.get("leaf_entries"));
  const auto tags = static_cast<std::uint32_t>(dptree::LeafView::rounded(entries));
  const auto records = static_cast<std::uint32_t>(2 * bytes + 3 * tags);
  const auto logged = static_cast<std::uint32_t>(options.get("log_entries"));
  const std::vector<MediaField> sets{{"set[].stamp", offsetof(LeafSet, stamp), 8, 2, bytes},
                                     {"set[].next", offsetof(LeafSet, next), 8, 2, bytes},
                                     {"set[].count", offsetof(LeafSet, count), 8, 2, bytes},
                                     {"set[].home", offsetof(LeafSet, home), 8, 2, bytes},
                                     {"set[0].bitmap", bitmap, 8, 4},
                                     {"set[1].bitmap", bytes + bitmap, 8, 4}};
  const auto with_sets = [&](std::vector<MediaField> rest) {
    rest.insert(rest.begin(), sets.begin(), sets.end());
    return rest;
  };
  return {
      media_of_root(),
      {"anchor", sizeof(Anchor),
       with_sets({{"state", offsetof(Anchor, state), 8}, {"log", offsetof(Anchor, log), 8, 2}})},
      {"leaf", dptree::LeafView::bytes(entries),
       with_sets({{"fingerprint", 2 * bytes, 1, entries},
                  {"order[0]", 2 * bytes + tags, 1, entries},
                  {"order[1]", 2 * bytes + 2 * tags, 1, entries},
                  {"record[].key", records, 8, entries, sizeof(LeafRecord)},
                  {"record[].value", records + 8, 8, entries, sizeof(LeafRecord)}})},
      {"log",
       LogSegment::bytes(logged),
       {{"next", offsetof(LogSegment, next), 8},
        {"record[].key", sizeof(LogSegment), 8, logged, sizeof(LogRecord)},
        {"record[].value", sizeof(LogSegment) + offsetof(LogRecord, value), 8, logged,
         sizeof(LogRecord)},
        {"record[].check", sizeof(LogSegment) + offsetof(LogRecord, check), 8, logged,
         sizeof(LogRecord)},
        {"record[].other", sizeof(LogSegment) + offsetof(LogRecord, other), 8, logged,
         sizeof(LogRecord)}}}};
}

PERDURE_REGISTER_INDEX(
    dptree,
    IndexInfo{.name = "dptree",
              .title = "DPTree (Zhou et al., PVLDB 13(4) 2019)",
              .index_class = IndexClass::persistent,
              .options = {{.name = "leaf_entries",
                           .description = "records a base leaf holds",
                           .fallback = dptree::BaseLeaf::most_entries,
                           .least = 4,
                           .most = dptree::BaseLeaf::most_entries},
                          {.name = "log_entries",
                           .description = "records a segment of the log holds; 127 make it 4 KiB",
                           .fallback = 127,
                           .least = 3,
                           .most = 4095},
                          {.name = "buffer_entries",
                           .description = "records a buffer tree takes before it is merged, at"
                                          " least",
                           .fallback = 16384,
                           .least = 4,
                           .most = std::uint64_t{1} << 30},
                          {.name = "merge_percent",
                           .description = "records a buffer tree takes before it is merged, in"
                                          " percent of the base tree's",
                           .fallback = 7,
                           .least = 1,
                           .most = 100},
                          {.name = "workers",
                           .description = "background threads that merge; 0: the threads that"
                                          " write do, as always under simulation",
                           .fallback = pm::detail::instruction::simulated ? 0 : 1,
                           .least = 0,
                           .most = pm::detail::instruction::simulated ? 0 : 8}},
              .create_integer = DpTree<IntegerKeys>::create,
              .create_bytes = DpTree<ByteKeys>::create,
              .recover_integer = DpTree<IntegerKeys>::recover,
              .recover_bytes = DpTree<ByteKeys>::recover,
              .media = dptree_media});

}  // namespace perdure
