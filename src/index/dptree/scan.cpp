// The reading half of DPTree that takes many records: the three trees in step.
#include <algorithm>
#include <array>
#include <span>

#include "index/dptree/dptree.h"

namespace perdure {

/// A walk over the records of one snapshot from a key on, newest entries first. All lines that it
/// will read are prefetched before it waits for any.
template <class Keys>
class DpTree<Keys>::Cursor {
 public:
  /// Begins at `from`, or after it, and means to go on for `most` records.
  Cursor(const DpTree& tree, const Snapshot& trees, Key from, bool inclusive, std::size_t most)
      : tree_(tree), trees_(trees), wanted_(most) {
    const BaseMap& base = *trees.base;
    front_.tree = trees.front;
    middle_.tree = trees.middle;
    const typename BaseMap::Way way = base.approach(from);
    way.prefetch();
    for (BufferSide* side : {&front_, &middle_})
      if (side->tree != nullptr) side->entered = side->tree->reenter(from);
    if (base.size() != 0) {
      const dptree::LeafPlace place = base.find(from, way);
      leaf_ = place.number;
      base.prefetch(leaf_);
      prefetch_sets(place.leaf);
    }
    for (BufferSide* side : {&front_, &middle_})
      if (side->tree != nullptr) side->tree->collect(from, inclusive, side->entered, side->batch);
    if (base.size() != 0) {
      enter_leaf();
      order_ = position_of(from, inclusive);
      ask_ahead();
    }
    for (BufferSide* side : {&front_, &middle_}) {
      if (side->tree == nullptr) continue;
      if (side->batch.count * base.records < side->tree->about() * most)
        side->tree->collect_more(side->batch);
      load_head(*side);
    }
  }

  /// Calls sink(span of words) for the next records, `most` at most. Fewer: there are no more, or,
  /// `whole()` being false, begin again after the last record.
  template <class Sink>
  void take(std::size_t most, Sink&& sink) {
    const RecordStore<Keys>& records = tree_.records_;
    while (most != 0 && fill_base()) {
      const BufferSide* const newest = lowest_side();
      std::span<const RecordWords> below = base_.rest();
      below = below.first(std::min(below.size(), most));
      if (newest != nullptr)
        below = below.first(static_cast<std::size_t>(
            std::ranges::find_if_not(
                below, [&](RecordWords words) { return records.less(words, newest->head); }) -
            below.begin()));
      base_.at += below.size();
      most -= below.size();
      if (!below.empty()) sink(below);
      if (most == 0) return;
      if (base_.at == base_.count && view_.has_value()) continue;
      if (newest == nullptr) return;
      const RecordWords words = newest->head;
      const bool removal = newest->removal;
      if (base_.at < base_.count && !records.less(words, base_.words[base_.at])) ++base_.at;
      for (BufferSide* side : {&front_, &middle_}) pass(*side, words);
      if (removal) continue;
      sink(std::span(&words, 1));
      --most;
    }
  }
  [[nodiscard]] bool whole() const noexcept { return whole_; }

 private:
  static constexpr std::size_t run = 32;  ///< records of the base tree read at once
  struct BufferSide {
    const Buffer* tree = nullptr;
    typename Buffer::Entered entered;
    typename Buffer::Batch batch;
    unsigned at = 0;
    bool any = false;      ///< `head` is an entry's
    bool removal = false;  ///< it is a removal's
    RecordWords head;
  };
  struct BaseSide {
    std::array<RecordWords, run> words;
    std::size_t at = 0;
    std::size_t count = 0;
    [[nodiscard]] std::span<const RecordWords> rest() const noexcept {
      return std::span(words).subspan(at, count - at);
    }
  };

  [[nodiscard]] bool stays_whole() noexcept {
    whole_ = whole_ && tree_.current_.is_whole(trees_);
    return whole_;
  }

