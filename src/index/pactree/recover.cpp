// PacTree's recovery: all threads check and mark the data nodes and derive what was never flushed;
// then the search layer is compared with the list. They may differ where the log says so, and
// replaying the log makes them agree. Media are believed in nothing: every offset is checked before
// it is followed. Done again after a power cut, every step does the same.
#include <algorithm>
#include <iterator>
#include <vector>

#include "index/common/parallel.h"
#include "index/pactree/pactree.h"

namespace perdure {

template <class Keys>
bool PacTree<Keys>::leads_to(std::string_view path, bool ends, RecordWords anchor) const {
  const Path key(records_.key_of(anchor));
  return ends ? key.text() == path : key.text().starts_with(path);
}

template <class Keys>
Result<std::vector<std::uint64_t>> PacTree<Keys>::walk() const {
  const std::uint64_t most = pool_.bytes() / bytes_of_node();
  std::vector<std::uint64_t> nodes;
  for (std::uint64_t at = offset_of(first_); at != null_offset;) {
    if (!could_be_node(at))
      return detail::corrupt_record("L6: the list leads to no data node", at, pool_);
    if (nodes.size() >= most)
      return detail::corrupt_record("L6: the list runs in a circle", at, pool_);
    nodes.push_back(at);
    at = node_at(at)->next.load(std::memory_order_relaxed);
  }
  return nodes;
}

template <class Keys>
Result<void> PacTree<Keys>::recover_node(DataNode& node, const DataNode* next) {
  const auto corrupt = [&](const char* what) {
    return detail::corrupt_record(what, offset_of(&node), pool_);
  };
  const RecordWords anchor = node.anchor.load();
  if (!heap_.mark(offset_of(&node), bytes_of_node()))
    return corrupt("L6: a data node is no block of the heap, or is linked twice");
  if (Result<void> marked = records_.mark(anchor); !marked) return marked;
  RecordWords end;  // the next anchor
  if (next != nullptr) {
    end = next->anchor.load();
    // Another thread may be the one that marks it.
    if (Result<void> sane = records_.check(end); !sane) return sane;
    if (!ascends(node, anchor, end)) return corrupt("L5: anchors do not ascend");
  }
  const std::uint64_t commit = node.commit.load(std::memory_order_relaxed);
  if ((commit & ~full()) != 0) return corrupt("L1: a commit bit has no record");
  std::uint64_t kept = commit;
  decltype(node.tag) tag{};
  for (std::uint64_t left = commit; left != 0; left &= left - 1) {
    const auto slot = static_cast<unsigned>(std::countr_zero(left));
    const RecordWords words = node.record(slot).load();
    if (Result<void> sane = records_.check(words); !sane) return sane;
    if (records_.less(words, anchor)) return corrupt("L5: a key is below its node's anchor");
    if (next != nullptr && !records_.less(words, end)) {
      kept &= ~pactree::bit(slot);  // L7
      continue;
    }
    if (Result<void> marked = records_.mark(words); !marked) return marked;
    tag[slot] = fingerprint_from(hash_of(records_.key_of(words)));
  }
  node.tag = tag;  // L3
  if (kept != commit) pm::store_persist(node.commit, kept);
  node.lock.reset();
  node.high.store(next == nullptr ? pactree::no_high : end.key, std::memory_order_relaxed);
  return {};
}

template <class Keys>
Result<void> PacTree<Keys>::recover_list(std::span<const std::uint64_t> nodes) {
  constexpr std::size_t ahead = 4;
  return in_parallel(
      nodes.size(), threads_, [&](std::size_t begin, std::size_t end, std::size_t) -> Result<void> {
        for (std::size_t i = begin; i < end; ++i) {
          if (i + ahead < end) pm::prefetch_range(node_at(nodes[i + ahead]), bytes_of_node());
          DataNode& node = *node_at(nodes[i]);
          const DataNode* const next = i + 1 < nodes.size() ? node_at(nodes[i + 1]) : nullptr;
          if (Result<void> done = recover_node(node, next); !done) return done;
          node.prev.store(i == 0 ? null_offset : nodes[i - 1], std::memory_order_relaxed);
        }
        return {};
      });
}

// A data node that the search layer leads to and the list does not is one whose merge was not
// replayed, or one of a bulk load: it goes, and the sweep frees it. One that the search layer
// misses is one whose split was not replayed: its entry stays, and is replayed when there is a heap
// to allocate from.
template <class Keys>
Result<void> PacTree<Keys>::recover_trie(std::span<const std::uint64_t> nodes) {
  constexpr std::uint64_t merge_bit = pactree::SmoLog::merge_bit;
  const std::vector<pactree::SmoLog::Found> log = log_.found();
  std::vector<std::uint64_t> logged;
  for (const auto& found : log) logged.push_back(found.entry & ~merge_bit);
  std::ranges::sort(logged);
  const auto is_logged = [&](std::uint64_t node) {
    return std::ranges::binary_search(logged, node);
  };
  const bool bulk_load = is_logged(pactree::SmoLog::bulk_load);

  std::size_t expected = 1;  // the next of `nodes`; the first is not in the search layer
  std::vector<std::uint64_t> gone;
  const auto corrupt = [&](const char* what, std::uint64_t node) {
    return detail::corrupt_record(what, node, pool_);
  };
  // A node of the list that is out of order counts as gone, and is missed where it should be.
  const auto visit = [&](std::uint64_t node, std::string_view path, bool ends) -> Result<void> {
    if (!could_be_node(node)) return corrupt("K2: the search layer leads to no node", node);
    const RecordWords anchor = node_at(node)->anchor.load();
    if (Result<void> sane = records_.check(anchor); !sane) return sane;
    if (!leads_to(path, ends, anchor))
      return corrupt("S5: the search layer leads to another anchor", node);
    std::size_t at = expected;
    while (at < nodes.size() && nodes[at] != node && is_logged(nodes[at])) ++at;
    if (at < nodes.size() && nodes[at] == node) {
      expected = at + 1;
      return {};
    }
    if (node == nodes.front() || !(bulk_load || is_logged(node)))
      return corrupt("T2: the search layer leads elsewhere than the list", node);
    gone.push_back(node);
    return {};
  };
  Result<std::vector<std::uint64_t>> trie_nodes = trie_.check(visit);
  if (!trie_nodes) return trie_nodes.error();
  for (; expected < nodes.size(); ++expected)
    if (!is_logged(nodes[expected]))
      return corrupt("T2: the search layer misses a node", nodes[expected]);
  if (!gone.empty()) {
    for (const std::uint64_t node : gone)
      trie_.forget(Path(anchor_of(*node_at(node))).text(), node);
    trie_nodes = trie_.check([](auto...) -> Result<void> { return {}; });
    if (!trie_nodes) return trie_nodes.error();
  }
  std::vector<std::uint64_t> linked;  // of those that the log names
  if (!logged.empty()) std::ranges::copy_if(nodes, std::back_inserter(linked), is_logged);
  log_.adopt(log, [&](std::uint64_t entry) {
    const std::uint64_t node = entry & ~merge_bit;
    return std::ranges::find(linked, node) == linked.end() ? 0 : node;
  });
  return trie_.mark(*trie_nodes);
}

template <class Keys>
auto PacTree<Keys>::recover(const IndexPlace& place) -> MadeIndex<Keys> {
  const Pool& pool = *place.pool;
  const Result<IndexRoot> root = read_index_root(pool, place.root_name, root_kind);
  if (!root) return root.error();
  const auto [entries, trie, log] = root->option;
  if (Result<void> same =
          check_index_option(pool, "node_entries", entries, place.options.get("node_entries"));
      !same)
    return same.error();
  if (!pool.contains(log, pactree::SmoLog::bytes) || !pool.heap().mark(log, pactree::SmoLog::bytes))
    return detail::corrupt_record("G1: the root leads to no log", log, pool);
  std::unique_ptr<PacTree> tree(new PacTree(place, *root));
  const Result<std::vector<std::uint64_t>> nodes = tree->walk();
  if (!nodes) return nodes.error();
  if (Result<void> done = tree->recover_list(*nodes); !done) return done.error();
  if (Result<void> done = tree->recover_trie(*nodes); !done) return done.error();
  if (Result<void> done = place.pool->root_recovered(place.root_name); !done) return done.error();
  tree->settle();
  tree->start_worker();
  return std::unique_ptr<OrderedIndex<Keys>>(std::move(tree));
}

template MadeIndex<IntegerKeys> PacTree<IntegerKeys>::recover(const IndexPlace&);
template MadeIndex<ByteKeys> PacTree<ByteKeys>::recover(const IndexPlace&);
template bool PacTree<IntegerKeys>::leads_to(std::string_view, bool, RecordWords) const;
template bool PacTree<ByteKeys>::leads_to(std::string_view, bool, RecordWords) const;

}  // namespace perdure
