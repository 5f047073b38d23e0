// PacTree's bulk load: data nodes and their places in the search layer are made first, then the
// list is linked by one word.
#include <algorithm>
#include <vector>

#include "index/common/bulk_check.h"
#include "index/common/publish_batch.h"
#include "index/leaf/separator.h"
#include "index/pactree/pactree.h"
#include "pool/parts_heap.h"

namespace perdure {

/// Data nodes and blobs of a list that nothing leads to yet.
template <class Keys>
class PacTree<Keys>::ListBuilder {
 public:
  ListBuilder(PacTree& tree, std::span<const Record> source) : tree_(tree), source_(source) {}

  [[nodiscard]] std::span<DataNode* const> nodes() const noexcept { return nodes_; }

  /// Durable when it returns. False: out of space (then nothing is left behind).
  [[nodiscard]] bool build() {
    const std::size_t filled = tree_.entries_ - tree_.entries_ / 8;
    PublishBatch batch(tree_.heap_);
    PartsInTurn parts(tree_.heap_);
    bool built = true;
    for (std::size_t at = 0; built && at < source_.size(); at += filled) {
      parts.next();
      built = build_node(at, std::min(filled, source_.size() - at), batch);
    }
    for (const DataNode* const node : nodes_) pm::flush(node, tree_.bytes_of_node());
    batch.publish();
    if (!built) give_back();
    return built;
  }

  void give_back() {
    for (DataNode* const node : nodes_) {
      for (std::uint64_t left = node->commit.load(std::memory_order_relaxed); left != 0;
           left &= left - 1)
        tree_.records_.free(node->record(static_cast<unsigned>(std::countr_zero(left))).load());
      tree_.records_.free(node->anchor.load());
      tree_.heap_.free(tree_.offset_of(node), tree_.bytes_of_node());
    }
    nodes_.clear();
  }

 private:
  [[nodiscard]] bool build_node(std::size_t begin, std::size_t count, PublishBatch& batch) {
    Draft anchor;
    const Key lowest =
        begin == 0 ? source_[0].key : separator_between(source_[begin - 1].key, source_[begin].key);
    if (!tree_.records_.draft(lowest, Value{}, anchor)) return false;
    Reservation block = tree_.heap_.reserve(tree_.bytes_of_node());
    if (!block) {
      tree_.records_.cancel(anchor);
      return false;
    }
    DataNode& node = *tree_.node_at(block.offset);
    node.format(tree_.entries_, anchor.words);
    tree_.orders_.forget(block.offset);
    batch.hold(block);
    if constexpr (RecordStore<Keys>::has_blobs) batch.hold(anchor.block);
    if (!nodes_.empty()) {
      nodes_.back()->next.store(block.offset, std::memory_order_relaxed);
      nodes_.back()->high.store(anchor.words.key, std::memory_order_relaxed);
    }
    node.prev.store(tree_.offset_of(nodes_.empty() ? tree_.first_ : nodes_.back()),
                    std::memory_order_relaxed);
    nodes_.push_back(&node);
    std::uint64_t filled = 0;
    for (const Record& record : source_.subspan(begin, count)) {
      Draft draft;
      if (!tree_.records_.draft(record.key, record.value, draft)) return false;
      if constexpr (RecordStore<Keys>::has_blobs) batch.hold(draft.block);
      const std::uint64_t hash = hash_of(record.key);
      const unsigned slot = pactree::choose_slot(~filled & tree_.full(), hash, tree_.entries_);
      node.fill_slot(slot, draft.words, hash);
      filled |= pactree::bit(slot);
      node.commit.store(filled, std::memory_order_relaxed);
    }
    return true;
  }

  PacTree& tree_;
  const std::span<const Record> source_;
  std::vector<DataNode*> nodes_;
};

// Power-cut states: empty, or all records; in the first the search layer may lead to nodes that
// recovery takes out (G5).
template <class Keys>
Result<void> PacTree<Keys>::bulk_load(std::span<const Record> records) {
  if (!pool_.ready())
    return Error{ErrorCode::usage, "the pool is not ready", "bulk load", "recover all its roots"};
  if (std::optional<Error> refusal = bulk_load_refusal(size() == 0, records)) return *refusal;
  if (records.empty()) return {};
  const Error no_room{ErrorCode::out_of_space, "the pool has no room for the records", pool_.path(),
                      "create a larger pool"};
  if (!take_in_empty_nodes()) return no_room;
  ListBuilder builder(*this, records);
  if (!builder.build()) return no_room;

  bool loaded = replaying_.lock();
  {
    const Epochs::Guard guard(epochs_);
    const std::uint64_t ticket = log_.take(pactree::SmoLog::bulk_load);
    pm::fence();  // G5
    std::size_t placed = 0;
    const auto path_of = [&](std::size_t i) { return Path(anchor_of(*builder.nodes()[i])); };
    PartsInTurn parts(heap_);
    for (; loaded && placed < builder.nodes().size(); placed += loaded) {
      parts.next();
      loaded = trie_.insert(path_of(placed).text(), offset_of(builder.nodes()[placed]));
    }
    if (loaded) {
      DataNode* const first = builder.nodes().front();
      pm::store_persist(first_->next, offset_of(first));
      first_->high.store(first->anchor.load().key, std::memory_order_release);
    } else {
      for (std::size_t i = 0; i < placed; ++i)
        trie_.remove(path_of(i).text(), offset_of(builder.nodes()[i]));
    }
    log_.finish(ticket);
    replay_locked();
  }
  if (!loaded) builder.give_back();
  replaying_.unlock();
  settle();
  if (!loaded) return no_room;
  return {};
}

/// Merges whatever follows the first node of an empty index into it. False: the log is full.
template <class Keys>
bool PacTree<Keys>::take_in_empty_nodes() {
  settle();
  while (const DataNode* const next = next_of(*first_)) {
    bool merged = false;
    {
      const Epochs::Guard guard(epochs_);
      if (!first_->lock.lock()) return false;
      merged = merge_next(*first_, next);
      first_->lock.unlock();
    }
    settle();
    if (!merged) return false;
  }
  return log_.is_empty();
}

template Result<void> PacTree<IntegerKeys>::bulk_load(std::span<const IntegerRecord>);
template Result<void> PacTree<ByteKeys>::bulk_load(std::span<const BytesRecord>);

}  // namespace perdure
