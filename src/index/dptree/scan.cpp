#include "index/dptree/scan.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <utility>

namespace perdure::dptree {

namespace {

/// A walk over the entries of a buffer tree from a key on.
template <class Keys>
class BufferCursor {
 public:
  using Key = typename Keys::Key;
  using Tree = Buffer<Keys>;

  /// Null: a cursor over nothing.
  explicit BufferCursor(const Tree* tree) : tree_(tree) {}

  // The three steps of a search, so that other misses overlap with it.
  void enter(Key from) {
    if (tree_ != nullptr) entered_ = tree_->reenter(from);
  }
  void collect(Key from, bool inclusive) {
    if (tree_ != nullptr) tree_->collect(from, inclusive, entered_, batch_);
  }
  /// Reads the next leaf, too, where a scan of `most` records is likely to need it.
  void collect_for(std::size_t most, std::uint64_t base_records) {
    if (tree_ != nullptr && batch_.count * base_records < tree_->log().about_entries() * most)
      tree_->collect_more(batch_);
    load_head();
  }

  [[nodiscard]] bool any() const noexcept { return any_; }
  [[nodiscard]] RecordWords head() const noexcept { return head_; }
  [[nodiscard]] bool is_removal() const noexcept { return is_removal_; }
  void advance() {
    tree_->prefetch_ahead(batch_, at_);
    if (++at_ == batch_.count) {
      at_ = batch_.count = 0;
      tree_->collect_more(batch_);
    }
    load_head();
  }

 private:
  void load_head() {
    any_ = at_ < batch_.count;
    if (!any_) return;
    const auto& entry = batch_.entry[at_];
    head_ = tree_->words_of(entry);
    is_removal_ = (entry.word & Tree::removal_bit) != 0;
  }

  const Tree* tree_;
  typename Tree::Entered entered_;
  typename Tree::Batch batch_;
  unsigned at_ = 0;
  bool any_ = false;  ///< `head_` is an entry's
  bool is_removal_ = false;
  RecordWords head_;
};

/// A walk over the records of the base tree from a key on, a run at a time. All lines that it will
/// read are prefetched before it waits for any.
template <class Keys>
class BaseCursor {
 public:
  using Key = typename Keys::Key;

  /// Means to go on for `wanted` records.
  BaseCursor(const Parts<Keys>& parts, const BaseMap<Keys>& base, std::size_t wanted)
      : parts_(parts), base_(base), wanted_(wanted) {}

  // The steps of a search. There is one leaf at least.
  void enter(Key from, typename BaseMap<Keys>::Way way) {
    const LeafPlace place = base_.find(from, way);
    leaf_ = place.number;
    base_.prefetch(leaf_);
    prefetch_sets(place.leaf);
  }
  void seek(Key from, bool inclusive) {
    enter_leaf();
    at_ = position_of(from, inclusive);
    prefetch_ahead();
  }

  /// Whether there are records that were not read.
  [[nodiscard]] bool goes_on() const noexcept { return view_.has_value(); }
  /// The records that were read and not passed.
  [[nodiscard]] std::span<const RecordWords> rest() const noexcept {
    return std::span(run_.words).subspan(run_.passed, run_.count - run_.passed);
  }
  void pass(std::size_t records) noexcept { run_.passed += records; }
  /// Reads the next run, from several leaves where these are small, when all before is passed. What
  /// it has read may have been overwritten.
  void fill();

 private:
  static constexpr std::size_t most_at_once = 32;
  struct Run {
    std::array<RecordWords, most_at_once> words;
    std::size_t passed = 0;
    std::size_t count = 0;
  };

  [[nodiscard]] LeafLink link() const noexcept { return base_.leaf(leaf_); }
  [[nodiscard]] std::uint64_t unread() const noexcept { return end_ - at_; }
  [[nodiscard]] std::uint64_t records_of(LeafLink leaf) const noexcept {
    const LeafSet& set = parts_.leaf_at(leaf).set(leaf.which());
    return std::min<std::uint64_t>(parts_.leaf_entries, set.count.load(std::memory_order_acquire));
  }
  void enter_leaf() {
    view_.emplace(parts_.leaf_at(link()));
    end_ = records_of(link());
    at_ = 0;
    prefetched_ = std::exchange(prefetched_of_next_, 0);
    is_next_prefetched_ = false;
  }
  void read_run();

