#include "index/dptree/split_claims.h"

#include <algorithm>
#include <cmath>

#include "index/common/with_room.h"

namespace perdure::dptree {

namespace {

/// Calls visit(key) for the keys of a buffer tree that a leaf covers, until it returns false.
template <class Keys, class Visit>
void each_key_of_leaf(const Buffer<Keys>& tree, const BaseMap<Keys>& base, std::size_t leaf,
                      Visit&& visit) {
  using Tree = Buffer<Keys>;
  typename Keys::Key from = base.separator(leaf);
  typename Tree::Batch batch;
  for (bool inclusive = true;; inclusive = false) {
    tree.collect(from, inclusive, tree.reenter(from), batch);
    if (batch.count == 0) return;
    for (unsigned i = 0; i < batch.count; ++i) {
      from = tree.key_of(batch.entry[i]);
      if (leaf + 1 != base.size() && !(from < base.separator(leaf + 1))) return;
      if (typename Tree::Found{batch.entry[i].word}.is_put() && !visit(from)) return;
    }
  }
}

}  // namespace

/// How many keys that were logged may need a slot of a base leaf; `most` if it is not fewer. With
/// `exact` those that have one do not count, which takes a search for each.
template <class Keys>
std::size_t SplitClaims<Keys>::logged_keys(const Snapshot<Keys>& trees, LeafPlace place,
                                           std::size_t most, bool exact) const {
  std::size_t count = 0;
  for (const Buffer<Keys>* tree : {trees.front, trees.middle})
    if (tree != nullptr && count < most)
      each_key_of_leaf(*tree, *trees.base, place.number, [&](Key key) {
        if (!exact || !parts_.find_in_leaf(place.leaf, key, hash_of(key))) ++count;
        return count < most;
      });
  return count;
}

template <class Keys>
bool SplitClaims<Keys>::needs_split(Key key, std::uint64_t hash) const {
  constexpr std::size_t most_for_one_claim = 16;
  const Epochs::Guard guard(parts_.epochs);
  const Snapshot<Keys>& trees = parts_.snapshot();
  const LeafPlace place = trees.base->find(key);
  if (place.leaf.offset() == null_offset) return false;
  const std::size_t room = parts_.leaf_at(place.leaf).room(place.leaf.which());
  if (logged_keys(trees, place, room, false) < room) return false;
  const std::size_t most = room + most_for_one_claim;
  const std::size_t logged = logged_keys(trees, place, most, true);
  if (logged < room) return false;
  if (logged > room && logged < most && spare_.covers_claims()) return false;
  RecordWords found;
  return !parts_.find(key, hash, found);
}

template <class Keys>
bool SplitClaims<Keys>::claim() {
  const auto claim = [&] { return spare_.claim() ? Outcome::ok : Outcome::out_of_space; };
  return with_room(parts_.epochs, claim) == Outcome::ok;
}

/// About as many leaves as the front tree may split, if its keys are spread as the records are:
/// where the records came in that way, all leaves are nearly full at the same time.
template <class Keys>
std::size_t SplitClaims<Keys>::likely_splits(const Snapshot<Keys>& trees) const {
  const BaseMap<Keys>& base = *trees.base;
  const double most_entries =
      2.0 * static_cast<double>(trees.front->log().capacity());  // writers wait
  const double mean = most_entries / static_cast<double>(std::max<std::size_t>(base.size(), 1));
  const auto enough = static_cast<unsigned>(mean + 3 * std::sqrt(mean)) + 1;
  std::size_t splits = 0;
  for (std::size_t i = 0; i < base.size(); ++i)
    if (parts_.leaf_at(base.leaf(i)).room(base.leaf(i).which()) < enough) ++splits;
  return splits;
}

/// True where the next front tree may need more leaves than there are, or logs take the rest.
template <class Keys>
bool SplitClaims<Keys>::splits_are_scarce() {
  constexpr std::uint64_t rest = 8;  // of the pool's bytes, one in so many
  const HeapUsage usage = parts_.heap.usage();
  if (usage.free_bytes() < usage.capacity_bytes / rest) return true;
  const Snapshot<Keys>& trees = parts_.snapshot();
  const std::uint64_t leaves = usage.free_bytes() / parts_.leaf_bytes();
  return leaves < SpareLeaves::per_split * trees.base->size() &&
         !spare_.could_claim(likely_splits(trees));
}

template <class Keys>
void SplitClaims<Keys>::recount(const Leftovers& leftovers) {
  if (RecordStore<Keys>::has_blobs || !splits_are_scarce()) return spare_.release();
  const Snapshot<Keys>& trees = parts_.snapshot();
  const std::uint64_t of_middle = trees.middle == nullptr ? 0 : trees.middle->log().changes();
  spare_.count(trees.front->log().changes(),
               leftovers.any() ? leftovers.records().size() : of_middle);
}

template class SplitClaims<IntegerKeys>;
template class SplitClaims<ByteKeys>;

}  // namespace perdure::dptree
