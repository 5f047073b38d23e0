// The reading half of DPTree that takes many records: the three trees in step.
#include <algorithm>
#include <array>

#include "index/dptree/dptree.h"

namespace perdure {

/// A walk over the records of one snapshot from a key on, newest entries first.
template <class Keys>
class DpTree<Keys>::Cursor {
 public:
  /// Begins at `from`, or behind it.
  Cursor(const DpTree& tree, const Snapshot& trees, Key from, bool inclusive)
      : tree_(tree), trees_(trees) {
    front_.tree = trees.front;
    middle_.tree = trees.middle;
    for (BufferSide* side : {&front_, &middle_})
      if (side->tree != nullptr) side->tree->collect(from, inclusive, side->batch);
    if (trees.base->size() == 0) return;
    leaf_ = trees.base->find(from);
    enter_leaf();
    order_ = position_of(from, inclusive);
  }

  /// The next record. False: there is none, or, `whole()` being false, what was read is worth
  /// nothing: begin again behind the last record.
  [[nodiscard]] bool next(RecordWords& out) {
    for (;;) {
      if (!fill_base()) return false;
      RecordWords best;
      bool any = false;
      bool removal = false;
      offer(front_, best, any, removal);
      offer(middle_, best, any, removal);
      if (base_.at < base_.count && (!any || tree_.records_.less(base_.words[base_.at], best))) {
        out = base_.words[base_.at++];
        return stays_whole();
      }
      if (!any) {
        (void)stays_whole();
        return false;
      }
      for (BufferSide* side : {&front_, &middle_}) pass(*side, best);
      if (base_.at < base_.count && !tree_.records_.less(best, base_.words[base_.at])) ++base_.at;
      if (!stays_whole()) return false;
      if (removal) continue;
      out = best;
      return true;
    }
  }
  [[nodiscard]] bool whole() const noexcept { return whole_; }

 private:
  static constexpr std::size_t run = 32;  ///< records of the base tree read at once
  struct BufferSide {
    const Buffer* tree = nullptr;
    typename Buffer::Batch batch;
    unsigned at = 0;
  };
  struct BaseSide {
    std::array<RecordWords, run> words;
    std::size_t at = 0;
    std::size_t count = 0;
  };

  [[nodiscard]] bool stays_whole() noexcept {
    whole_ = whole_ && tree_.is_whole(trees_);
    return whole_;
  }
  void offer(BufferSide& side, RecordWords& best, bool& any, bool& removal) const {
    if (side.tree == nullptr || side.at == side.batch.count) return;
    const auto& entry = side.batch.entry[side.at];
    const RecordWords words = side.tree->record_of(entry.word)->words();
    if (any && !tree_.records_.less(words, best)) return;
    best = words;
    any = true;
    removal = (entry.word & Buffer::removal_bit) != 0;
  }
  /// Moves behind `words`, which nothing here is below.
  void pass(BufferSide& side, RecordWords words) {
    if (side.tree == nullptr || side.at == side.batch.count) return;
    const Key key = side.tree->key_of(side.batch.entry[side.at]);
    if (tree_.records_.key_of(words) < key) return;
    if (++side.at < side.batch.count) return;
    side.at = 0;
    side.tree->collect(key, false, side.batch);
  }

  void enter_leaf() {
    view_.emplace(tree_.leaf_at(trees_.base->leaf(leaf_)));
    which_ = view_->current(trees_.base->version);
    count_ = std::min<std::uint64_t>(tree_.leaf_entries_,
                                     view_->set(which_).count.load(std::memory_order_acquire));
    order_ = 0;
  }
  [[nodiscard]] unsigned slot_at(std::uint64_t i) const noexcept {
    return std::min<unsigned>(view_->order(which_)[i].load(std::memory_order_acquire),
                              tree_.leaf_entries_ - 1);
  }
  /// Slots without a bit are stepped over: their blobs may be gone.
  [[nodiscard]] std::uint64_t position_of(Key from, bool inclusive) const {
    std::uint64_t low = 0;
    std::uint64_t high = count_;
    while (low < high) {
      const std::uint64_t middle = low + (high - low) / 2;
      std::uint64_t probe = middle;
      RecordWords words;
      while (probe < high && !view_->read(which_, slot_at(probe), words)) ++probe;
      if (probe < high && is_before(words, from, inclusive))
        low = probe + 1;
      else
        high = middle;
    }
    return low;
  }
  [[nodiscard]] bool is_before(RecordWords words, Key from, bool inclusive) const {
    const std::uint64_t word = RecordStore<Keys>::key_word(from);
    if (words.key != word) return words.key < word;
    const Key key = tree_.records_.key_of(words);
    return inclusive ? key < from : key <= from;
  }

  /// Reads ahead in the base tree. False: a merge has overtaken us.
  [[nodiscard]] bool fill_base() {
    while (base_.at == base_.count && view_.has_value()) {
      base_ = {};
      const std::uint64_t end = std::min<std::uint64_t>(count_, order_ + run);
      for (std::uint64_t i = order_; i < end; ++i) pm::prefetch(&view_->record(slot_at(i)));
      for (; order_ < end; ++order_) {
        if (view_->read(which_, slot_at(order_), base_.words[base_.count])) ++base_.count;
      }
      if (!stays_whole()) return false;
      for (std::size_t i = 0; i < base_.count; ++i) tree_.records_.prefetch(base_.words[i]);
      if (order_ < count_) continue;
      if (++leaf_ == trees_.base->size())
        view_.reset();
      else
        enter_leaf();
    }
    return true;
  }

  const DpTree& tree_;
  const Snapshot trees_;
  bool whole_ = true;
  BufferSide front_;
  BufferSide middle_;
  BaseSide base_;
  std::size_t leaf_ = 0;
  std::optional<LeafView> view_;
  unsigned which_ = 0;
  std::uint64_t count_ = 0;
  std::uint64_t order_ = 0;
};

template <class Keys>
std::size_t DpTree<Keys>::scan(Key from, std::size_t count, Scan& out) {
  out.clear();
  if (count == 0) return 0;
  const Epochs::Guard guard(epochs_);
  RecordWords last;  // of the last record returned; its blob outlives this thread's pin
  for (pm::Backoff backoff;; backoff.wait()) {
    const bool resumed = out.size() != 0;
    Cursor cursor(*this, snapshot(), resumed ? records_.key_of(last) : from, !resumed);
    for (RecordWords words; out.size() < count && cursor.next(words);) {
      records_.append(words, out);
      last = words;
    }
    if (out.size() == count || cursor.whole()) return out.size();
  }
}

template <class Keys>
std::uint64_t DpTree<Keys>::size() const {
  const Epochs::Guard guard(epochs_);
  for (pm::Backoff backoff;; backoff.wait()) {
    Cursor cursor(*this, snapshot(), Key{}, true);
    std::uint64_t records = 0;
    for (RecordWords words; cursor.next(words);) ++records;
    if (cursor.whole()) return records;
  }
}

template std::size_t DpTree<IntegerKeys>::scan(Key, std::size_t, Scan&);
template std::size_t DpTree<ByteKeys>::scan(Key, std::size_t, Scan&);
template std::uint64_t DpTree<IntegerKeys>::size() const;
template std::uint64_t DpTree<ByteKeys>::size() const;

}  // namespace perdure
