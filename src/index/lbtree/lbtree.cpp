#include "index/lbtree/lbtree.h"

#include <string>

#include "index/common/bulk_check.h"
#include "index/lbtree/chain.h"

namespace perdure {

template <class Keys>
LbTree<Keys>::LbTree(const IndexPlace& place, std::uint64_t head)
    : pool_(*place.pool),
      heap_(place.pool->heap()),
      threads_(place.threads),
      publishes_(place.options.get("as_published") == 0),
      records_(*place.pool, epochs_),
      locks_(place.options.get("lock_stripes"), sizeof(Leaf), place.huge_pages),
      first_(place.pool->template at<Leaf>(head)),
      inner_(epochs_,
             {.entries = static_cast<unsigned>(place.options.get("inner_entries")),
              .huge_pages = place.huge_pages},
             first_) {}

template <class Keys>
auto LbTree<Keys>::create(const IndexPlace& place) -> MadeIndex<Keys> {
  const auto head = create_rooted(place, root_kind, {place.options.get("as_published")},
                                  {"the first leaf", sizeof(Leaf)}, [&](std::uint64_t offset) {
                                    auto* const leaf = place.pool->template at<Leaf>(offset);
                                    leaf->format(null_offset);
                                    pm::flush(leaf, sizeof(Leaf));
                                  });
  if (!head) return head.error();
  return std::unique_ptr<OrderedIndex<Keys>>(new LbTree(place, *head));
}

template <class Keys>
auto LbTree<Keys>::recover(const IndexPlace& place) -> MadeIndex<Keys> {
  const Result<IndexRoot> root = read_index_root(*place.pool, place.root_name, root_kind);
  if (!root) return root.error();
  if (root.value().option[0] != 0)
    return Error{ErrorCode::unsupported, "made with as_published=1, so its leaves are lost",
                 place.pool->path(), "load it anew"};
  Result<void> as_made = check_index_option(*place.pool, "as_published", root.value().option[0],
                                            place.options.get("as_published"));
  if (!as_made) return as_made.error();
  const std::uint64_t head = root.value().head;
  if (!lbtree::could_be_leaf(*place.pool, head))
    return lbtree::damaged(*place.pool, "the root leads to no leaf", head);
  std::unique_ptr<LbTree> tree(new LbTree(place, head));
  auto children = lbtree::recover_chain<Keys>(*place.pool, tree->records_, head, place.threads);
  if (!children) return children.error();
  tree->inner_.build(*children);
  Result<void> recovered = place.pool->root_recovered(place.root_name);
  if (!recovered) return recovered.error();
  return std::unique_ptr<OrderedIndex<Keys>>(std::move(tree));
}

template <class Keys>
bool LbTree<Keys>::find_pinned(Key key, std::uint8_t fingerprint, RecordWords& found) const {
  bool present = false;
  const auto elided = [&] {
    const auto* const leaf = static_cast<const Leaf*>(inner_.find_in_transaction(key));
    if (pm::VersionLock::is_locked(lock_of(leaf).peek())) pm::abort_transaction();
    present = search(
                  *leaf, key, fingerprint, [] { return true; }, found) != no_slot;
  };
  if (elision_.run(elision_attempts, elided)) return present;
  for (pm::Backoff backoff;; backoff.wait()) {
    const Entered at = enter<Purpose::read>(key);
    pm::ReadAttempt stable(*at.lock, at.word);
    present = search(*at.leaf, key, fingerprint, stable, found) != no_slot;
    if (stable()) return present;
  }
}

template <class Keys>
Outcome LbTree<Keys>::lookup(Key key, ValueOut& value) {
  const std::uint8_t fingerprint = fingerprint_of(key);
  const Epochs::Guard guard(epochs_);
  RecordWords found;
  if (!find_pinned(key, fingerprint, found)) return Outcome::not_found;
  records_.read_value(found, value);
  return Outcome::ok;
}

template <class Keys>
std::uint64_t LbTree<Keys>::size() const {
  std::uint64_t records = 0;
  for (std::uint64_t at = offset_of(first_); at != null_offset;) {
    const Leaf* const leaf = leaf_at(at);
    leaf->prefetch();
    const Header header = leaf->read_header();
    records += pm::count_bits(header.live());
    at = leaf->next(header);
  }
  return records;
}

template <class Keys>
std::uint64_t LbTree<Keys>::dram_bytes() const {
  return sizeof *this + inner_.dram_bytes() + locks_.dram_bytes() + epochs_.retired_dram_bytes();
}

template <class Keys>
Result<void> LbTree<Keys>::bulk_load(std::span<const Record> records) {
  if (std::optional<Error> refusal = bulk_load_refusal(size() == 0, records)) return *refusal;
  if (records.empty()) return {};
  const auto build = [&] {
    const Epochs::Guard guard(epochs_);
    return lbtree::build_chain<Keys>(pool_, records_, *first_, records);
  };
  auto children = build();
  epochs_.drain();
  if (!children) return children.error();
  inner_.build(*children);
  return {};
}

template class LbTree<IntegerKeys>;
template class LbTree<ByteKeys>;

static std::vector<MediaStruct> lbtree_media(const IndexOptions&) {
  constexpr std::uint32_t records = offsetof(lbtree::Leaf, record);
  constexpr auto record = static_cast<std::uint32_t>(sizeof(LeafRecord));
  return {
      media_of_root(),
      {"leaf",
       sizeof(lbtree::Leaf),
       {{"header", offsetof(lbtree::Leaf, header), 8, 2},
        {"record[].key", records + offsetof(LeafRecord, key), 8, lbtree::Header::entries, record},
        {"record[].value", records + offsetof(LeafRecord, value), 8, lbtree::Header::entries,
         record},
        {"sibling", offsetof(lbtree::Leaf, sibling), 8, 2}}}};
}

PERDURE_REGISTER_INDEX(
    lbtree,
    IndexInfo{.name = "lbtree",
              .title = "LB+-Tree (Liu et al., PVLDB 13(7) 2020)",
              .index_class = IndexClass::persistent,
              .options = {{.name = "inner_entries",
                           .description = "separators an inner node holds, in DRAM; 15 make it"
                                          " 256 bytes",
                           .fallback = 15,
                           .least = 3,
                           .most = 1024},
                          {.name = "lock_stripes",
                           .description = "leaf locks, in DRAM, which leaves share by their"
                                          " offset; rounded up to a power of two",
                           .fallback = LeafLocks::default_stripes,
                           .least = 1,
                           .most = LeafLocks::most_stripes},
                          {.name = "as_published",
                           .description = "1: leaves that splits make are never published to the"
                                          " heap, as in the public code; not recoverable",
                           .fallback = 0,
                           .least = 0,
                           .most = 1}},
              .create_integer = LbTree<IntegerKeys>::create,
              .create_bytes = LbTree<ByteKeys>::create,
              .recover_integer = LbTree<IntegerKeys>::recover,
              .recover_bytes = LbTree<ByteKeys>::recover,
              .media = lbtree_media});

}  // namespace perdure