  void prefetch_sets(LeafLink leaf) const noexcept {
    const LeafView view = parts_.leaf_at(leaf);
    pm::prefetch(&view.set(leaf.which()));
    pm::prefetch_range(view.order(leaf.which()), LeafView::rounded(parts_.leaf_entries));
  }
  void prefetch_records(LeafLink leaf, std::uint64_t from, std::uint64_t end) const noexcept {
    const LeafView view = parts_.leaf_at(leaf);
    for (std::uint64_t i = from; i < end; ++i)
      pm::prefetch_l2(&view.record(view.slot_at(leaf.which(), i)));
  }
  /// Where the wanted records from a position on end in this leaf.
  [[nodiscard]] std::uint64_t end_of_wanted(std::uint64_t from) const noexcept {
    return from + std::min<std::uint64_t>(end_ - from, wanted_);
  }
  void prefetch_until(std::uint64_t end) noexcept {
    prefetch_records(link(), prefetched_, end);
    prefetched_ = std::max(prefetched_, end);
  }
  /// Prefetches the sets of the next leaf, where this one's records from a position on are too few.
  void prefetch_next(std::uint64_t from) noexcept {
    if (is_next_prefetched_ || end_ - from >= wanted_ || leaf_ + 1 == base_.size()) return;
    is_next_prefetched_ = true;
    prefetch_sets(base_.leaf(leaf_ + 1));
  }
  void prefetch_ahead() noexcept;

  [[nodiscard]] std::uint64_t likely_position(Key key) const noexcept;
  [[nodiscard]] std::uint64_t position_of(Key from, bool inclusive);
  [[nodiscard]] bool is_before(RecordWords words, Key from, bool inclusive) const {
    const std::uint64_t word = RecordStore<Keys>::key_word(from);
    if (words.key != word) return words.key < word;
    const Key key = parts_.records.key_of(words);
    return inclusive ? key < from : key <= from;
  }

  const Parts<Keys>& parts_;
  const BaseMap<Keys>& base_;
  std::size_t wanted_;  ///< records to come
  std::size_t leaf_ = 0;
  std::optional<LeafView> view_;  ///< none: the tree has ended
  std::uint64_t at_ = 0;          ///< position in the leaf's order
  std::uint64_t end_ = 0;         ///< of its order
  std::uint64_t prefetched_ = 0;  ///< the records up to this position
  bool is_next_prefetched_ = false;
  std::uint64_t prefetched_of_next_ = 0;  ///< records of the next leaf
  Run run_;
};

/// Prefetches the records to come, in the next leaf, too.
template <class Keys>
void BaseCursor<Keys>::prefetch_ahead() noexcept {
  prefetch_next(at_);
  prefetched_ = std::max(prefetched_, at_);
  prefetch_until(end_of_wanted(at_));
  if (!is_next_prefetched_ || unread() >= wanted_) return;
  const LeafLink next = base_.leaf(leaf_ + 1);
  prefetched_of_next_ = std::min<std::uint64_t>(records_of(next), wanted_ - unread());
  prefetch_records(next, 0, prefetched_of_next_);
}

/// Where `key` would be if the leaf's keys were spread evenly over what it covers.
template <class Keys>
std::uint64_t BaseCursor<Keys>::likely_position(Key key) const noexcept {
  const std::uint64_t low = RecordStore<Keys>::key_word(base_.separator(leaf_));
  const std::uint64_t high = leaf_ + 1 < base_.size()
                                 ? RecordStore<Keys>::key_word(base_.separator(leaf_ + 1))
                                 : ~std::uint64_t{0};
  const std::uint64_t word = RecordStore<Keys>::key_word(key);
  if (word <= low || high <= low) return 0;
  const double share = static_cast<double>(word - low) / static_cast<double>(high - low);
  return std::min(end_,
                  static_cast<std::uint64_t>(std::min(share, 1.0) * static_cast<double>(end_)));
}

// Slots without a bit are stepped over: their blobs may be gone.
template <class Keys>
std::uint64_t BaseCursor<Keys>::position_of(Key from, bool inclusive) {
  constexpr std::uint64_t reach = 16;  // so far from where it is likely, and it is seldom missed
  std::uint64_t low = 0;
  std::uint64_t high = end_;
  const auto divide_at = [&](std::uint64_t middle) {
    std::uint64_t probe = middle;
    RecordWords words;
    const unsigned which = link().which();
    while (probe < high && !view_->read(which, view_->slot_at(which, probe), words)) ++probe;
    if (probe < high && is_before(words, from, inclusive))
      low = probe + 1;
    else
      high = middle;
  };
  const std::uint64_t likely = likely_position(from);
  const std::uint64_t begin = likely - std::min(likely, reach);
  const std::uint64_t end = std::min(likely + reach, end_);
  prefetch_next(likely);
  prefetched_ = begin;
  prefetch_until(std::max(end, end_of_wanted(likely)));
  if (begin < high) divide_at(begin);
  if (low < end && end < high) divide_at(end);
  while (low < high) divide_at(low + (high - low) / 2);
  return low;
}

template <class Keys>
void BaseCursor<Keys>::fill() {
  run_.passed = run_.count = 0;
  do {
    read_run();
    if (at_ < end_) continue;
    if (++leaf_ == base_.size()) {
      view_.reset();
    } else {
      enter_leaf();
      prefetch_ahead();
    }
  } while (view_.has_value() && wanted_ != 0 && run_.count + unread() <= most_at_once);
}

/// Reads the next records of the leaf. Bits of a set that is current are cleared only, so those
/// that are there afterwards were there when the records were read (B2).
template <class Keys>
void BaseCursor<Keys>::read_run() {
  const LeafView view = *view_;
  const unsigned which = link().which();
  const auto read =
      static_cast<std::size_t>(std::min<std::uint64_t>(unread(), most_at_once - run_.count));
  const std::span<RecordWords> out = std::span(run_.words).subspan(run_.count);
  std::array<std::uint8_t, most_at_once> slot;
  for (std::size_t i = 0; i < read; ++i) {
    slot[i] = static_cast<std::uint8_t>(view.slot_at(which, at_ + i));
    out[i] = view.record(slot[i]).load();
  }
  const Slots there = view.slots(which);
  std::size_t count = read;
  if (dptree::count(there) != end_) {
    count = 0;
    for (std::size_t i = 0; i < read; ++i) {
      out[count] = out[i];
      count += has(there, slot[i]);
    }
  }
  at_ += read;
  run_.count += count;
  wanted_ -= std::min(wanted_, count);
}

/// A walk over the records of one snapshot from a key on, newest entries first.
template <class Keys>
class Cursor {
 public:
  using Key = typename Keys::Key;

