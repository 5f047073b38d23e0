// When DPTree rotates and merges, and who does it: a worker thread, or the thread that filled the
// front tree.
#include <algorithm>
#include <cmath>
#include <utility>

#include "index/dptree/merge.h"

namespace perdure {

using dptree::Change;
using dptree::LogRecord;
using dptree::LogSegment;
using dptree::State;

namespace {
constexpr std::uint64_t refusals_between_looks = 64;
}

// Power-cut states: before, or after; both hold the same records (A2).
template <class Keys>
void DpTree<Keys>::rotate() {
  State state = State::from(anchor_.state.load(std::memory_order_relaxed));
  std::atomic<std::uint64_t>& log = anchor_.log[state.middle()];
  std::vector<std::uint64_t> kept = segments(log.load(std::memory_order_relaxed));
  BaseMap* const base = snapshot().base;  // `merging_` is held: nobody replaces it
  std::unique_ptr<Buffer> front = buffers_.make(state.generation + 1, *base);
  const std::size_t set_aside =
      std::min(kept.size(), buffers_.set_aside_segments(base->records));  // G5
  front->begin_log(log, std::move(kept), set_aside);
  const pm::AsymmetricLock::WriteGuard alone(writers_);  // D2
  const Epochs::Guard guard(epochs_);
  state.front = state.middle();
  state.has_middle = true;
  ++state.generation;
  pm::store_persist(anchor_.state, state.word());
  current_.announce_rotation(state.generation);  // D3
  spare_.rotate();
  Buffer* const middle = snapshot().front;
  current_.replace({front.release(), middle, base}, epochs_);
}

/// Blobs of `dropped` that the middle log mentions go when it does (D5); the others stay in the
/// list.
template <class Keys>
void DpTree<Keys>::keep_what_is_logged(Buffer& middle, std::vector<RecordWords>& dropped) {
  if (dropped.empty()) return;
  const State state = State::from(anchor_.state.load(std::memory_order_relaxed));
  std::unordered_set<std::uint64_t> logged;
  for (const std::uint64_t at : segments(anchor_.log[state.middle()].load()))
    for (unsigned i = 0; i < buffers_.log_entries(); ++i) {
      const LogRecord& record = pool_.at<LogSegment>(at)->record(i);
      Change change{};
      if (record.counts(middle.seal(), change) && change == Change::removal)
        logged.insert(record.words().value);
    }
  const auto mentioned = std::ranges::partition(
      dropped, [&](const RecordWords& words) { return !logged.contains(words.value); });
  for (const RecordWords& words : mentioned) middle.discard(words.value, words.key);
  dropped.erase(mentioned.begin(), mentioned.end());
}

// Frees the middle tree, its blobs and its log but for what is kept (G5). A power cut before the
// log is shortened leaves it to the next merge. A blob may be in both lists, where an unfinished
// merge was begun again.
template <class Keys>
void DpTree<Keys>::drop_middle(const Snapshot& trees, std::vector<RecordWords>& dropped,
                               std::uint64_t records) {
  const State state = State::from(anchor_.state.load(std::memory_order_relaxed));
  std::atomic<std::uint64_t>& log = anchor_.log[state.middle()];
  const std::vector<std::uint64_t> chain = segments(log.load(std::memory_order_relaxed));
  const std::size_t kept = std::min(chain.size(), buffers_.kept_segments(records));
  const std::size_t freed = chain.size() - kept;
  if (freed != 0) pm::store_persist(log, kept == 0 ? null_offset : chain[freed]);
  for (std::size_t i = 0; i < freed; ++i)
    epochs_.retire(heap_, chain[i], LogSegment::bytes(buffers_.log_entries()));
  const std::vector<RecordWords>& garbage = trees.middle->garbage();
  dropped.insert(dropped.end(), garbage.begin(), garbage.end());
  std::ranges::sort(dropped, {}, &RecordWords::value);
  const auto same = std::ranges::unique(dropped, {}, &RecordWords::value);
  dropped.erase(same.begin(), same.end());
  CurrentSnapshot::retire(epochs_, trees.middle, trees.middle->dram_bytes());
}

/// Notes what a merge has left over.
template <class Keys>
void DpTree<Keys>::leave(std::span<const std::size_t> left, std::span<const Pending> changes) {
  std::vector<LogRecord*> records;
  for (const std::size_t i : left) records.push_back(pool_.at<LogRecord>(changes[i].source()));
  leftovers_.leave(std::move(records), left.size() == changes.size());
}

/// Puts what a merge has left over into the front tree and its log, so that a few records do not
/// keep the middle tree, and with it the front tree from being merged. They are puts, as removals
/// need no room. False: they are too many, or there was no room for all; those that were put there
/// say what the middle tree says.
// Power-cut states: before the merge's commit a record is in both logs with the same words, or in
// the middle one alone; after it in the front log alone. Cost: 1 flushed line and 1 fence a record.
template <class Keys>
bool DpTree<Keys>::hand_on(const Snapshot& trees, const Merge& merge,
                           std::span<const Pending> changes) {
  Buffer& front = *trees.front;
  const std::size_t segments = buffers_.set_aside_segments(trees.base->records);
  const std::size_t begun = front.log_parts();  // each part's last one may be far from full
  if (segments <= begun || merge.left().size() >= (segments - begun) * buffers_.log_entries())
    return false;
  std::vector<RecordWords> replaced;
  for (const std::size_t i : merge.left()) {
    const RecordWords words = changes[i].words;
    const Key key = records_.key_of(words);
    const std::uint64_t hash = hash_of(key);
    auto position = front.lock(key);
    if (position.found.any()) {
      const RecordWords newer = front.record_of(position.found.word)->words();
      if (!position.found.is_put() || newer.value != words.value) replaced.push_back(words);
      front.release(position);
      continue;
    }
    front.make_room(position, key);
    LogRecord* const record = front.take_any_slot(hash);
    if (record == nullptr) {
      front.unlock(position);
      return false;
    }
    record->key.store(words.key, std::memory_order_release);  // D3
    record->value.store(words.value, std::memory_order_release);
    front.set(position, key, pool_.offset_of(record));
    pm::store_persist(record->check, LogRecord::check_of(words, front.seal(), Change::put));  // G2
    front.unlock(position);
  }
  spare_.owe(merge.left().size());
  if constexpr (RecordStore<Keys>::has_blobs)  // the front log may mention them (D5)
    for (const RecordWords& words : replaced) front.discard(words.value, words.key);
  return true;
}

/// About as many leaves as the front tree may split, if its keys are spread as the records are:
/// where the records came in that way, all leaves are nearly full at the same time.
template <class Keys>
std::size_t DpTree<Keys>::likely_splits(const Snapshot& trees) const {
  const BaseMap& base = *trees.base;
  const double most_entries = 2.0 * static_cast<double>(trees.front->capacity());  // writers wait
  const double mean = most_entries / static_cast<double>(std::max<std::size_t>(base.size(), 1));
  const auto enough = static_cast<unsigned>(mean + 3 * std::sqrt(mean)) + 1;
  std::size_t splits = 0;
  for (std::size_t i = 0; i < base.size(); ++i)
    if (leaf_at(base.leaf(i)).room(base.leaf(i).which()) < enough) ++splits;
  return splits;
}

/// True where the next front tree may need more leaves than there are, or logs take the rest.
template <class Keys>
bool DpTree<Keys>::splits_are_scarce() {
  constexpr std::uint64_t rest = 8;  // of the pool's bytes, one in so many
  const HeapUsage usage = heap_.usage();
  if (usage.free_bytes() < usage.capacity_bytes / rest) return true;
  const Snapshot& trees = snapshot();
  const std::uint64_t leaves = usage.free_bytes() / LeafView::bytes(leaf_entries_);
  return leaves < dptree::SpareLeaves::per_split * trees.base->size() &&
         !spare_.could_claim(likely_splits(trees));
}

// After a merge, and where none could do anything. The caller holds `merging_`. Byte strings need
// blobs before they need leaves: the last room is left to these.
template <class Keys>
void DpTree<Keys>::count_claims() {
  if (RecordStore<Keys>::has_blobs || !splits_are_scarce()) return spare_.release();
  const Snapshot& trees = snapshot();
  const std::uint64_t of_middle = trees.middle == nullptr ? 0 : trees.middle->changes();
  spare_.count(trees.front->changes(), leftovers_.any() ? leftovers_.records().size() : of_middle);
}

// Merges the middle tree, or what is left over of it; without one, takes out empty leaves.
// Power-cut states: before, or after; both hold the same records.
template <class Keys>
auto DpTree<Keys>::merge_middle(Effort effort) -> Merged {
  if (leftovers_.any() && effort != Effort::thorough && leftovers_.would_be_vain() &&
      !spare_.could_claim(1)) {
    leftovers_.set_requests(refusals_between_looks);
    return Merged::nothing;
  }
  const Epochs::Guard guard(epochs_);
  const Snapshot trees = snapshot();
  std::vector<Pending> changes;
  const std::size_t entries = leftovers_.any()          ? leftovers_.records().size()
                              : trees.middle != nullptr ? trees.middle->count()
                                                        : 0;
  changes.reserve(entries);
  const auto add = [&](LogRecord* record) {
    changes.emplace_back(record->words(), pool_.offset_of(record), record->is_removal());
  };
  if (leftovers_.any())
    std::ranges::for_each(leftovers_.records(), add);
  else if (trees.middle != nullptr)
    trees.middle->each(
        [&](const typename Buffer::Entry& entry) { add(trees.middle->record_of(entry.word)); });
  Merge merge(*this, *trees.base, changes);
  merge.plan();
  const std::uint64_t worth_a_look = paying_changes();
  const std::size_t wanted = merge.lacking() + (lacks_leaves() ? splits_to_join_for() : 0);
  if (wanted != 0 && may_join(effort) && !merge.plan_joins(dptree::SpareLeaves::per_split * wanted))
    leftovers_.forget_removed();
  if (!merge.left().empty() && merge.left().size() == changes.size() && merge.joined() == 0 &&
      !leftovers_.has_empty_leaf()) {
    leave(merge.left(), changes);
    leftovers_.set_requests_at_least(worth_a_look);
    count_claims();
    return Merged::nothing;
  }
  const bool handed_on =
      effort == Effort::for_room && !merge.left().empty() && hand_on(trees, merge, changes);
  const bool left_over = !merge.left().empty() && !handed_on;
  current_.announce_merge(trees.base->version);  // D3
  merge.apply();
  State state = State::from(anchor_.state.load(std::memory_order_relaxed));
  state.has_middle = left_over;
  std::unique_ptr<BaseMap> base = merge.commit(state);
  const std::uint64_t records = base->records;
  current_.replace({trees.front, left_over ? trees.middle : nullptr, base.release()}, epochs_);
  merge.retire_leaves();
  if (left_over)
    keep_what_is_logged(*trees.middle, merge.dropped());
  else if (trees.middle != nullptr)
    drop_middle(trees, merge.dropped(), records);
  if constexpr (RecordStore<Keys>::has_blobs)
    for (const RecordWords words : merge.dropped()) records_.retire(words);
  CurrentSnapshot::retire(epochs_, trees.base, trees.base->bytes());
  leave(left_over ? merge.left() : std::span<const std::size_t>(), changes);
  if (!left_over) trees.front->release_what_is_set_aside();
  leftovers_.count_removed(static_cast<std::uint64_t>(
      std::ranges::count_if(changes, [](const Pending& change) { return change.removal(); })));
  leftovers_.set_empty_leaf(false);
  // A merge on request is paid for by its changes, or else by waiting for more requests.
  if (handed_on)
    leftovers_.set_requests(merge.left().size() + worth_a_look);
  else if (!left_over && worth_a_look > changes.size())
    leftovers_.set_requests(worth_a_look - changes.size());
  return left_over ? Merged::some : Merged::all;
}

template <class Keys>
auto DpTree<Keys>::flush_one(Effort effort) -> Merged {
  const Snapshot trees = snapshot();  // `merging_` is held: nobody replaces it
  if (trees.middle == nullptr) {
    if (trees.front->changes() != 0)
      rotate();
    else if (!leftovers_.has_empty_leaf() && !(lacks_leaves() && may_join(effort))) {
      count_claims();
      if (lacks_leaves()) leftovers_.set_requests(refusals_between_looks);
      return Merged::nothing;
    }
  }
  return merge_middle(effort);
}

template <class Keys>
void DpTree<Keys>::merge_what_is_full() {
  bool merged = false;
  if (snapshot().middle != nullptr) merged = merge_middle(Effort::for_room) != Merged::nothing;
  if (snapshot().middle == nullptr && snapshot().front->is_full(1))
    merged = flush_one(Effort::for_room) != Merged::nothing || merged;
  constexpr unsigned attempts = 40;  // a few with the core given away
  if (merged) collect_retired(attempts);
}

// Without a worker other threads may be fibers, and never get on while this one waits. What is
// left, because a thread lost its core while it was pinned, is tried again later.
template <class Keys>
void DpTree<Keys>::collect_retired(unsigned attempts) {
  const bool all = retired_.collect_after_merge(workers_.exist() ? attempts : 1);
  count_claims();
  if (!all && workers_.exist()) workers_.ask(Workers::collect);
  retired_.count_merge();
}

// The same once more, where a merge had to leave something. The caller holds `merging_`.
template <class Keys>
void DpTree<Keys>::collect_what_is_left() {
  if (!retired_.is_left()) return;
  retired_.collect_rest();
  count_claims();
}

// Each merge frees leaves for the next; they go on while they get somewhere. The worker may have
// made room, or be about to.
template <class Keys>
bool DpTree<Keys>::make_room(std::uint64_t merges) {
  constexpr unsigned attempts = 1000;  // without the room the operation fails
  const bool due = leftovers_.is_due();
  const pm::LockGuard merging(merging_);
  const bool pays = !leftovers_.any() && snapshot().front->changes() > paying_changes();
  if ((!due && !pays) || retired_.merges() != merges) return retired_.merges() != merges;
  bool made = false;
  for (std::size_t before = ~std::size_t{0};; before = leftovers_.records().size()) {
    const Merged merged = flush_one(Effort::for_room);
    if (merged != Merged::nothing) {
      made = true;
      collect_retired(attempts);
    }
    if (merged != Merged::some || leftovers_.records().size() > before - before / 16) break;
  }
  return made;
}

// A full front tree is merged by the worker; without one, by the thread whose change filled it.
// Others go on with the new front tree, until that is full twice over: then they wait, and help.
template <class Keys>
void DpTree<Keys>::merge_if_full() {
  bool full = false;
  bool overfull = false;
  bool collects = false;
  {
    const Epochs::Guard guard(epochs_);
    const Buffer& front = *snapshot().front;
    full = front.is_full(1);
    overfull = full && front.is_full(2);
    collects = !full && !workers_.exist() && retired_.is_left();
  }
  if (collects && merging_.try_lock()) {
    const pm::LockGuard merging(merging_, std::adopt_lock);
    collect_what_is_left();
  }
  // Without workers whoever changes something does a stretch of a merge first.
  if (!workers_.exist() && workers_.is_sharing()) (void)workers_.help();
  if (!full) return;
  if (leftovers_.any() && !leftovers_.is_due()) return;
  if (!overfull && workers_.exist()) {
    workers_.ask(Workers::merge);
    return;
  }
  for (pm::Backoff backoff; !merging_.try_lock();) {
    if (!overfull) return;
    if (!workers_.help()) backoff.wait();
  }
  const pm::LockGuard merging(merging_, std::adopt_lock);
  merge_what_is_full();
}

// Nothing is merged before the pool is ready: until then blocks that live may look free. The leader
// does not go idle while something is retired: no later merge need come, and threads that have
// retired something may have ended.
template <class Keys>
void DpTree<Keys>::start_workers() {
  workers_.start([this] {
    const pm::LockGuard merging(merging_);
    if ((workers_.take_tasks() & Workers::merge) != 0 && pool_.ready()) merge_what_is_full();
    collect_what_is_left();
    return retired_.is_left();
  });
}

// This does what the workers were asked for: a pool that is closed now stays as it is. A worker
// could else find room that another thread did not, because libpmemobj gives each its own.
template <class Keys>
void DpTree<Keys>::quiesce() {
  const pm::LockGuard merging(merging_);
  do retired_.drain();  // what merges retire is room for the next
  while (flush_one(Effort::thorough) != Merged::nothing);
  spare_.give_up();
  workers_.withdraw(Workers::merge);
}

template void DpTree<IntegerKeys>::merge_if_full();
template void DpTree<ByteKeys>::merge_if_full();
template void DpTree<IntegerKeys>::rotate();
template void DpTree<ByteKeys>::rotate();
template auto DpTree<IntegerKeys>::flush_one(Effort) -> Merged;
template auto DpTree<ByteKeys>::flush_one(Effort) -> Merged;
template void DpTree<IntegerKeys>::count_claims();
template void DpTree<ByteKeys>::count_claims();
template bool DpTree<IntegerKeys>::make_room(std::uint64_t);
template bool DpTree<ByteKeys>::make_room(std::uint64_t);
template void DpTree<IntegerKeys>::start_workers();
template void DpTree<ByteKeys>::start_workers();
template void DpTree<IntegerKeys>::quiesce();
template void DpTree<ByteKeys>::quiesce();

}  // namespace perdure