  /// Words that are not whole lead nowhere: then there is no head, and no next record.
  void load_head(BufferSide& side) {
    side.any = side.at < side.batch.count;
    if (!side.any) return;
    const auto& entry = side.batch.entry[side.at];
    side.head = side.tree->words_of(entry);
    side.removal = (entry.word & Buffer::removal_bit) != 0;
    side.any = stays_whole();
  }
  /// The side with the lowest head, of two with the same key the newer.
  [[nodiscard]] const BufferSide* lowest_side() const {
    if (!front_.any) return middle_.any ? &middle_ : nullptr;
    return middle_.any && tree_.records_.less(middle_.head, front_.head) ? &middle_ : &front_;
  }
  /// Moves past `words`; nothing here is smaller.
  void pass(BufferSide& side, RecordWords words) {
    if (!side.any || tree_.records_.less(words, side.head)) return;
    side.tree->ask_ahead(side.batch, side.at);
    if (++side.at == side.batch.count) {
      side.at = side.batch.count = 0;
      side.tree->collect_more(side.batch);
    }
    load_head(side);
  }

  [[nodiscard]] LeafView view_of(std::size_t leaf) const noexcept {
    return tree_.leaf_at(trees_.base->leaf(leaf));
  }
  void prefetch_sets(dptree::LeafLink leaf) const noexcept {
    const LeafView view = tree_.leaf_at(leaf);
    pm::prefetch(&view.set(leaf.which()));
    pm::prefetch_range(view.order(leaf.which()), LeafView::rounded(tree_.leaf_entries_));
  }
  void prefetch_records(const LeafView& view, unsigned which, std::uint64_t from,
                        std::uint64_t end) const noexcept {
    for (std::uint64_t i = from; i < end; ++i)
      pm::prefetch_l2(&view.record(view.slot_at(which, i)));
  }
  /// Where the records that are wanted from a place in the order on end in this leaf.
  [[nodiscard]] std::uint64_t end_of_wanted(std::uint64_t from) const noexcept {
    return from + std::min<std::uint64_t>(count_ - from, wanted_);
  }
  /// Asks for the records of this leaf up to a place in its order.
  void ask_until(std::uint64_t end) noexcept {
    prefetch_records(*view_, which_, asked_, end);
    asked_ = std::max(asked_, end);
  }
  /// Asks for the sets of the next leaf, where this one's records from a place on do not suffice.
  void ask_for_next(std::uint64_t from) noexcept {
    if (asked_for_next_ || count_ - from >= wanted_ || leaf_ + 1 == trees_.base->size()) return;
    asked_for_next_ = true;
    prefetch_sets(trees_.base->leaf(leaf_ + 1));
  }
  /// Asks for the records to come, in the next leaf, too.
  void ask_ahead() noexcept {
    ask_for_next(order_);
    asked_ = std::max(asked_, order_);
    ask_until(end_of_wanted(order_));
    if (!asked_for_next_ || count_ - order_ >= wanted_) return;
    const dptree::LeafLink next = trees_.base->leaf(leaf_ + 1);
    const LeafView view = tree_.leaf_at(next);
    asked_of_next_ =
        std::min<std::uint64_t>(records_of(view, next.which()), wanted_ - (count_ - order_));
    prefetch_records(view, next.which(), 0, asked_of_next_);
  }

