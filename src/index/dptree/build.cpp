// DPTree's bulk load: a merge into an empty base tree, past logs and buffer trees.
#include "core/assert.h"
#include "index/common/bulk_check.h"
#include "index/dptree/merge.h"

namespace perdure {

// Power-cut states: empty, or all records.
template <class Keys>
Result<void> DpTree<Keys>::bulk_load(std::span<const Record> records) {
  if (std::optional<Error> refusal = bulk_load_refusal(size() == 0, records)) return *refusal;
  if (records.empty()) return {};
  quiesce();  // what is left of removed records goes first
  const pm::LockGuard merging(merging_);
  Result<void> loaded = load(records);
  count_claims();
  return loaded;
}

template <class Keys>
Result<void> DpTree<Keys>::load(std::span<const Record> records) {
  const Snapshot trees = snapshot();
  const Error full{ErrorCode::out_of_space, "the pool has no room for the records", pool_.path(),
                   "create a larger pool"};
  if (trees.middle != nullptr) return full;
  std::vector<Pending> changes;
  changes.reserve(records.size());
  {
    PublishBatch batch(heap_);
    for (const Record& record : records) {
      Draft draft;
      if (!records_.draft(record.key, record.value, draft)) break;
      if constexpr (RecordStore<Keys>::has_blobs) batch.hold(draft.block);
      changes.emplace_back(draft.words);
    }
    if constexpr (RecordStore<Keys>::has_blobs) batch.publish();
  }
  Merge merge(*this, *trees.base, changes);
  if (changes.size() == records.size()) merge.plan();
  if (changes.size() != records.size() || !merge.left().empty()) {
    merge.cancel();
    for (const Pending& change : changes) records_.free(change.words);
    return full;
  }
  const Epochs::Guard guard(epochs_);
  current_.announce_merge(trees.base->version);
  merge.apply();
  const auto state = dptree::State::from(anchor_.state.load(std::memory_order_relaxed));
  std::unique_ptr<BaseMap> base = merge.commit(state);
  // The front tree has seen no change; the next is made for so many records.
  PERDURE_ASSERT(trees.front->changes() == 0);
  std::unique_ptr<Buffer> front = buffers_.make(state.generation, *base);
  std::atomic<std::uint64_t>& log = anchor_.log[state.front];
  front->begin_log(log, segments(log.load(std::memory_order_relaxed)));
  current_.replace({front.release(), nullptr, base.release()}, epochs_);
  merge.retire_leaves();
  delete trees.front;
  delete trees.base;
  return {};
}

template Result<void> DpTree<IntegerKeys>::bulk_load(std::span<const IntegerRecord>);
template Result<void> DpTree<ByteKeys>::bulk_load(std::span<const BytesRecord>);

}  // namespace perdure