  /// Begins at `from`, or after it, and means to go on for `most` records.
  Cursor(const Parts<Keys>& parts, const Snapshot<Keys>& trees, Key from, bool inclusive,
         std::size_t most)
      : parts_(parts),
        trees_(trees),
        front_(trees.front),
        middle_(trees.middle),
        base_(parts, *trees.base, most) {
    const bool has_leaves = trees.base->size() != 0;
    const auto way = trees.base->approach(from);
    way.prefetch();
    for (BufferCursor<Keys>* side : {&front_, &middle_}) side->enter(from);
    if (has_leaves) base_.enter(from, way);
    for (BufferCursor<Keys>* side : {&front_, &middle_}) side->collect(from, inclusive);
    if (has_leaves) base_.seek(from, inclusive);
    for (BufferCursor<Keys>* side : {&front_, &middle_})
      side->collect_for(most, trees.base->records);
  }

  /// Calls sink(span of words) for the next records, `most` at most. Fewer: there are no more, or,
  /// `whole()` being false, begin again after the last record.
  template <class Sink>
  void take(std::size_t most, Sink&& sink) {
    const RecordStore<Keys>& records = parts_.records;
    while (most != 0 && fill_base()) {
      const BufferCursor<Keys>* const newest = lowest_side();
      std::span<const RecordWords> below = base_.rest();
      below = below.first(std::min(below.size(), most));
      if (newest != nullptr)
        below = below.first(static_cast<std::size_t>(
            std::ranges::find_if_not(
                below, [&](RecordWords words) { return records.less(words, newest->head()); }) -
            below.begin()));
      base_.pass(below.size());
      most -= below.size();
      if (!below.empty()) sink(below);
      if (most == 0) return;
      if (base_.rest().empty() && base_.goes_on()) continue;
      if (newest == nullptr) return;
      const RecordWords words = newest->head();
      const bool is_removal = newest->is_removal();
      if (!base_.rest().empty() && !records.less(words, base_.rest().front())) base_.pass(1);
      for (BufferCursor<Keys>* side : {&front_, &middle_})
        if (side->any() && !records.less(words, side->head())) side->advance();
      if (is_removal) continue;
      sink(std::span(&words, 1));
      --most;
    }
  }
  [[nodiscard]] bool whole() const noexcept { return whole_; }

