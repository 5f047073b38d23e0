// Merging leaves of LineTree, so that what is removed makes room.
#include "index/linetree/linetree.h"

namespace perdure {

using linetree::Interval;
using linetree::LeafImage;
using linetree::LeafInfo;
using linetree::no_slot;

// A leaf this empty looks for a neighbour; the two then fill half a leaf at most, so that the next
// insertions do not split it again.
bool LineTree::is_sparse(const Leaf& leaf) const noexcept {
  return info_of(&leaf).records() <= shape_.records() / 4;
}

bool LineTree::fit_together(const Leaf& left, const Leaf& right) const noexcept {
  const unsigned moving = info_of(&right).records();
  return moving == 0 || info_of(&left).records() + moving <= shape_.records() / 2;
}

// Everything is released between two attempts (S2), so two that merge never wait for each other.
void LineTree::merge_around(std::uint64_t key) {
  Leaf* unlinked = nullptr;
  for (pm::Backoff backoff; try_merge(key, unlinked) == Merging::busy;) backoff.wait();
  if (unlinked != nullptr) epochs_.retire(heap_, offset_of(unlinked), shape_.bytes());
}

// The leaf that covers `key` goes into its left neighbour, or takes in its right one.
auto LineTree::try_merge(std::uint64_t key, Leaf*& unlinked) -> Merging {
  const Entered at = enter<Purpose::write>(key, 0);
  Leaf& leaf = *at.leaf;
  if (!at.lock->try_upgrade(at.word)) return Merging::busy;
  Merging result = Merging::unfit;
  if (is_sparse(leaf)) {
    const std::uint64_t lowest = leaf.lowest();
    if (lowest != 0 && lowest != linetree::boundary) {
      auto* const left = static_cast<Leaf*>(inner_.find_previous(key));
      result = left == nullptr ? Merging::busy : merge(*left, leaf, *left);
      if (result == Merging::merged) unlinked = &leaf;
    }
    if (const std::uint64_t next = leaf.successor();
        result == Merging::unfit && next != null_offset) {
      Leaf* const right = leaf_at(next);
      if (right->lowest() != linetree::boundary) result = merge(leaf, *right, *right);
      if (result == Merging::merged) unlinked = right;
    }
  }
  at.lock->unlock(result == Merging::merged);
  return result;
}

// `right` goes into `left`. The lock of the one that is not `partner` is held.
auto LineTree::merge(Leaf& left, Leaf& right, Leaf& partner) -> Merging {
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
// `right` are copied into slots outside of the present interval; all that is invisible. Then one
// store of `next` lengthens the interval, and with it moves all records and unlinks `right`.
// Power-cut states: both leaves, with copies in the left one that are stale (L3, L5), or one leaf.
// False: a record finds no room, nothing changed. Cost: the lines that change, 1 flushed line, 2
// fences.
bool LineTree::absorb(Leaf& left, Leaf& right) {
  LeafInfo& info = info_of(&left);
  const std::uint64_t separator = right.lowest();
  const std::uint64_t last = info_of(&right).highest();
  const Interval longer{linetree::half_of(separator), last};
  const Interval moving{separator, last};
  LeafImage image(shape_, left);
  std::uint32_t changed = 0;
  for (unsigned i = 1; i < shape_.slots(); ++i) {
    if (!moving.holds(image.words[i].key)) continue;
    image.words[i].key = linetree::empty_key(separator);  // L5
    changed |= linetree::line_bit(linetree::line_of(i));
  }
  for (unsigned i = 1; i < shape_.slots(); ++i) {
    const RecordWords record = right.slot(i).load();
    if (!moving.holds(record.key)) continue;
    const unsigned to = linetree::find_free(shape_.place(record.key), longer, image.keys());
    if (to == no_slot) return false;
    image.words[to] = record;
    changed |= linetree::line_bit(linetree::line_of(to));
  }

  for (unsigned i = 1; i < shape_.slots(); ++i) {
    if ((changed & linetree::line_bit(linetree::line_of(i))) == 0) continue;
    LeafRecord& slot = left.slot(i);
    const RecordWords now = slot.load();
    const RecordWords& then = image.words[i];
    if (now.value != then.value) slot.value.store(then.value, std::memory_order_release);
    if (now.key != then.key) slot.key.store(then.key, std::memory_order_release);
  }
  for (unsigned line = 0; line < shape_.lines; ++line)
    if ((changed & linetree::line_bit(line)) != 0) pm::flush(left.line(line), 1);
  pm::fence();
  pm::store_persist(left.next, right.successor());
  info.set(last, summarize(shape_, longer, image.keys()));
  inner_.remove_to_left(separator, &right);
  right.next.store(null_offset, std::memory_order_release);
  return true;
}

}  // namespace perdure