  [[nodiscard]] std::uint64_t records_of(const LeafView& view, unsigned which) const noexcept {
    return std::min<std::uint64_t>(tree_.leaf_entries_,
                                   view.set(which).count.load(std::memory_order_acquire));
  }
  void enter_leaf() {
    view_.emplace(view_of(leaf_));
    which_ = trees_.base->leaf(leaf_).which();
    count_ = records_of(*view_, which_);
    order_ = 0;
    asked_ = std::exchange(asked_of_next_, 0);
    asked_for_next_ = false;
  }
  [[nodiscard]] unsigned slot_at(std::uint64_t i) const noexcept {
    return view_->slot_at(which_, i);
  }
  /// Where `key` would be if the leaf's keys were spread evenly over what it covers.
  [[nodiscard]] std::uint64_t likely_position(Key key) const noexcept {
    const BaseMap& base = *trees_.base;
    const std::uint64_t low = RecordStore<Keys>::key_word(base.separator(leaf_));
    const std::uint64_t high = leaf_ + 1 < base.size()
                                   ? RecordStore<Keys>::key_word(base.separator(leaf_ + 1))
                                   : ~std::uint64_t{0};
    const std::uint64_t word = RecordStore<Keys>::key_word(key);
    if (word <= low || high <= low) return 0;
    const double share = static_cast<double>(word - low) / static_cast<double>(high - low);
    return std::min(count_,
                    static_cast<std::uint64_t>(std::min(share, 1.0) * static_cast<double>(count_)));
  }
  /// Slots without a bit are stepped over: their blobs may be gone.
  [[nodiscard]] std::uint64_t position_of(Key from, bool inclusive) {
    constexpr std::uint64_t reach = 16;  // so far from where it is likely, and it is seldom missed
    std::uint64_t low = 0;
    std::uint64_t high = count_;
    const auto divide_at = [&](std::uint64_t middle) {
      std::uint64_t probe = middle;
      RecordWords words;
      while (probe < high && !view_->read(which_, slot_at(probe), words)) ++probe;
      if (probe < high && is_before(words, from, inclusive))
        low = probe + 1;
      else
        high = middle;
    };
    const std::uint64_t likely = likely_position(from);
    const std::uint64_t begin = likely - std::min(likely, reach);
    const std::uint64_t end = std::min(likely + reach, count_);
    ask_for_next(likely);
    asked_ = begin;
    ask_until(std::max(end, end_of_wanted(likely)));
    if (begin < high) divide_at(begin);
    if (low < end && end < high) divide_at(end);
    while (low < high) divide_at(low + (high - low) / 2);
    return low;
  }
  [[nodiscard]] bool is_before(RecordWords words, Key from, bool inclusive) const {
    const std::uint64_t word = RecordStore<Keys>::key_word(from);
    if (words.key != word) return words.key < word;
    const Key key = tree_.records_.key_of(words);
    return inclusive ? key < from : key <= from;
  }

  /// Reads ahead in the base tree, from several leaves where these are small. False: a merge has
  /// overtaken us.
  [[nodiscard]] bool fill_base() {
    while (whole_ && base_.at == base_.count && view_.has_value()) {
      base_.at = base_.count = 0;
      do {
        read_run();
        if (order_ < count_) continue;
        if (++leaf_ == trees_.base->size()) {
          view_.reset();
        } else {
          enter_leaf();
          ask_ahead();
        }
      } while (view_.has_value() && wanted_ != 0 && base_.count + count_ - order_ <= run);
      if (!stays_whole()) break;
      if constexpr (RecordStore<Keys>::has_blobs)
        for (std::size_t i = 0; i < base_.count; ++i) tree_.records_.prefetch(base_.words[i]);
    }
    return whole_;
  }
  /// Reads the next records of the leaf. Bits of a set that is current are cleared only, so those
  /// that are there afterwards were there when the records were read (B2).
  void read_run() {
    const LeafView view = *view_;
    const unsigned which = which_;
    const std::uint64_t first = order_;
    const auto read =
        static_cast<std::size_t>(std::min<std::uint64_t>(count_ - order_, run - base_.count));
    const std::span<RecordWords> out = std::span(base_.words).subspan(base_.count);
    std::array<std::uint8_t, run> slot;
    for (std::size_t i = 0; i < read; ++i) {
      slot[i] = static_cast<std::uint8_t>(view.slot_at(which, first + i));
      out[i] = view.record(slot[i]).load();
    }
    const dptree::Slots there = view.slots(which);
    std::size_t count = read;
    if (dptree::count(there) != count_) {
      count = 0;
      for (std::size_t i = 0; i < read; ++i) {
        out[count] = out[i];
        count += dptree::has(there, slot[i]);
      }
    }
    order_ += read;
    base_.count += count;
    wanted_ -= std::min(wanted_, count);
  }

