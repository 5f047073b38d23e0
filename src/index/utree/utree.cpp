#include "index/utree/utree.h"

#include <string>

namespace perdure {

template <class Keys>
UTree<Keys>::UTree(const IndexPlace& place, std::uint64_t head)
    : pool_(*place.pool),
      heap_(place.pool->heap()),
      threads_(place.threads),
      leaf_entries_(static_cast<unsigned>(place.options.get("leaf_entries"))),
      head_(node_at(head)),
      records_(*place.pool, epochs_),
      leaves_(place.huge_pages),
      first_(new_leaf()),
      inner_(epochs_,
             {.entries = static_cast<unsigned>(place.options.get("inner_entries")),
              .huge_pages = place.huge_pages},
             first_) {}

template <class Keys>
auto UTree<Keys>::create(const IndexPlace& place) -> MadeIndex<Keys> {
  Pool& pool = *place.pool;
  if (pool.bytes() > Leaf::most_pool_bytes)
    return Error{ErrorCode::usage, "utree reaches 32 TiB, the pool is larger", pool.path(),
                 "create a smaller pool"};
  const auto head = create_rooted(
      place, root_kind, {}, {"the list's head", sizeof(ListNode)},
      [&](std::uint64_t offset) { pool.at<ListNode>(offset)->fill({}, null_offset); });
  if (!head) return head.error();
  return std::unique_ptr<OrderedIndex<Keys>>(new UTree(place, *head));
}

template <class Keys>
auto UTree<Keys>::recover(const IndexPlace& place) -> MadeIndex<Keys> {
  Pool& pool = *place.pool;
  const Result<IndexRoot> root = read_index_root(pool, place.root_name, root_kind);
  if (!root) return root.error();
  const std::uint64_t head = root.value().head;
  if (!pool.contains(head, sizeof(ListNode)) || !pool.heap().mark(head, sizeof(ListNode)))
    return detail::corrupt_record("the root leads to no list", head, pool);
  std::unique_ptr<UTree> tree(new UTree(place, head));
  if (Result<void> done = tree->recover_list(); !done) return done.error();
  if (Result<void> done = pool.root_recovered(place.root_name); !done) return done.error();
  return std::unique_ptr<OrderedIndex<Keys>>(std::move(tree));
}

template <class Keys>
bool UTree<Keys>::find_pinned(Key key, RecordWords& found) const {
  for (pm::Backoff backoff;; backoff.wait()) {
    const Entered at = enter<Purpose::read>(key);
    pm::ReadAttempt stable(at.leaf->lock, at.word);
    const LeafPosition position = search(*at.leaf, key, stable);
    if (position.present) {
      const std::uint64_t node = at.leaf->node(position.rank);
      if (!stable()) continue;
      found = node_at(node)->record.load();
    }
    if (stable()) return position.present;
  }
}

template <class Keys>
Outcome UTree<Keys>::lookup(Key key, ValueOut& value) {
  const Epochs::Guard guard(epochs_);
  RecordWords found;
  if (!find_pinned(key, found)) return Outcome::not_found;
  records_.read_value(found, value);
  return Outcome::ok;
}

template <class Keys>
std::uint64_t UTree<Keys>::size() const {
  std::uint64_t records = 0;
  const Epochs::Guard guard(epochs_);
  for (const Leaf* leaf = first_; leaf != nullptr;
       leaf = leaf->next.load(std::memory_order_acquire))
    records += leaf->count();
  return records;
}

template <class Keys>
std::uint64_t UTree<Keys>::dram_bytes() const {
  return sizeof *this + leaves_.dram_bytes() + inner_.dram_bytes() + epochs_.retired_dram_bytes();
}

template class UTree<IntegerKeys>;
template class UTree<ByteKeys>;

static std::vector<MediaStruct> utree_media(const IndexOptions&) {
  constexpr std::uint32_t record = offsetof(utree::ListNode, record);
  return {media_of_root(),
          {"node",
           sizeof(utree::ListNode),
           {{"key", record + offsetof(LeafRecord, key), 8},
            {"value", record + offsetof(LeafRecord, value), 8},
            {"next", offsetof(utree::ListNode, next), 8}}}};
}

PERDURE_REGISTER_INDEX(
    utree, IndexInfo{.name = "utree",
                     .title = "uTree (Chen et al., PVLDB 13(12) 2020)",
                     .index_class = IndexClass::persistent,
                     .options = {{.name = "leaf_entries",
                                  .description = "records a leaf leads to, in DRAM, of the 18 that"
                                                 " its 256 bytes hold",
                                  .fallback = utree::Leaf::entries,
                                  .least = 2,
                                  .most = utree::Leaf::entries},
                                 {.name = "inner_entries",
                                  .description = "separators an inner node holds, in DRAM; 15"
                                                 " make it 256 bytes",
                                  .fallback = 15,
                                  .least = 3,
                                  .most = 1024}},
                     .create_integer = UTree<IntegerKeys>::create,
                     .create_bytes = UTree<ByteKeys>::create,
                     .recover_integer = UTree<IntegerKeys>::recover,
                     .recover_bytes = UTree<ByteKeys>::recover,
                     .media = utree_media});

}  // namespace perdure
