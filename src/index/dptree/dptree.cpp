#include "index/dptree/dptree.h"

#include <new>

#include "index/common/bulk_check.h"
#include "index/dptree/check.h"
#include "index/dptree/recover.h"
#include "index/dptree/scan.h"

namespace perdure {

using dptree::Anchor;
using dptree::State;

template <class Keys>
DpTree<Keys>::~DpTree() {
  maintenance_.stop();
  parts_.epochs.drain();
}

template <class Keys>
auto DpTree<Keys>::create(const IndexPlace& place) -> MadeIndex<Keys> {
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
  auto base = std::make_unique<dptree::BaseMap<Keys>>(0);
  std::unique_ptr<Buffer> front = tree->parts_.buffers.make(State{}.generation, *base);
  front->log().begin(anchor->log[0], {});
  tree->parts_.current.set_first({front.release(), nullptr, base.release()});
  tree->maintenance_.start();
  return MadeIndex<Keys>(std::move(tree));
}

template <class Keys>
auto DpTree<Keys>::recover(const IndexPlace& place) -> MadeIndex<Keys> {
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
  dptree::Maintenance<Keys>& maintenance = tree->maintenance_;
  const Result<void> done = dptree::recover_trees(tree->parts_, maintenance.leftovers());
  if (!done) return done.error();
  if (Result<void> noted = pool.root_recovered(place.root_name); !noted) return noted.error();
  maintenance.claims().recount(maintenance.leftovers());
  maintenance.start();
  return MadeIndex<Keys>(std::move(tree));
}

template <class Keys>
Outcome DpTree<Keys>::lookup(Key key, ValueOut& value) {
  const Epochs::Guard guard(parts_.epochs);
  RecordWords found;
  if (!parts_.find(key, hash_of(key), found)) return Outcome::not_found;
  parts_.records.read_value(found, value);
  return Outcome::ok;
}

template <class Keys>
std::size_t DpTree<Keys>::scan(Key from, std::size_t count, Scan& out) {
  return dptree::scan(parts_, from, count, out);
}

template <class Keys>
std::uint64_t DpTree<Keys>::size() const {
  return dptree::count_records(parts_);
}

template <class Keys>
Result<void> DpTree<Keys>::bulk_load(std::span<const Record> records) {
  if (std::optional<Error> refusal = bulk_load_refusal(size() == 0, records)) return *refusal;
  if (records.empty()) return {};
  return maintenance_.load(records);
}

template <class Keys>
Result<void> DpTree<Keys>::check_invariants() const {
  const pm::LockGuard merging(parts_.merging);  // the worker may still be at it
  return dptree::check_trees(parts_, maintenance_.claims().spare().size());
}

template <class Keys>
std::uint64_t DpTree<Keys>::dram_bytes() const {
  return sizeof *this + parts_.dram_bytes();
}

template class DpTree<IntegerKeys>;
template class DpTree<ByteKeys>;

}  // namespace perdure
