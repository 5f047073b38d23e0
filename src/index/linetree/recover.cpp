#include <string>

#include "index/common/parallel.h"
#include "index/linetree/chain.h"

namespace perdure::linetree {
namespace {

constexpr std::size_t prefetch_distance = 8;  // leaves

bool could_be_leaf(const Chain& chain, std::uint64_t offset) noexcept {
  return chain.pool.contains(offset, chain.shape.bytes()) && offset % alignof(Leaf) == 0;
}

/// The leaves of the chain in order, with their lowest keys. `lo` ascends, so there is no cycle
/// (L2).
Result<Children> walk(const Chain& chain, std::uint64_t first) {
  Children found;
  bool has_boundary = false;
  for (std::uint64_t at = first; at != null_offset || found.empty();) {
    if (!could_be_leaf(chain, at))
      return damaged(chain.pool, "the chain leads outside the pool", at);
    Leaf* const leaf = chain.leaf_at(at);
    const std::uint64_t lo = leaf->lowest();
    if (found.empty() ? lo != 0 : lo <= found.back().lowest)
      return damaged(chain.pool, "the leaves' lowest keys do not ascend from 0", at);
    has_boundary |= lo == boundary;
    found.push_back({lo, leaf});
    at = leaf->successor();
  }
  if (!has_boundary) return damaged(chain.pool, "no leaf begins at 2^63", first);
  return found;
}

/// Checks the slots of one leaf. What an interrupted displacement has left in the overflow line of
/// a record that is in its home line, too, goes to `twice`.
const char* check_slots(const Shape& shape, const Leaf& leaf, Interval interval,
                        std::vector<LeafRecord*>& twice) {
  const std::uint64_t empty = empty_key(interval.least);
  for (unsigned i = 1; i < shape.slots(); ++i) {
    const RecordWords record = leaf.slot(i).load();
    if (record.key == empty) continue;
    if (record.key < interval.least) return "a key lies below its leaf's lowest, in the leaf";
    if (record.key > interval.last) continue;
    const Place place = shape.place(record.key);
    const unsigned line = line_of(i);
    if (line != place.home && line != place.overflow())
      return "a record lies in neither of its two lines, in the leaf";
    const std::uint32_t same = leaf.matching(line, record.key);
    if ((same & (same - 1)) != 0) return "a line holds a key twice, in the leaf";
    if (line == place.home) continue;
    const unsigned other = leaf.find_in(place.home, record.key);
    if (other == no_slot) continue;
    if (leaf.slot(other).load().value != record.value)
      return "a leaf holds a key with two values, the leaf";
    twice.push_back(&const_cast<Leaf&>(leaf).slot(i));
  }
  return nullptr;
}

/// The highest key of leaf i.
std::uint64_t last_of(const Children& leaves, std::size_t i) noexcept {
  return i + 1 < leaves.size() ? leaves[i + 1].lowest - 1 : ~std::uint64_t{0};
}

Leaf& leaf_of(const Children& leaves, std::size_t i) noexcept {
  return *static_cast<Leaf*>(leaves[i].leaf);
}

}  // namespace

Error damaged(const Pool& pool, const char* what, std::uint64_t offset) {
  return {ErrorCode::corrupt, std::string(what) + " at offset " + std::to_string(offset),
          pool.path(),
          "restore the pool from a copy, or create a new one with PoolOptions::overwrite"};
}

Result<Children> recover_chain(const Chain& chain, std::uint64_t anchor, unsigned threads) {
  Heap& heap = chain.pool.heap();
  if (!heap.mark(anchor, sizeof(Anchor)))
    return damaged(chain.pool, "the anchor is no block of the heap", anchor);
  Result<Children> walked =
      walk(chain, chain.pool.at<Anchor>(anchor)->first.load(std::memory_order_acquire));
  if (!walked) return walked;
  const Children& leaves = *walked;

  std::vector<std::vector<LeafRecord*>> twice(std::max(threads, 1U));
  const auto check = [&](std::size_t begin, std::size_t end, std::size_t part) -> Result<void> {
    for (std::size_t i = begin; i < end; ++i) {
      if (i + prefetch_distance < end) leaf_of(leaves, i + prefetch_distance).prefetch(chain.shape);
      const Leaf& leaf = leaf_of(leaves, i);
      const std::uint64_t offset = chain.pool.offset_of(&leaf);
      if (!heap.mark(offset, chain.shape.bytes()))
        return damaged(chain.pool, "a leaf is no block of the heap, or is linked twice", offset);
      const Interval interval{leaves[i].lowest, last_of(leaves, i)};
      if (const char* const what = check_slots(chain.shape, leaf, interval, twice[part]);
          what != nullptr)
        return damaged(chain.pool, what, offset);
      chain.table.add(offset).set(interval.last, summarize(chain.shape, interval, leaf.keys()));
    }
    return {};
  };
  Result<void> checked = in_parallel(leaves.size(), threads, check);
  if (!checked) return checked.error();

  // Before anything can change one of the two (L4): else an update would hit one of them, or a
  // removal leave the other. Done again after a cut, it does the same.
  bool mended = false;
  for (const auto& part : twice)
    for (LeafRecord* const slot : part) {
      const std::uint64_t key = slot->key.load(std::memory_order_relaxed);
      slot->key.store(empty_key(key), std::memory_order_release);
      pm::flush(slot, sizeof *slot);
      mended = true;
    }
  if (!mended) return walked;
  pm::fence();
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const Interval interval{leaves[i].lowest, last_of(leaves, i)};
    chain.table.of(chain.pool.offset_of(leaves[i].leaf))
        .set(interval.last, summarize(chain.shape, interval, leaf_of(leaves, i).keys()));
  }
  return walked;
}

}  // namespace perdure::linetree
