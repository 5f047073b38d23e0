#include "index/dptree/stretch.h"

#include "index/leaf/separator.h"

namespace perdure::dptree {

/// Prefetches the sets of a leaf, and the fingerprints that tell which records its changes are for.
template <class Keys>
void Stretch<Keys>::prefetch_sets(std::size_t leaf) const noexcept {
  const LeafView view = plan_.view_of(leaf);
  const unsigned which = base_.leaf(leaf).which();
  if (plan_.changes_of(leaf).empty())
    pm::prefetch(&view.set(which));
  else
    view.prefetch(which);
}

/// Prefetches the records that the changes of a leaf are probably for (B6); all of them, and the
/// order, where the leaf is written anew.
template <class Keys>
void Stretch<Keys>::prefetch_records(std::size_t leaf) const noexcept {
  const LeafView view = plan_.view_of(leaf);
  for (const LoggedChange& change : plan_.changes_of(leaf))
    view.prefetch_record(hash_of(parts_.records.key_of(change.words)));
  if (plan_.of(leaf).pieces != 0 || plan_.of(leaf).absorbs != 0)
    pm::prefetch_range(view.order(0), LeafView::bytes_after_fingerprints(parts_.leaf_entries));
}

template <class Keys>
void Stretch<Keys>::write() noexcept {
  constexpr std::size_t distance = 3;  // leaves; the records' lines of so many fit the first cache
  const bool has_leaves = base_.size() != 0;
  for (std::size_t leaf = end_; has_leaves && leaf-- > begin_ && leaf + distance >= end_;)
    prefetch_records(leaf);
  for (std::size_t leaf = end_; leaf-- > begin_;) {
    if (leaf >= begin_ + 2 * distance) prefetch_sets(leaf - 2 * distance);
    if (leaf >= begin_ + distance) prefetch_records(leaf - distance);
    write_leaf(leaf);
  }
}

template <class Keys>
void Stretch<Keys>::merge_records(std::size_t leaf) {
  (void)plan_.merge_records(
      leaf, merged_, [](const LoggedChange&) {},
      [&](const RecordWords& words) {
        if constexpr (RecordStore<Keys>::has_blobs) result_.dropped.push_back(words);
      });
}

/// Adds the records of the leaves that join this one.
template <class Keys>
void Stretch<Keys>::absorb(std::size_t leaf) {
  for (std::size_t right = leaf + 1; right <= leaf + plan_.of(leaf).absorbs; ++right) {
    const LeafView view = plan_.view_of(right);
    view.each(base_.leaf(right).which(), [&](unsigned slot) {
      merged_.push_back({view.record(slot).load(), MergedRecord::no_slot, false});
      return true;
    });
  }
}

template <class Keys>
void Stretch<Keys>::write_leaf(std::size_t leaf) {
  const LeafPlan& plan = plan_.of(leaf);
  if (base_.size() == 0) {
    merge_records(leaf);
    write_pieces(leaf, plan.pieces);
    return;
  }
  const std::uint64_t offset = base_.leaf(leaf).offset();
  if (plan.is_absorbed) {
    result_.old_leaves.push_back(offset);
    return;
  }
  const LeafView view = plan_.view_of(leaf);
  const unsigned which = base_.leaf(leaf).which();
  unsigned current = which;  // in the new version
  const LeafSet& set = view.set(which);
  const unsigned records = view.records(which);
  const bool same_next = set.next.load(std::memory_order_relaxed) == next_;
  const bool is_plain = plan.pieces == 0 && plan.absorbs == 0 &&
                        plan.most_new == LeafPlan::unlimited &&
                        set.count.load(std::memory_order_relaxed) == records;
  if (plan.begin == plan.end && plan.absorbs == 0 && same_next && records != 0) {
    result_.records += records;
  } else if (is_plain) {
    const auto changed = change_in_place(leaf, view, which);
    if (!changed) {
      result_.old_leaves.push_back(offset);
      return;
    }
    current = *changed;
  } else {
    merge_records(leaf);
    absorb(leaf);
    if (plan.pieces != 0 || merged_.empty()) {
      result_.old_leaves.push_back(offset);
      write_pieces(leaf, plan.pieces);
      return;
    }
    write_merged_set(view, which);
    current = 1 - which;
  }
  next_ = offset;
  result_.leaves.emplace_back(base_.separator(leaf), LeafLink(offset, current));
}

/// Merges into a leaf that has room, and whose order lists its records alone. Only what changes is
/// read and written, because a merge costs what it moves: some values, or these, new records and an
/// order. Returns which set is current then; nothing: no record is left.
template <class Keys>
std::optional<unsigned> Stretch<Keys>::change_in_place(std::size_t leaf, const LeafView& view,
                                                       unsigned which) {
  const LeafSet& set = view.set(which);
  Slots live = set.slots();
  Slots written{};
  bool has_removals = false;
  new_.clear();
  for (const LoggedChange& change : plan_.changes_of(leaf)) {
    const Key key = parts_.records.key_of(change.words);
    const std::uint64_t hash = hash_of(key);
    const auto place = parts_.find_in_leaf(base_.leaf(leaf), key, hash);
    if (!place) {
      if (!change.removal) new_.push_back({change.words, hash});
      continue;
    }
    const bool rewritten = !change.removal && change.words.value != place->words.value;
    if (RecordStore<Keys>::has_blobs && (change.removal || rewritten))
      result_.dropped.push_back(place->words);
    if (change.removal) {
      take_out(live, place->slot);
      has_removals = true;
    } else if (rewritten) {
      view.record(place->slot).value.store(change.words.value, std::memory_order_release);  // B3
      add(written, place->slot);
    }
  }
  const std::size_t records = count(live) + new_.size();
  if (records == 0) return std::nullopt;
  result_.records += records;
  view.flush(written, {});
  if (!has_removals && new_.empty() && set.next.load(std::memory_order_relaxed) == next_)
    return which;
  write_grown_set(view, which, live);
  return 1 - which;
}

/// Writes the other set and its order: those of `live`, and the new records, which get slots.
template <class Keys>
void Stretch<Keys>::write_grown_set(const LeafView& view, unsigned which, const Slots& kept) {
  const RecordStore<Keys>& records = parts_.records;
  const LeafSet& set = view.set(which);
  const std::atomic<std::uint8_t>* const before = view.order(which);
  const LeafRecord* const record = &view.record(0);
  std::atomic<std::uint8_t>* const order = view.order(1 - which);
  const auto end = static_cast<unsigned>(set.count.load(std::memory_order_relaxed));
  Slots live = kept;
  const bool keeps_all = count(kept) == end;
  unsigned at = 0;
  unsigned to = 0;
  const auto copy_until = [&](unsigned stop) {
    for (; at < stop; ++at) {
      const std::uint8_t slot = before[at].load(std::memory_order_relaxed);
      order[to].store(slot, std::memory_order_release);
      to += static_cast<unsigned>(keeps_all || has(kept, slot));
    }
  };
  Slots filled{};
  FreeSlots free(parts_.leaf_entries, set.slots(), set.complete);
  for (const NewRecord& added : new_) {
    const unsigned first = first_not_below(at, end, [&](unsigned i) {
      const unsigned slot = before[i].load(std::memory_order_relaxed);
      return records.less(record[slot].load(), added.words);
    });
    copy_until(first);
    const unsigned slot = free.take(view.choice_of(added.hash));
    view.fill(slot, added.words, fingerprint_from(added.hash));
    add(filled, slot);
    add(live, slot);
    order[to++].store(static_cast<std::uint8_t>(slot), std::memory_order_release);
  }
  copy_until(end);
  view.flush(filled, filled);
  write_set(view, 1 - which, to, live, free.complete());
}

/// Stores and flushes a set, and flushes its order.
template <class Keys>
void Stretch<Keys>::write_set(const LeafView& view, unsigned which, std::size_t count,
                              const Slots& live, std::uint64_t complete) {
  LeafSet& into = view.set(which);
  into.next.store(next_, std::memory_order_release);
  into.count.store(count, std::memory_order_release);
  for (std::size_t i = 0; i < live.size(); ++i)
    into.bitmap[i].store(live[i], std::memory_order_release);
  into.complete.store(complete, std::memory_order_release);
  into.stamp.store(version(), std::memory_order_release);
  pm::flush(view.order(which), count);
  pm::flush(&into, sizeof into);
}

template <class Keys>
void Stretch<Keys>::write_merged_set(const LeafView& view, unsigned which) {
  const LeafSet& set = view.set(which);
  const unsigned other = 1 - which;
  Slots live{};
  Slots filled{};
  Slots written{};
  FreeSlots free(parts_.leaf_entries, set.slots(), set.complete);
  std::atomic<std::uint8_t>* const order = view.order(other);
  for (std::size_t i = 0; i < merged_.size(); ++i) {
    const MergedRecord& item = merged_[i];
    unsigned slot = item.slot;
    if (slot == MergedRecord::no_slot) {
      const std::uint64_t hash = hash_of(key_of(i));
      slot = free.take(view.choice_of(hash));
      view.fill(slot, item.words, fingerprint_from(hash));
      add(filled, slot);
      add(written, slot);
    } else if (item.rewritten) {
      view.record(slot).value.store(item.words.value, std::memory_order_release);  // B3
      add(written, slot);
    }
    add(live, slot);
    order[i].store(static_cast<std::uint8_t>(slot), std::memory_order_release);
  }
  view.flush(written, filled);
  write_set(view, other, merged_.size(), live, free.complete());
  result_.records += merged_.size();
}

template <class Keys>
void Stretch<Keys>::write_pieces(std::size_t leaf, std::size_t pieces) {
  for (std::size_t piece = pieces; piece-- > 0;) {
    const std::size_t begin = merged_.size() * piece / pieces;
    const std::size_t end = merged_.size() * (piece + 1) / pieces;
    const std::uint64_t offset = plan_.blocks()[--blocks_left_].offset;
    write_piece(offset, begin, end);
    const Key first = key_of(begin);
    Key separator = first;
    if (begin != 0)
      separator = separator_between(key_of(begin - 1), first);
    else if (base_.size() != 0)
      separator = base_.separator(leaf);
    result_.leaves.emplace_back(separator, LeafLink(offset, 0));
    next_ = offset;
  }
}

template <class Keys>
void Stretch<Keys>::write_piece(std::uint64_t offset, std::size_t begin, std::size_t end) {
  const LeafView view = parts_.leaf_at(offset);
  LeafSet& set = *new (&view.set(0)) LeafSet{};
  new (&view.set(1)) LeafSet{};
  set.stamp.store(version(), std::memory_order_relaxed);
  set.next.store(next_, std::memory_order_relaxed);
  set.count.store(end - begin, std::memory_order_relaxed);
  Slots filled{};
  const std::uint64_t all_complete = (std::uint64_t{1} << view.words()) - 1;
  FreeSlots free(parts_.leaf_entries, {}, all_complete);
  for (std::size_t i = begin; i < end; ++i) {
    const MergedRecord& item = merged_[i];
    const std::uint64_t hash = hash_of(key_of(i));
    const unsigned slot = free.take(view.choice_of(hash));
    view.fill(slot, item.words, fingerprint_from(hash));
    view.order(0)[i - begin].store(static_cast<std::uint8_t>(slot), std::memory_order_relaxed);
    add(filled, slot);
  }
  for (std::size_t word = 0; word < filled.size(); ++word)
    set.bitmap[word].store(filled[word], std::memory_order_relaxed);
  set.complete.store(free.complete(), std::memory_order_relaxed);
  pm::flush(&set, 2 * sizeof set);
  pm::flush(view.order(0), end - begin);
  view.flush(filled, filled);
  result_.records += end - begin;
}

template class Stretch<IntegerKeys>;
template class Stretch<ByteKeys>;

}  // namespace perdure::dptree
