// What one thread writes of a merge.
#include "index/dptree/merge.h"
#include "index/leaf/separator.h"

namespace perdure {

using dptree::LeafSet;
using dptree::Slots;

/// The first number from `first` up to `end` of which is_below(number) says no, which it does of
/// all that follow, too. Binary search without the branch, which would be unpredictable.
template <class IsBelow>
static unsigned first_not_below(unsigned first, unsigned end, IsBelow&& is_below) {
  unsigned left = end - first;
  for (; left > 1;) {
    const unsigned half = left / 2;
    first += half & (0U - static_cast<unsigned>(is_below(first + half - 1)));
    left -= half;
  }
  return first + static_cast<unsigned>(left != 0 && is_below(first));
}

/// The records of a leaf after its changes, in `items_`; returns how many of them are new to it.
/// A change is looked for by halving, and the records between two are copied without a look at
/// their keys.
template <class Keys>
std::size_t DpTree<Keys>::Merge::Stretch::merge_items(std::size_t leaf, const Plan& plan,
                                                      Note note) {
  const RecordStore<Keys>& records = tree_.records_;
  items_.resize(tree_.leaf_entries_ + (plan.end - plan.begin));
  Item* out = items_.data();
  std::size_t added = 0;
  const auto add = [&](const Pending& pending) {
    if (pending.removal()) return;
    if (added < plan.most) {
      *out++ = {pending.words, fresh, false};
      ++added;
    } else if (note == Note::left) {
      merge_.left_.push_back(static_cast<std::size_t>(&pending - merge_.changes_.data()));
    }
  };
  if (base_.size() == 0) {
    for (const Pending& change : merge_.changes_of(plan)) add(change);
    items_.resize(static_cast<std::size_t>(out - items_.data()));
    return added;
  }
  const LeafView view = tree_.leaf_at(base_.leaf(leaf));
  const dptree::LeafOrder order = view.listed(base_.leaf(leaf).which());
  unsigned at = 0;
  const auto keep_until = [&](unsigned end) {
    for (; at < end; ++at) *out++ = {view.record(order.slot[at]).load(), order.slot[at], false};
  };
  for (const Pending& change : merge_.changes_of(plan)) {
    keep_until(first_not_below(at, order.count, [&](unsigned i) {
      return records.less(view.record(order.slot[i]).load(), change.words);
    }));
    const bool present =
        at < order.count && !records.less(change.words, view.record(order.slot[at]).load());
    if (!present) {
      add(change);
      continue;
    }
    const unsigned slot = order.slot[at++];
    const RecordWords words = view.record(slot).load();
    const bool rewritten = !change.removal() && change.words.value != words.value;
    if (note == Note::dropped && RecordStore<Keys>::has_blobs && (change.removal() || rewritten))
      dropped_.push_back(words);
    if (!change.removal()) *out++ = {change.words, slot, rewritten};
  }
  keep_until(order.count);
  items_.resize(static_cast<std::size_t>(out - items_.data()));
  return added;
}

/// Adds the records of the leaves that join this one.
template <class Keys>
void DpTree<Keys>::Merge::Stretch::take_in(std::size_t leaf, const Plan& plan) {
  for (std::size_t i = 1; i <= plan.takes_in; ++i) {
    const LeafView view = tree_.leaf_at(base_.leaf(leaf + i));
    view.each(base_.leaf(leaf + i).which(), [&](unsigned slot) {
      items_.push_back({view.record(slot).load(), fresh, false});
      return true;
    });
  }
}

/// Asks for what tells which of a leaf's records the changes are for.
template <class Keys>
void DpTree<Keys>::Merge::Stretch::prefetch_leaf(std::size_t leaf) const noexcept {
  const LeafView view = tree_.leaf_at(base_.leaf(leaf));
  if (merge_.plans_[leaf].begin == merge_.plans_[leaf].end)
    pm::prefetch(&view.set(base_.leaf(leaf).which()));
  else
    view.prefetch(base_.leaf(leaf).which());
}

/// Notes which of a leaf's records the changes may be for, and prefetches these; all of them, and
/// the order, where there are new ones, whose places are looked for among these.
template <class Keys>
void DpTree<Keys>::Merge::Stretch::find_suspects(std::size_t leaf) noexcept {
  const Plan& plan = merge_.plans_[leaf];
  const LeafView view = tree_.leaf_at(base_.leaf(leaf));
  const unsigned which = base_.leaf(leaf).which();
  bool all = plan.pieces != 0 || plan.takes_in != 0;
  for (Pending& change : merge_.changes_of(plan)) {
    const std::uint64_t hash = hash_of(tree_.records_.key_of(change.words));
    const LeafView::Suspects suspects = view.suspects(which, hash);
    change.set_suspects(suspects);
    all = all || (!suspects.any && !change.removal());
    if (!suspects.any) continue;
    pm::prefetch(&view.record(suspects.first));
    pm::prefetch(&view.record(suspects.last));
  }
  if (all)
    pm::prefetch_range(view.order(0), LeafView::bytes_after_fingerprints(tree_.leaf_entries_));
}

/// The slot and the words of the record that a change replaces, after `find_suspects`.
template <class Keys>
auto DpTree<Keys>::Merge::Stretch::find(const LeafView& view, unsigned which,
                                        const Pending& change) const
    -> std::optional<std::pair<unsigned, RecordWords>> {
  const LeafView::Suspects suspects = change.suspects();
  if (!suspects.any) return std::nullopt;
  const RecordStore<Keys>& records = tree_.records_;
  const Key key = records.key_of(change.words);
  for (const unsigned slot : {suspects.first, suspects.last}) {
    const RecordWords words = view.record(slot).load();
    if (records.matches(words, key)) return std::pair(slot, words);
  }
  if (!suspects.others) return std::nullopt;
  return view.find(which, hash_of(key),
                   [&](const RecordWords& other) { return records.matches(other, key); });
}

// Durable with the next fence. From right to left.
template <class Keys>
void DpTree<Keys>::Merge::Stretch::apply() noexcept {
  constexpr std::size_t distance = 3;  // leaves; the records' lines of so many fit the first cache
  const bool has_leaves = base_.size() != 0;
  for (std::size_t leaf = end_; has_leaves && leaf-- > begin_ && leaf + distance >= end_;)
    find_suspects(leaf);
  for (std::size_t leaf = end_; leaf-- > begin_;) {
    if (leaf >= begin_ + 2 * distance) prefetch_leaf(leaf - 2 * distance);
    if (leaf >= begin_ + distance) find_suspects(leaf - distance);
    apply_leaf(leaf, merge_.plans_[leaf]);
  }
}

template <class Keys>
void DpTree<Keys>::Merge::Stretch::apply_leaf(std::size_t leaf, const Plan& plan) {
  if (base_.size() == 0) {
    (void)merge_items(leaf, plan, Note::dropped);
    write_pieces(leaf, plan.pieces);
    return;
  }
  const std::uint64_t offset = base_.leaf(leaf).offset();
  if (plan.goes) {
    old_leaves_.push_back(offset);
    return;
  }
  const LeafView view = tree_.leaf_at(offset);
  const unsigned which = base_.leaf(leaf).which();
  unsigned made = which;  // the set that is current in the new version
  const LeafSet& set = view.set(which);
  const unsigned records = view.records(which);
  const bool same_next = set.next.load(std::memory_order_relaxed) == next_;
  const bool is_plain = plan.pieces == 0 && plan.takes_in == 0 && plan.most == unlimited &&
                        set.count.load(std::memory_order_relaxed) == records;
  if (plan.begin == plan.end && plan.takes_in == 0 && same_next && records != 0) {
    records_ += records;
  } else if (is_plain) {
    const auto written = apply_in_place(view, which, plan);
    if (!written) {
      old_leaves_.push_back(offset);
      return;
    }
    made = *written;
  } else {
    (void)merge_items(leaf, plan, Note::dropped);
    take_in(leaf, plan);
    if (plan.pieces != 0 || items_.empty()) {
      old_leaves_.push_back(offset);
      write_pieces(leaf, plan.pieces);
      return;
    }
    write_other_set(view, which);
    made = 1 - which;
  }
  next_ = offset;
  row_.emplace_back(base_.separator(leaf), link_to(offset, made));
}

/// Merges into a leaf that has room, and whose order lists its records alone. Only what changes is
/// read and written, because a merge costs what it moves: some values, or these, new records and an
/// order. Returns which set is current then; nothing: no record is left.
template <class Keys>
std::optional<unsigned> DpTree<Keys>::Merge::Stretch::apply_in_place(const LeafView& view,
                                                                     unsigned which,
                                                                     const Plan& plan) {
  const LeafSet& set = view.set(which);
  Slots live = set.slots();
  Slots written{};
  bool has_removals = false;
  new_.clear();
  for (const Pending& change : merge_.changes_of(plan)) {
    const auto place = find(view, which, change);
    if (!place) {
      if (!change.removal())
        new_.push_back({change.words, hash_of(tree_.records_.key_of(change.words))});
      continue;
    }
    const auto& [slot, words] = *place;
    const bool rewritten = !change.removal() && change.words.value != words.value;
    if (RecordStore<Keys>::has_blobs && (change.removal() || rewritten)) dropped_.push_back(words);
    if (change.removal()) {
      dptree::take_out(live, slot);
      has_removals = true;
    } else if (rewritten) {
      view.record(slot).value.store(change.words.value, std::memory_order_release);  // B3
      dptree::add(written, slot);
    }
  }
  const std::size_t records = dptree::count(live) + new_.size();
  if (records == 0) return std::nullopt;
  records_ += records;
  view.flush(written, {});
  if (!has_removals && new_.empty() && set.next.load(std::memory_order_relaxed) == next_)
    return which;
  write_grown_set(view, which, live);
  return 1 - which;
}

/// Writes the other set and its order: those of `live`, and the new records, which get slots.
template <class Keys>
void DpTree<Keys>::Merge::Stretch::write_grown_set(const LeafView& view, unsigned which,
                                                   Slots live) {
  const RecordStore<Keys>& records = tree_.records_;
  const LeafSet& set = view.set(which);
  const std::atomic<std::uint8_t>* const before = view.order(which);
  const LeafRecord* const record = &view.record(0);
  std::atomic<std::uint8_t>* const order = view.order(1 - which);
  const auto end = static_cast<unsigned>(set.count.load(std::memory_order_relaxed));
  const Slots kept = live;
  const bool keeps_all = dptree::count(kept) == end;
  unsigned at = 0;
  unsigned to = 0;
  const auto copy_until = [&](unsigned stop) {
    for (; at < stop; ++at) {
      const std::uint8_t slot = before[at].load(std::memory_order_relaxed);
      order[to].store(slot, std::memory_order_release);
      to += static_cast<unsigned>(keeps_all || dptree::has(kept, slot));
    }
  };
  Slots filled{};
  dptree::FreeSlots free(tree_.leaf_entries_, set.slots(), set.home);
  for (const New& added : new_) {
    const unsigned first = first_not_below(at, end, [&](unsigned i) {
      const unsigned slot = before[i].load(std::memory_order_relaxed);
      return records.less(record[slot].load(), added.words);
    });
    copy_until(first);
    const unsigned slot = free.take(view.choice_of(added.hash));
    view.fill(slot, added.words, fingerprint_from(added.hash));
    dptree::add(filled, slot);
    dptree::add(live, slot);
    order[to++].store(static_cast<std::uint8_t>(slot), std::memory_order_release);
  }
  copy_until(end);
  view.flush(filled, filled);
  write_set(view, 1 - which, to, live, free.home());
}

/// Stores and flushes a set, and flushes its order.
template <class Keys>
void DpTree<Keys>::Merge::Stretch::write_set(const LeafView& view, unsigned which,
                                             std::size_t count, const Slots& live,
                                             std::uint64_t home) {
  LeafSet& into = view.set(which);
  into.next.store(next_, std::memory_order_release);
  into.count.store(count, std::memory_order_release);
  for (std::size_t i = 0; i < live.size(); ++i)
    into.bitmap[i].store(live[i], std::memory_order_release);
  into.home.store(home, std::memory_order_release);
  into.stamp.store(merge_.target_, std::memory_order_release);
  pm::flush(view.order(which), count);
  pm::flush(&into, sizeof into);
}

template <class Keys>
void DpTree<Keys>::Merge::Stretch::write_other_set(const LeafView& view, unsigned which) {
  const LeafSet& set = view.set(which);
  const unsigned other = 1 - which;
  Slots live{};
  Slots filled{};
  Slots written{};
  dptree::FreeSlots free(tree_.leaf_entries_, set.slots(), set.home);
  std::atomic<std::uint8_t>* const order = view.order(other);
  for (std::size_t i = 0; i < items_.size(); ++i) {
    const Item& item = items_[i];
    unsigned slot = item.slot;
    if (slot == fresh) {
      const std::uint64_t hash = hash_of(key_of(i));
      slot = free.take(view.choice_of(hash));
      view.fill(slot, item.words, fingerprint_from(hash));
      dptree::add(filled, slot);
      dptree::add(written, slot);
    } else if (item.rewritten) {
      view.record(slot).value.store(item.words.value, std::memory_order_release);  // B3
      dptree::add(written, slot);
    }
    dptree::add(live, slot);
    order[i].store(static_cast<std::uint8_t>(slot), std::memory_order_release);
  }
  view.flush(written, filled);
  write_set(view, other, items_.size(), live, free.home());
  records_ += items_.size();
}

template <class Keys>
void DpTree<Keys>::Merge::Stretch::write_pieces(std::size_t leaf, std::size_t pieces) {
  for (std::size_t piece = pieces; piece-- > 0;) {
    const std::size_t begin = items_.size() * piece / pieces;
    const std::size_t end = items_.size() * (piece + 1) / pieces;
    const std::uint64_t offset = merge_.blocks_[--blocks_left_].offset;
    write_piece(offset, leaf, begin, end);
    const Key first = key_of(begin);
    Key separator = first;
    if (begin != 0)
      separator = separator_between(key_of(begin - 1), first);
    else if (base_.size() != 0)
      separator = base_.separator(leaf);
    row_.emplace_back(separator, link_to(offset, 0));
    next_ = offset;
  }
}

template <class Keys>
void DpTree<Keys>::Merge::Stretch::write_piece(std::uint64_t offset, std::size_t leaf,
                                               std::size_t begin, std::size_t end) {
  const LeafView view = tree_.leaf_at(offset);
  LeafSet& set = *new (&view.set(0)) LeafSet{};
  new (&view.set(1)) LeafSet{};
  set.stamp.store(merge_.target_, std::memory_order_relaxed);
  set.next.store(next_, std::memory_order_relaxed);
  set.count.store(end - begin, std::memory_order_relaxed);
  Slots filled{};
  const std::uint64_t all_homes = (std::uint64_t{1} << view.words()) - 1;
  dptree::FreeSlots free(tree_.leaf_entries_, {}, all_homes);
  // Where all records of the old leaf are at home, nobody need read their keys.
  const LeafView old = base_.size() == 0 ? view : tree_.leaf_at(base_.leaf(leaf));
  const bool is_told = base_.size() != 0 && old.set(base_.leaf(leaf).which()).home == all_homes;
  for (std::size_t i = begin; i < end; ++i) {
    const Item& item = items_[i];
    const bool is_known = RecordStore<Keys>::has_blobs && is_told && item.slot != fresh;
    const std::uint64_t hash = is_known ? 0 : hash_of(key_of(i));
    const unsigned slot = free.take(is_known ? item.slot : view.choice_of(hash));
    view.fill(slot, item.words,
              is_known ? old.fingerprint(item.slot).load() : fingerprint_from(hash));
    view.order(0)[i - begin].store(static_cast<std::uint8_t>(slot), std::memory_order_relaxed);
    dptree::add(filled, slot);
  }
  for (std::size_t word = 0; word < filled.size(); ++word)
    set.bitmap[word].store(filled[word], std::memory_order_relaxed);
  set.home.store(free.home(), std::memory_order_relaxed);
  pm::flush(&set, 2 * sizeof set);
  pm::flush(view.order(0), end - begin);
  view.flush(filled, filled);
  records_ += end - begin;
}

template void DpTree<IntegerKeys>::Merge::Stretch::apply() noexcept;
template void DpTree<ByteKeys>::Merge::Stretch::apply() noexcept;
template std::size_t DpTree<IntegerKeys>::Merge::Stretch::merge_items(std::size_t, const Plan&,
                                                                      Note);
template std::size_t DpTree<ByteKeys>::Merge::Stretch::merge_items(std::size_t, const Plan&, Note);

}  // namespace perdure