  const DpTree& tree_;
  const Snapshot trees_;
  std::size_t wanted_;  ///< records to come
  bool whole_ = true;
  BufferSide front_;
  BufferSide middle_;
  BaseSide base_;
  std::size_t leaf_ = 0;
  std::optional<LeafView> view_;
  unsigned which_ = 0;
  std::uint64_t count_ = 0;
  std::uint64_t order_ = 0;
  std::uint64_t asked_ = 0;  ///< the records up to there
  bool asked_for_next_ = false;
  std::uint64_t asked_of_next_ = 0;  ///< records of the next leaf
};

template <class Keys>
std::size_t DpTree<Keys>::scan(Key from, std::size_t count, Scan& out) {
  out.clear();
  if (count == 0) return 0;
  const Epochs::Guard guard(epochs_);
  RecordWords last;  // of the last record returned; its blob outlives this thread's pin
  for (pm::Backoff backoff;; backoff.wait()) {
    const bool resumed = out.size() != 0;
    Cursor cursor(*this, snapshot(), resumed ? records_.key_of(last) : from, !resumed,
                  count - out.size());
    cursor.take(count - out.size(), [&](std::span<const RecordWords> words) {
      records_.append(words, out);
      last = words.back();
    });
    if (out.size() == count || cursor.whole()) return out.size();
  }
}

/// The difference that the entries of `tree` make to the count of the base tree's records; those of
/// keys that `newer` has make none.
template <class Keys>
std::uint64_t DpTree<Keys>::count_over_base(const Snapshot& trees, const Buffer& tree,
                                            const Buffer* newer) const {
  std::uint64_t difference = 0;
  typename Buffer::Batch batch;
  for (tree.collect(Key{}, true, tree.reenter(Key{}), batch); batch.count != 0;
       tree.collect_more(batch)) {
    for (unsigned i = 0; i < batch.count; ++i) {
      const auto& entry = batch.entry[i];
      const RecordWords words = tree.words_of(entry);
      if (!current_.is_whole(trees)) return 0;  // words that lead nowhere
      const Key key = records_.key_of(words);
      const std::uint64_t hash = hash_of(key);
      if (newer != nullptr && newer->find(key, hash).any()) continue;
      difference += (entry.word & Buffer::removal_bit) == 0 ? 1 : 0;
      difference -= find_in_base(aim_in(trees, key), key, hash).has_value() ? 1 : 0;
    }
    batch.count = 0;
  }
  return difference;
}

// Of a base leaf its bits suffice: its records are not read.
template <class Keys>
std::uint64_t DpTree<Keys>::size() const {
  const Epochs::Guard guard(epochs_);
  for (pm::Backoff backoff;; backoff.wait()) {
    const Snapshot& trees = snapshot();
    const BaseMap& base = *trees.base;
    std::uint64_t records = 0;
    for (std::size_t i = 0; i < base.size(); ++i) {
      const LeafView leaf = leaf_at(base.leaf(i));
      records += leaf.records(base.leaf(i).which());
    }
    records += count_over_base(trees, *trees.front, nullptr);
    if (trees.middle != nullptr) records += count_over_base(trees, *trees.middle, trees.front);
    if (current_.is_whole(trees)) return records;
  }
}

template std::size_t DpTree<IntegerKeys>::scan(Key, std::size_t, Scan&);
template std::size_t DpTree<ByteKeys>::scan(Key, std::size_t, Scan&);
template std::uint64_t DpTree<IntegerKeys>::size() const;
template std::uint64_t DpTree<ByteKeys>::size() const;

}  // namespace perdure