 private:
  /// The side with the lowest head, of two with the same key the newer.
  [[nodiscard]] const BufferCursor<Keys>* lowest_side() const {
    if (!front_.any()) return middle_.any() ? &middle_ : nullptr;
    return middle_.any() && parts_.records.less(middle_.head(), front_.head()) ? &middle_ : &front_;
  }
  /// Reads ahead in the base tree. False: a merge has overtaken us, and what was read, in the
  /// buffer trees, too, leads nowhere.
  [[nodiscard]] bool fill_base() {
    while (base_.rest().empty() && base_.goes_on()) {
      base_.fill();
      if (!stays_whole()) return false;
      if constexpr (RecordStore<Keys>::has_blobs)
        for (const RecordWords& words : base_.rest()) parts_.records.prefetch(words);
    }
    return stays_whole();
  }
  [[nodiscard]] bool stays_whole() noexcept {
    whole_ = whole_ && parts_.current.is_whole(trees_);
    return whole_;
  }

  const Parts<Keys>& parts_;
  const Snapshot<Keys> trees_;
  bool whole_ = true;
  BufferCursor<Keys> front_;
  BufferCursor<Keys> middle_;
  BaseCursor<Keys> base_;
};

/// The difference that the entries of `tree` make to the count of the base tree's records; those of
/// keys that `newer` has make none.
template <class Keys>
std::uint64_t count_over_base(const Parts<Keys>& parts, const Snapshot<Keys>& trees,
                              const Buffer<Keys>& tree, const Buffer<Keys>* newer) {
  using Key = typename Keys::Key;
  std::uint64_t difference = 0;
  typename Buffer<Keys>::Batch batch;
  for (tree.collect(Key{}, true, tree.reenter(Key{}), batch); batch.count != 0;
       tree.collect_more(batch)) {
    for (unsigned i = 0; i < batch.count; ++i) {
      const auto& entry = batch.entry[i];
      const RecordWords words = tree.words_of(entry);
      if (!parts.current.is_whole(trees)) return 0;  // words that lead nowhere
      const Key key = parts.records.key_of(words);
      const std::uint64_t hash = hash_of(key);
      if (newer != nullptr && newer->find(key, hash).any()) continue;
      difference += (entry.word & Buffer<Keys>::removal_bit) == 0 ? 1 : 0;
      difference -=
          parts.find_in_base(Parts<Keys>::route_in(trees, key), key, hash).has_value() ? 1 : 0;
    }
    batch.count = 0;
  }
  return difference;
}

}  // namespace

template <class Keys>
std::size_t scan(const Parts<Keys>& parts, typename Keys::Key from, std::size_t count,
                 typename Keys::Scan& out) {
  out.clear();
  if (count == 0) return 0;
  const Epochs::Guard guard(parts.epochs);
  RecordWords last;  // of the last record returned; its blob outlives this thread's pin
  for (pm::Backoff backoff;; backoff.wait()) {
    const bool resumed = out.size() != 0;
    Cursor<Keys> cursor(parts, parts.snapshot(), resumed ? parts.records.key_of(last) : from,
                        !resumed, count - out.size());
    cursor.take(count - out.size(), [&](std::span<const RecordWords> words) {
      parts.records.append(words, out);
      last = words.back();
    });
    if (out.size() == count || cursor.whole()) return out.size();
  }
}

// Of a base leaf its bits suffice: its records are not read.
template <class Keys>
std::uint64_t count_records(const Parts<Keys>& parts) {
  const Epochs::Guard guard(parts.epochs);
  for (pm::Backoff backoff;; backoff.wait()) {
    const Snapshot<Keys>& trees = parts.snapshot();
    const BaseMap<Keys>& base = *trees.base;
    std::uint64_t records = 0;
    for (std::size_t i = 0; i < base.size(); ++i)
      records += parts.leaf_at(base.leaf(i)).records(base.leaf(i).which());
    records += count_over_base<Keys>(parts, trees, *trees.front, nullptr);
    if (trees.middle != nullptr)
      records += count_over_base<Keys>(parts, trees, *trees.middle, trees.front);
    if (parts.current.is_whole(trees)) return records;
  }
}

template std::size_t scan(const Parts<IntegerKeys>&, IntegerKeys::Key, std::size_t,
                          IntegerKeys::Scan&);
template std::size_t scan(const Parts<ByteKeys>&, ByteKeys::Key, std::size_t, ByteKeys::Scan&);
template std::uint64_t count_records(const Parts<IntegerKeys>&);
template std::uint64_t count_records(const Parts<ByteKeys>&);

}  // namespace perdure::dptree
