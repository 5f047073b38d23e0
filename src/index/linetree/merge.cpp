// Merging leaves of LineTree, so that what is removed makes room.
#include "index/linetree/linetree.h"

namespace perdure {

using linetree::LeafImage;
using linetree::LeafInfo;
using linetree::no_slot;

// A leaf this empty looks for a neighbour; the two then fill half a leaf at most, so that the next
// insertions do not split it again.
template <class Keys>
bool LineTree<Keys>::is_sparse(const Leaf& leaf) const noexcept {
  return info_of(&leaf).records() <= shape_.records() / 4;
}

template <class Keys>
bool LineTree<Keys>::fit_together(const Leaf& left, const Leaf& right) const noexcept {
  const unsigned moving = info_of(&right).records();
  return moving == 0 || info_of(&left).records() + moving <= shape_.records() / 2;
}

// Everything is released between two attempts (S2), so two that merge never wait for each other.
template <class Keys>
void LineTree<Keys>::merge_around(Key key) {
  Leaf* unlinked = nullptr;
  for (pm::Backoff backoff; try_merge(key, unlinked) == Merging::busy;) backoff.wait();
  if (unlinked == nullptr) return;
  if constexpr (has_text_keys<Keys>) records_.retire({0, unlinked->lowest()});
  epochs_.retire(heap_, offset_of(unlinked), shape_.bytes());
}

// The leaf that covers `key` goes into its left neighbour, or takes in its right one.
template <class Keys>
auto LineTree<Keys>::try_merge(Key key, Leaf*& unlinked) -> Merging {
  const Entered at = enter<Purpose::write>(key, 0);
  Leaf& leaf = *at.leaf;
  if (!at.lock->try_upgrade(at.word)) return Merging::busy;
  Merging result = Merging::unfit;
  if (is_sparse(leaf)) {
    if (!Kind::stays(leaf.lowest())) {
      auto* const left = static_cast<Leaf*>(inner_.find_previous(key));
      result = left == nullptr ? Merging::busy : merge(*left, leaf, *left);
      if (result == Merging::merged) unlinked = &leaf;
    }
    if (const std::uint64_t next = leaf.successor();
        result == Merging::unfit && next != null_offset) {
      Leaf* const right = leaf_at(next);
      if (!Kind::stays(right->lowest())) result = merge(leaf, *right, *right);
      if (result == Merging::merged) unlinked = right;
    }
  }
  at.lock->unlock(result == Merging::merged);
  return result;
}

// `right` goes into `left`. The lock of the one that is not `partner` is held.
template <class Keys>
auto LineTree<Keys>::merge(Leaf& left, Leaf& right, Leaf& partner) -> Merging {
  if (!fit_together(left, right)) return Merging::unfit;
  pm::VersionLock& lock = lock_of(&partner);
  const bool same_stripe = &lock == &lock_of(&partner == &left ? &right : &left);
  if (!same_stripe && !lock.try_lock()) return Merging::busy;
  // An unlinked leaf leads nowhere: see the end of `absorb`. One that was split leads elsewhere.
  Merging result = Merging::busy;
  if (left.successor() == offset_of(&right))
    result = fit_together(left, right) && absorb(left, right) ? Merging::merged : Merging::unfit;
  if (!same_stripe) lock.unlock(result == Merging::merged);
  return result;
}

// First the slots of `left` that the longer interval would revive are emptied, and the records of
// `right` are copied into slots that are not live; all that is invisible. Then one store of `next`
// lengthens the interval, and with it moves all records and unlinks `right`.
// Power-cut states: both leaves, with copies in the left one that are stale (L3, L5; of byte
// strings recovery empties them, L6), or one leaf. False: a record finds no room, nothing changed.
// Cost: the lines that change, 1 flushed line, 2 fences.
template <class Keys>
bool LineTree<Keys>::absorb(Leaf& left, Leaf& right) {
  LeafInfo& info = info_of(&left);
  const std::uint64_t lo = right.lowest();
  const std::uint64_t last = info_of(&right).highest();
  const auto longer = Kind::live(lo, last);
  LeafImage image(shape_, left);
  std::uint32_t changed = 0;
  if constexpr (!has_text_keys<Keys>) {
    const linetree::Interval moving{lo, last};
    for (unsigned i = 1; i < shape_.slots(); ++i) {
      if (!moving.holds(image.words[i].key)) continue;
      image.words[i].key = linetree::empty_key(lo);  // L5
      changed |= linetree::line_bit(linetree::line_of(i));
    }
  }
  for (unsigned i = 1; i < shape_.slots(); ++i) {
    const RecordWords words = right.slot(i).load();
    const std::uint64_t word = Kind::commit_word(words);
    if (!longer.holds(word)) continue;
    const linetree::Place place = shape_.place(Kind::Live::place_word(word));
    const unsigned to = linetree::find_free(place, longer, Kind::words_of(image));
    if (to == no_slot) return false;
    image.words[to] = words;
    changed |= linetree::line_bit(linetree::line_of(to));
  }

  for (unsigned i = 1; i < shape_.slots(); ++i) {
    if ((changed & linetree::line_bit(linetree::line_of(i))) == 0) continue;
    const RecordWords now = left.slot(i).load();
    const RecordWords& then = image.words[i];
    if (now.key != then.key || now.value != then.value)
      linetree::store_words<Keys>(left.slot(i), then);
  }
  linetree::flush_lines(shape_, left, changed);
  pm::fence();
  pm::store_persist(left.next, right.successor());
  info.set(last, summarize(shape_, longer, Kind::words_of(left)));
  inner_.remove_to_left(linetree::lowest_key(records_, right), &right);
  right.next.store(null_offset, std::memory_order_release);
  info_of(&right).forget_records();
  return true;
}

template bool LineTree<IntegerKeys>::is_sparse(const Leaf&) const noexcept;
template bool LineTree<SlotKeys>::is_sparse(const Leaf&) const noexcept;
template bool LineTree<ByteKeys>::is_sparse(const Leaf&) const noexcept;
template void LineTree<IntegerKeys>::merge_around(Key);
template void LineTree<SlotKeys>::merge_around(Key);
template void LineTree<ByteKeys>::merge_around(Key);

}  // namespace perdure
