#include "index/pactree/pactree.h"

namespace perdure {
namespace {

/// What the root block keeps besides the first data node.
enum Stored : std::size_t { stored_entries = 0, stored_trie = 1, stored_log = 2 };

}  // namespace

template <class Keys>
PacTree<Keys>::PacTree(const IndexPlace& place, const IndexRoot& root)
    : pool_(*place.pool),
      heap_(place.pool->heap()),
      threads_(place.threads),
      entries_(static_cast<unsigned>(root.option[stored_entries])),
      records_(*place.pool, epochs_),
      first_(place.pool->template at<DataNode>(root.head)),
      orders_(place.pool->extent_bytes(), bytes_of_node(), place.huge_pages),
      trie_(*place.pool, epochs_, root.option[stored_trie],
            [this](std::uint64_t node) {
              return std::string(Path(anchor_of(*node_at(node))).text());
            }),
      log_(*place.pool, root.option[stored_log]),
      wants_worker_(place.options.get("workers") != 0),
      scans_whole_(place.options.get("as_published") == 0) {}

template <class Keys>
PacTree<Keys>::~PacTree() {
  worker_.stop();
  settle();
}

template <class Keys>
auto PacTree<Keys>::create(const IndexPlace& place) -> MadeIndex<Keys> {
  Pool& pool = *place.pool;
  Heap& heap = pool.heap();
  Epochs epochs;
  RecordStore<Keys> records(pool, epochs);
  const auto entries = static_cast<unsigned>(place.options.get("node_entries"));
  const std::size_t bytes = pactree::node_bytes(entries);

  Draft anchor;
  if (!records.draft(Key{}, Value{}, anchor)) return no_room_for("the first anchor", pool);
  Reservation block = heap.reserve(bytes);
  if (!block) {
    records.cancel(anchor);
    return no_room_for("the first data node", pool);
  }
  auto* const node = pool.at<DataNode>(block.offset);
  node->format(entries, anchor.words);
  pm::persist(node, sizeof(DataNode));  // no commit bit is set: the records mean nothing (L1)
  records.publish(anchor);
  heap.publish({&block, 1});
  const auto give_back = [&] {
    records.free(anchor.words);
    heap.free(block.offset, bytes);
  };
  const Result<std::uint64_t> trie = pactree::SearchLayer::create_root(pool);
  if (!trie) {
    give_back();
    return trie.error();
  }
  const auto give_trie_back = [&] {
    heap.free(*trie, pactree::TrieNode::bytes_of(pactree::TrieKind::n256));
    give_back();
  };
  const Result<std::uint64_t> log = pactree::SmoLog::create(pool);
  if (!log) {
    give_trie_back();
    return log.error();
  }
  Result<void> rooted =
      create_index_root(pool, place.root_name, root_kind, {entries, *trie, *log}, block.offset);
  if (!rooted) {
    heap.free(*log, pactree::SmoLog::bytes);
    give_trie_back();
    return rooted.error();
  }
  const Result<IndexRoot> root = read_index_root(pool, place.root_name, root_kind);
  if (!root) return root.error();
  std::unique_ptr<PacTree> tree(new PacTree(place, *root));
  tree->start_worker();
  return std::unique_ptr<OrderedIndex<Keys>>(std::move(tree));
}

// The node is searched first: taking the lock waits for the flushes of the operation before, and so
// hides the node's misses. The result is still valid because the lock is acquired at the
// version that was searched.
template <class Keys>
auto PacTree<Keys>::lock_node(Key key, std::uint64_t hash) const -> Locked {
  for (pm::Backoff backoff;; backoff.wait()) {
    const Entered entered = enter<Purpose::write>(key, hash);
    Locked at;
    at.node = entered.node;
    pm::ReadAttempt stable(at.node->lock, entered.word);
    at.slot = pactree::find_slot(*at.node, records_, key, hash, at.found, stable);
    if (stable() && at.node->lock.try_upgrade(entered.word)) return at;
  }
}

template <class Keys>
Outcome PacTree<Keys>::lookup(Key key, ValueOut& value) {
  const std::uint64_t hash = hash_of(key);
  const Epochs::Guard guard(epochs_);
  for (pm::Backoff backoff;; backoff.wait()) {
    const Entered at = enter<Purpose::read>(key, hash);
    pm::ReadAttempt stable(at.node->lock, at.word);
    RecordWords found;
    const unsigned slot = pactree::find_slot(*at.node, records_, key, hash, found, stable);
    if (!stable()) continue;
    if (slot == pactree::no_slot) return Outcome::not_found;
    records_.read_value(found, value);
    return Outcome::ok;
  }
}

template <class Keys>
std::uint64_t PacTree<Keys>::size() const {
  std::uint64_t records = 0;
  for (const DataNode* node = first_; node != nullptr; node = next_of(*node))
    records += node->count();
  return records;
}

template <class Keys>
std::uint64_t PacTree<Keys>::dram_bytes() const {
  return sizeof *this + epochs_.retired_dram_bytes() + orders_.dram_bytes();
}

template class PacTree<IntegerKeys>;
template class PacTree<ByteKeys>;

namespace {

std::vector<MediaStruct> media(const IndexOptions& options) {
  using pactree::DataNode;
  const auto entries = static_cast<std::uint32_t>(options.get("node_entries"));
  constexpr auto record = static_cast<std::uint32_t>(sizeof(LeafRecord));
  constexpr auto records = static_cast<std::uint32_t>(sizeof(DataNode));
  return {media_of_root(),
          {"node",
           pactree::node_bytes(entries),
           {{"tag", offsetof(DataNode, tag), 1, pactree::max_entries},
            {"commit", offsetof(DataNode, commit), 8},
            {"next", offsetof(DataNode, next), 8},
            {"anchor.key", offsetof(DataNode, anchor), 8},
            {"anchor.value", offsetof(DataNode, anchor) + 8, 8},
            {"prev", offsetof(DataNode, prev), 8},
            {"lock", offsetof(DataNode, lock), 8},
            {"high", offsetof(DataNode, high), 8},
            {"record[].key", records + offsetof(LeafRecord, key), 8, entries, record},
            {"record[].value", records + offsetof(LeafRecord, value), 8, entries, record}}},
          {"log", pactree::SmoLog::bytes, {{"entry", 0, 8, pactree::SmoLog::entries}}}};
}

PERDURE_REGISTER_INDEX(
    pactree,
    IndexInfo{.name = "pactree",
              .title = "PACTree (Kim et al., SOSP 2021)",
              .index_class = IndexClass::persistent,
              .options = {{.name = "node_entries",
                           .description = "records a data node holds; part of the layout",
                           .fallback = pactree::max_entries,
                           .least = pactree::min_entries,
                           .most = pactree::max_entries},
                          {.name = "workers",
                           .description = "1: a background thread replays the log; 0: the thread"
                                          " that wrote the entry, as always in the crash explorer",
                           .fallback = 1,
                           .least = 0,
                           .most = 1,
                           .counts_threads = true},
                          {.name = "as_published",
                           .description = "1: a scan counts key and value as two records, as in"
                                          " the public code, and ends after half",
                           .fallback = 0,
                           .least = 0,
                           .most = 1},
                          node_pools_option()},
              .create_integer = PacTree<IntegerKeys>::create,
              .create_bytes = PacTree<ByteKeys>::create,
              .recover_integer = PacTree<IntegerKeys>::recover,
              .recover_bytes = PacTree<ByteKeys>::recover,
              .media = media});

}  // namespace
}  // namespace perdure
