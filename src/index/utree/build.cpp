// UTree's bulk load: the list is built where nothing leads to it, and linked by one word.
#include <vector>

#include "index/common/bulk_check.h"
#include "index/common/parallel.h"
#include "index/common/publish_batch.h"
#include "index/utree/plant.h"
#include "index/utree/utree.h"

namespace perdure {

/// Nodes and blobs of a list that nothing leads to yet.
template <class Keys>
class UTree<Keys>::ListBuilder {
 public:
  ListBuilder(UTree& tree, std::span<const Record> source)
      : tree_(tree), source_(source), offsets_(source.size(), null_offset) {}

  [[nodiscard]] std::span<const std::uint64_t> offsets() const noexcept { return offsets_; }

  /// Durable when it returns. Errors: out_of_space (then nothing is left behind).
  [[nodiscard]] Result<void> build() {
    std::vector<std::size_t> ends(tree_.threads_ + 1);
    Result<void> built = in_parallel(source_.size(), tree_.threads_,
                                     [&](std::size_t begin, std::size_t end, std::size_t part) {
                                       ends[part] = end;
                                       return build_range(begin, end);
                                     });
    if (!built) {
      give_back();
      return built;
    }
    bool joined = false;
    for (const std::size_t end : ends) {
      if (end == 0 || end == source_.size()) continue;
      std::atomic<std::uint64_t>& next = tree_.node_at(offsets_[end - 1])->next;
      next.store(offsets_[end], std::memory_order_relaxed);
      pm::flush(&next, sizeof next);
      joined = true;
    }
    if (joined) pm::fence();
    return {};
  }

 private:
  // From the back, so that each node is written once, with its successor. The last of a part gets
  // its own when all parts are there.
  [[nodiscard]] Result<void> build_range(std::size_t begin, std::size_t end) {
    PublishBatch batch(tree_.heap_);
    std::uint64_t next = null_offset;
    for (std::size_t i = end; i-- > begin; next = offsets_[i])
      if (!build_node(i, next, batch)) break;
    batch.publish();
    if (offsets_[begin] != null_offset) return {};
    return Error{ErrorCode::out_of_space, "the pool has no room for the records",
                 tree_.pool_.path(), "create a larger pool"};
  }

  [[nodiscard]] bool build_node(std::size_t i, std::uint64_t next, PublishBatch& batch) {
    Reservation block = tree_.heap_.reserve(sizeof(ListNode));
    if (!block) return false;
    Draft draft;
    if (!tree_.records_.draft(source_[i].key, source_[i].value, draft)) {
      tree_.heap_.cancel(block);
      return false;
    }
    tree_.node_at(block.offset)->fill(draft.words, next);
    batch.hold(block);
    if constexpr (RecordStore<Keys>::has_blobs) batch.hold(draft.block);
    offsets_[i] = block.offset;
    return true;
  }

  void give_back() {
    for (const std::uint64_t offset : offsets_) {
      if (offset == null_offset) continue;
      tree_.records_.free(tree_.node_at(offset)->record.load());
      tree_.heap_.free(offset, sizeof(ListNode));
    }
  }

  UTree& tree_;
  const std::span<const Record> source_;
  std::vector<std::uint64_t> offsets_;
};

// Power-cut states: empty, or all records.
template <class Keys>
Result<void> UTree<Keys>::bulk_load(std::span<const Record> records) {
  if (std::optional<Error> refusal = bulk_load_refusal(size() == 0, records)) return *refusal;
  if (records.empty()) return {};
  ListBuilder builder(*this, records);
  if (Result<void> built = builder.build(); !built) return built;
  pm::store_persist(head_->next, builder.offsets().front());
  return plant(builder.offsets(),
               [](std::size_t, std::uint64_t, RecordWords) -> Result<void> { return {}; });
}

template Result<void> UTree<IntegerKeys>::bulk_load(std::span<const IntegerRecord>);
template Result<void> UTree<ByteKeys>::bulk_load(std::span<const BytesRecord>);

}  // namespace perdure
