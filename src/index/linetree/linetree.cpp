#include "index/linetree/linetree.h"

#include <string>
#include <utility>

#include "index/common/bulk_check.h"

namespace perdure {
namespace {

linetree::Shape shape_of(const IndexPlace& place) noexcept {
  return {std::bit_ceil(static_cast<unsigned>(place.options.get("lines")))};
}

/// Null: inner nodes are in DRAM.
Pool* inner_pool(const IndexPlace& place) noexcept {
  return place.options.get("inner_in_pool") != 0 ? place.pool : nullptr;
}

}  // namespace

template <class Keys>
LineTree<Keys>::LineTree(const IndexPlace& place, std::uint64_t anchor)
    : pool_(*place.pool),
      heap_(place.pool->heap()),
      shape_(shape_of(place)),
      threads_(place.threads),
      validated_(place.options.get("validated") != 0),
      records_(*place.pool, epochs_),
      locks_(place.options.get("lock_stripes"), shape_.bytes(), place.huge_pages),
      table_(pool_.extent_bytes(), shape_.bytes(), place.huge_pages),
      anchor_(*place.pool->template at<linetree::Anchor>(anchor)),
      inner_(epochs_,
             {.entries = static_cast<unsigned>(place.options.get("inner_entries")),
              .huge_pages = place.huge_pages,
              .pool = inner_pool(place)},
             first()) {}

template <class Keys>
void LineTree<Keys>::adopt_first_leaves() {
  linetree::Children<Keys> children;
  for (Leaf* leaf = first();; leaf = leaf_at(leaf->successor())) {
    const bool is_last = leaf->successor() == null_offset;
    table_.add(offset_of(leaf)).set(is_last ? ~std::uint64_t{0} : linetree::boundary - 1, {});
    children.push_back({linetree::lowest_key(records_, *leaf), leaf});
    if (is_last) break;
  }
  inner_.build(children);
}

template <class Keys>
auto LineTree<Keys>::create(const IndexPlace& place) -> Made {
  Pool& pool = *place.pool;
  const linetree::Shape shape = shape_of(place);
  std::vector<Reservation> leaves = linetree::make_first_leaves<Keys>(pool, shape);
  if (leaves.empty()) return no_room_for("the first leaves", pool);
  const auto give_back = [&] {
    for (const Reservation& leaf : leaves) pool.heap().free(leaf.offset, shape.bytes());
  };
  pm::fence();
  pool.heap().publish(leaves);
  const auto anchor =
      create_rooted(place, root_kind, {shape.lines}, {"the anchor", sizeof(linetree::Anchor)},
                    [&](std::uint64_t offset) {
                      auto* const at = pool.at<linetree::Anchor>(offset);
                      new (at) linetree::Anchor{leaves[0].offset, 0};
                      pm::flush(at, sizeof *at);
                    });
  if (!anchor) {
    give_back();
    return anchor.error();
  }
  std::unique_ptr<LineTree> tree(new LineTree(place, *anchor));
  tree->adopt_first_leaves();
  return std::unique_ptr<OrderedIndex<Keys>>(std::move(tree));
}

template <class Keys>
auto LineTree<Keys>::recover(const IndexPlace& place) -> Made {
  Pool& pool = *place.pool;
  const Result<IndexRoot> root = read_index_root(pool, place.root_name, root_kind);
  if (!root) return root.error();
  Result<void> as_made =
      check_index_option(pool, "lines", root.value().option[0], shape_of(place).lines);
  if (!as_made) return as_made.error();
  const std::uint64_t anchor = root.value().head;
  if (anchor % sizeof(linetree::Anchor) != 0 || !pool.contains(anchor, sizeof(linetree::Anchor)))
    return linetree::damaged(pool, "the root leads to no anchor", anchor);
  std::unique_ptr<LineTree> tree(new LineTree(place, anchor));
  auto children = linetree::recover_chain(tree->chain(), anchor, place.threads);
  if (!children) return children.error();
  Result<void> recovered = pool.root_recovered(place.root_name);
  if (!recovered) return recovered.error();
  tree->inner_.build(*children);  // now, because the pool may have to have room for it
  return std::unique_ptr<OrderedIndex<Keys>>(std::move(tree));
}

// The word is that of a moment when the leaf covered the key; if it is still the same after the
// search, no split or merge has moved the key away, and none is under way (T4).
template <class Keys>
bool LineTree<Keys>::find_pinned(const Probe& probe, std::uint64_t& word) const {
  for (pm::Backoff backoff;; backoff.wait()) {
    const Entered at = enter<Purpose::read>(probe.key, probe.place.home);
    pm::ReadAttempt stable(*at.lock, at.word);
    const unsigned slot = search(*at.leaf, probe, stable);
    const bool present = slot != linetree::no_slot;
    const std::uint64_t found = present ? at.leaf->value_word(slot) : 0;
    if (!stable()) continue;
    if (present) word = found;
    return present;
  }
}

template <class Keys>
Outcome LineTree<Keys>::lookup(Key key, ValueOut& value) {
  const Probe probe(shape_, key);
  const Epochs::Guard guard(epochs_);
  std::uint64_t word = 0;
  if (!find_pinned(probe, word)) return Outcome::not_found;
  read_value(word, value);
  return Outcome::ok;
}

template <class Keys>
std::uint64_t LineTree<Keys>::dram_bytes() const {
  return sizeof *this + inner_.dram_bytes() + locks_.dram_bytes() + table_.dram_bytes() +
         epochs_.retired_dram_bytes();
}

template <class Keys>
Result<void> LineTree<Keys>::bulk_load(std::span<const Record> records) {
  if (std::optional<Error> refusal = bulk_load_refusal(size() == 0, records)) return *refusal;
  if (records.empty()) return {};
  const std::uint64_t old = offset_of(first());
  auto children = linetree::build_chain(chain(), anchor_, records);
  if (!children) return children.error();
  inner_.build(*children);
  epochs_.drain();
  for (std::uint64_t at = old; at != null_offset;) {
    const Leaf& leaf = *leaf_at(at);
    const std::uint64_t next = leaf.successor();
    if constexpr (has_text_keys<Keys>)
      if (leaf.lowest() != 0) records_.free({0, leaf.lowest()});
    heap_.free(at, shape_.bytes());
    at = next;
  }
  return {};
}

template class LineTree<IntegerKeys>;
template class LineTree<SlotKeys>;
template class LineTree<ByteKeys>;

static std::vector<MediaStruct> linetree_media(const IndexOptions& options) {
  const auto lines = std::bit_ceil(static_cast<unsigned>(options.get("lines")));
  const linetree::Shape shape{lines};
  constexpr auto slots = static_cast<std::uint32_t>(offsetof(linetree::Leaf, first_slots));
  constexpr auto slot = static_cast<std::uint32_t>(sizeof(LeafRecord));
  return {media_of_root(),
          {"anchor", sizeof(linetree::Anchor), {{"first", 0, 8}}},
          {"leaf",
           shape.bytes(),
           {{"next", offsetof(linetree::Leaf, next), 8},
            {"lo", offsetof(linetree::Leaf, lo), 8},
            {"slot[].key", slots + offsetof(LeafRecord, key), 8, shape.records(), slot},
            {"slot[].value", slots + offsetof(LeafRecord, value), 8, shape.records(), slot}}}};
}

PERDURE_REGISTER_INDEX(
    linetree,
    IndexInfo{.name = "linetree",
              .title = "LineTree (this project's own)",
              .index_class = IndexClass::persistent,
              .options = {{.name = "lines",
                           .description = "cache lines of a leaf, with 4 records each; rounded up"
                                          " to a power of two",
                           .fallback = 16,
                           .least = 4,
                           .most = linetree::most_lines},
                          {.name = "inner_entries",
                           .description = "separators an inner node holds, in DRAM; at most 25"
                                          " unless keys are byte strings",
                           .fallback = 25,
                           .least = 3,
                           .most = 1024},
                          {.name = "inner_in_pool",
                           .description = "1: inner nodes are in the pool, as volatile far memory;"
                                          " 0: in DRAM",
                           .fallback = 0,
                           .least = 0,
                           .most = 1},
                          {.name = "lock_stripes",
                           .description = "leaf locks, in DRAM, which leaves share by their"
                                          " offset; rounded up to a power of two",
                           .fallback = LeafLocks::default_stripes,
                           .least = 1,
                           .most = LeafLocks::most_stripes},
                          {.name = "validated",
                           .description = "1: a scan's records are those of one moment; 0: those of"
                                          " each leaf are",
                           .fallback = 0,
                           .least = 0,
                           .most = 1},
                          node_pools_option()},
              .create_integer = LineTree<IntegerKeys>::create,
              .create_bytes = LineTree<ByteKeys>::create,
              .create_slots = LineTree<SlotKeys>::create,
              .recover_integer = LineTree<IntegerKeys>::recover,
              .recover_bytes = LineTree<ByteKeys>::recover,
              .recover_slots = LineTree<SlotKeys>::recover,
              .media = linetree_media});

}  // namespace perdure
