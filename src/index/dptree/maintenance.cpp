#include "index/dptree/maintenance.h"

#include <algorithm>
#include <mutex>
#include <unordered_set>
#include <utility>

#include "core/assert.h"
#include "index/common/publish_batch.h"

namespace perdure::dptree {

namespace {
constexpr std::uint64_t refusals_between_looks = 64;
}

template <class Keys>
void Maintenance<Keys>::rotate() {
  State state = parts_.state();
  std::atomic<std::uint64_t>& log = parts_.anchor.log[state.middle()];
  std::vector<std::uint64_t> kept = parts_.segments(log.load(std::memory_order_relaxed));
  BaseMap<Keys>* const base = parts_.snapshot().base;  // `merging` is held, so it stays
  auto front = parts_.buffers.make(state.generation + 1, *base);
  const std::size_t set_aside =
      std::min(kept.size(), parts_.buffers.set_aside_segments(base->records));  // G5
  front->log().begin(log, std::move(kept), set_aside);
  const pm::AsymmetricLock::WriteGuard alone(parts_.writers);  // D2
  const Epochs::Guard guard(parts_.epochs);
  state.front = state.middle();
  state.has_middle = true;
  ++state.generation;
  pm::store_persist(parts_.anchor.state, state.word());
  parts_.current.announce_rotation(state.generation);  // D3
  claims_.spare().rotate();
  Buffer<Keys>* const middle = parts_.snapshot().front;
  parts_.current.replace({front.release(), middle, base}, parts_.epochs);
}

/// Blobs of `dropped` that the middle log mentions go when it does (D5); the others stay in the
/// list.
template <class Keys>
void Maintenance<Keys>::keep_what_is_logged(Buffer<Keys>& middle,
                                            std::vector<RecordWords>& dropped) {
  if (dropped.empty()) return;
  std::unordered_set<std::uint64_t> logged;
  for (const std::uint64_t at : parts_.segments(parts_.anchor.log[parts_.state().middle()].load()))
    for (unsigned i = 0; i < parts_.buffers.log_entries(); ++i) {
      const LogRecord& record = parts_.pool.template at<LogSegment>(at)->record(i);
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
void Maintenance<Keys>::drop_middle(const Snapshot<Keys>& trees, std::vector<RecordWords>& dropped,
                                    std::uint64_t records) {
  std::atomic<std::uint64_t>& log = parts_.anchor.log[parts_.state().middle()];
  const std::vector<std::uint64_t> chain = parts_.segments(log.load(std::memory_order_relaxed));
  const std::size_t kept = std::min(chain.size(), parts_.buffers.kept_segments(records));
  const std::size_t freed = chain.size() - kept;
  if (freed != 0) pm::store_persist(log, kept == 0 ? null_offset : chain[freed]);
  for (std::size_t i = 0; i < freed; ++i)
    parts_.epochs.retire(parts_.heap, chain[i], LogSegment::bytes(parts_.buffers.log_entries()));
  const std::vector<RecordWords>& garbage = trees.middle->garbage();
  dropped.insert(dropped.end(), garbage.begin(), garbage.end());
  std::ranges::sort(dropped, {}, &RecordWords::value);
  const auto same = std::ranges::unique(dropped, {}, &RecordWords::value);
  dropped.erase(same.begin(), same.end());
  CurrentSnapshot<Keys>::retire(parts_.epochs, trees.middle, trees.middle->dram_bytes());
}

template <class Keys>
void Maintenance<Keys>::note_leftovers(std::span<const std::size_t> left,
                                       std::span<const LoggedChange> changes) {
  std::vector<LogRecord*> records;
  for (const std::size_t i : left) records.push_back(changes[i].source);
  leftovers_.replace(std::move(records), left.size() == changes.size());
}

/// Puts what a merge has left over into the front tree and its log, so that a few records do not
/// keep the middle tree, and with it the front tree from being merged. They are puts, as removals
/// need no room. False: they are too many, or there was no room for all; those that were put there
/// say what the middle tree says.
// Power-cut states: before the merge's commit a record is in both logs with the same words, or in
// the middle one alone; after it in the front log alone. Cost: 1 flushed line and 1 fence a record.
template <class Keys>
bool Maintenance<Keys>::carry_over(const Snapshot<Keys>& trees, std::span<const std::size_t> left,
                                   std::span<const LoggedChange> changes) {
  Buffer<Keys>& front = *trees.front;
  const std::size_t segments = parts_.buffers.set_aside_segments(trees.base->records);
  const std::size_t begun = front.log().parts();  // each part's last one may be far from full
  if (segments <= begun || left.size() >= (segments - begun) * parts_.buffers.log_entries())
    return false;
  std::vector<RecordWords> replaced;
  for (const std::size_t i : left) {
    const RecordWords words = changes[i].words;
    const auto key = parts_.records.key_of(words);
    const std::uint64_t hash = hash_of(key);
    auto position = front.lock(key);
    if (position.found.any()) {
      const RecordWords newer = front.record_of(position.found.word)->words();
      if (!position.found.is_put() || newer.value != words.value) replaced.push_back(words);
      front.release(position);
      continue;
    }
    front.make_room(position, key);
    LogRecord* const record = front.log().take_any_slot(hash);
    if (record == nullptr) {
      front.unlock(position);
      return false;
    }
    record->key.store(words.key, std::memory_order_release);  // D3
    record->value.store(words.value, std::memory_order_release);
    front.set(position, key, parts_.pool.offset_of(record));
    pm::store_persist(record->check, LogRecord::check_of(words, front.seal(), Change::put));  // G2
    front.unlock(position);
  }
  claims_.spare().add_claims(left.size());
  if constexpr (RecordStore<Keys>::has_blobs)  // the front log may mention them (D5)
    for (const RecordWords& words : replaced) front.discard(words.value, words.key);
  return true;
}

/// What an earlier merge has left over of the middle tree, or all of it.
template <class Keys>
auto Maintenance<Keys>::changes_to_merge(const Snapshot<Keys>& trees) const
    -> std::vector<LoggedChange> {
  std::vector<LoggedChange> changes;
  const auto add = [&](LogRecord* record) {
    changes.push_back({record->words(), record, record->is_removal()});
  };
  if (leftovers_.any()) {
    changes.reserve(leftovers_.records().size());
    std::ranges::for_each(leftovers_.records(), add);
  } else if (trees.middle != nullptr) {
    changes.reserve(trees.middle->log().entries());
    trees.middle->each([&](const auto& entry) { add(trees.middle->record_of(entry.word)); });
  }
  return changes;
}

/// Merges the middle tree, or what is left over of it; without one, takes out empty leaves.
// Power-cut states: before, or after; both hold the same records.
template <class Keys>
MergeResult Maintenance<Keys>::merge_middle(MergePurpose purpose) {
  if (leftovers_.any() && purpose != MergePurpose::settle && leftovers_.would_change_nothing() &&
      !claims_.spare().could_claim(1)) {
    leftovers_.set_requests(refusals_between_looks);
    return MergeResult::nothing;
  }
  const Epochs::Guard guard(parts_.epochs);
  const Snapshot<Keys> trees = parts_.snapshot();
  const std::vector<LoggedChange> changes = changes_to_merge(trees);
  MergePlan<Keys> plan(parts_, claims_.spare(), *trees.base, changes);
  plan.make();
  const std::vector<std::size_t>& left = plan.left();
  const std::uint64_t worth_a_look = paying_changes();
  const std::size_t wanted = plan.lacking() + (claims_.lack_leaves() ? splits_to_join_for() : 0);
  if (wanted != 0 && may_join(purpose) && !plan.join(SpareLeaves::per_split * wanted))
    leftovers_.forget_removed();
  if (plan.changes_nothing() && !leftovers_.has_empty_leaf()) {
    note_leftovers(left, changes);
    leftovers_.set_requests_at_least(worth_a_look);
    claims_.recount(leftovers_);
    return MergeResult::nothing;
  }
  const bool carried_over =
      purpose == MergePurpose::make_room && !left.empty() && carry_over(trees, left, changes);
  const bool left_over = !left.empty() && !carried_over;
  parts_.current.announce_merge(trees.base->version);  // D3
  Merge<Keys> merge(plan, workers_);
  merge.write();
  State state = parts_.state();
  state.has_middle = left_over;
  std::unique_ptr<BaseMap<Keys>> base = merge.commit(state);
  const std::uint64_t records = base->records;
  parts_.current.replace({trees.front, left_over ? trees.middle : nullptr, base.release()},
                         parts_.epochs);
  merge.retire_leaves();
  if (left_over)
    keep_what_is_logged(*trees.middle, merge.dropped());
  else if (trees.middle != nullptr)
    drop_middle(trees, merge.dropped(), records);
  if constexpr (RecordStore<Keys>::has_blobs)
    for (const RecordWords words : merge.dropped()) parts_.records.retire(words);
  CurrentSnapshot<Keys>::retire(parts_.epochs, trees.base, trees.base->bytes());
  note_leftovers(left_over ? left : std::span<const std::size_t>(), changes);
  if (!left_over) trees.front->log().release_what_is_set_aside();
  leftovers_.count_removed(
      static_cast<std::uint64_t>(std::ranges::count_if(changes, &LoggedChange::removal)));
  leftovers_.set_empty_leaf(false);
  // A merge on request is paid for by its changes, or else by waiting for more requests.
  if (carried_over)
    leftovers_.set_requests(left.size() + worth_a_look);
  else if (!left_over && worth_a_look > changes.size())
    leftovers_.set_requests(worth_a_look - changes.size());
  return left_over ? MergeResult::part : MergeResult::all;
}

template <class Keys>
MergeResult Maintenance<Keys>::merge_one(MergePurpose purpose) {
  const Snapshot<Keys> trees = parts_.snapshot();
  if (trees.middle == nullptr) {
    if (trees.front->log().changes() != 0) {
      rotate();
    } else if (!leftovers_.has_empty_leaf() && !(claims_.lack_leaves() && may_join(purpose))) {
      claims_.recount(leftovers_);
      if (claims_.lack_leaves()) leftovers_.set_requests(refusals_between_looks);
      return MergeResult::nothing;
    }
  }
  return merge_middle(purpose);
}

template <class Keys>
void Maintenance<Keys>::merge_what_is_full() {
  bool merged = false;
  if (parts_.snapshot().middle != nullptr)
    merged = merge_middle(MergePurpose::make_room) != MergeResult::nothing;
  if (parts_.snapshot().middle == nullptr && parts_.snapshot().front->log().is_full(1))
    merged = merge_one(MergePurpose::make_room) != MergeResult::nothing || merged;
  constexpr unsigned attempts = 40;  // a few with the core given away
  if (merged) collect_retired(attempts);
}

// Without a worker other threads may be fibers, and never get on while this one waits. What is
// left, because a thread lost its core while it was pinned, is tried again later.
template <class Keys>
void Maintenance<Keys>::collect_retired(unsigned attempts) {
  const bool all = retired_.collect_after_merge(workers_.exist() ? attempts : 1);
  claims_.recount(leftovers_);
  if (!all && workers_.exist()) workers_.ask(Workers::collect);
  retired_.count_merge();
}

/// The same once more, where a merge had to leave something.
template <class Keys>
void Maintenance<Keys>::collect_what_is_left() {
  if (!retired_.is_left()) return;
  retired_.collect_rest();
  claims_.recount(leftovers_);
}

// Each merge frees leaves for the next; they go on while each merges 1/16 of what is left. The
// worker may have made room, or be about to.
template <class Keys>
bool Maintenance<Keys>::make_room(std::uint64_t merges) {
  constexpr unsigned attempts = 1000;  // without the room the operation fails
  const bool due = leftovers_.is_due();
  const pm::LockGuard merging(parts_.merging);
  const bool pays =
      !leftovers_.any() && parts_.snapshot().front->log().changes() > paying_changes();
  if ((!due && !pays) || retired_.merges() != merges) return retired_.merges() != merges;
  bool made = false;
  for (std::size_t before = ~std::size_t{0};; before = leftovers_.records().size()) {
    const MergeResult result = merge_one(MergePurpose::make_room);
    if (result != MergeResult::nothing) {
      made = true;
      collect_retired(attempts);
    }
    if (result != MergeResult::part || leftovers_.records().size() > before - before / 16) break;
  }
  return made;
}

// Writers go on with the new front tree, until that is full twice over: then they wait, and help.
template <class Keys>
void Maintenance<Keys>::run() {
  bool full = false;
  bool overfull = false;
  bool collects = false;
  {
    const Epochs::Guard guard(parts_.epochs);
    const Buffer<Keys>& front = *parts_.snapshot().front;
    full = front.log().is_full(1);
    overfull = full && front.log().is_full(2);
    collects = !full && !workers_.exist() && retired_.is_left();
  }
  if (collects && parts_.merging.try_lock()) {
    const pm::LockGuard merging(parts_.merging, std::adopt_lock);
    collect_what_is_left();
  }
  // Without workers each writer does a stretch of a merge first.
  if (!workers_.exist() && workers_.is_sharing()) (void)workers_.help();
  if (!full) return;
  if (leftovers_.any() && !leftovers_.is_due()) return;
  if (!overfull && workers_.exist()) {
    workers_.ask(Workers::merge);
    return;
  }
  for (pm::Backoff backoff; !parts_.merging.try_lock();) {
    if (!overfull) return;
    if (!workers_.help()) backoff.wait();
  }
  const pm::LockGuard merging(parts_.merging, std::adopt_lock);
  merge_what_is_full();
}

// Nothing is merged before the pool is ready: until then blocks that live may look free. The leader
// does not go idle while something is retired: no later merge need come, and threads that have
// retired something may have ended.
template <class Keys>
void Maintenance<Keys>::start() {
  workers_.start([this] {
    const pm::LockGuard merging(parts_.merging);
    if ((workers_.take_tasks() & Workers::merge) != 0 && parts_.pool.ready()) merge_what_is_full();
    collect_what_is_left();
    return retired_.is_left();
  });
}

// This does what the workers were asked for: a pool that is closed now stays as it is. A worker
// could else find room that another thread did not, because libpmemobj gives each its own.
template <class Keys>
void Maintenance<Keys>::settle() {
  const pm::LockGuard merging(parts_.merging);
  do retired_.drain();  // what merges retire is room for the next
  while (merge_one(MergePurpose::settle) != MergeResult::nothing);
  claims_.spare().give_up();
  workers_.withdraw(Workers::merge);
}

template <class Keys>
Result<void> Maintenance<Keys>::load(std::span<const typename Keys::Record> records) {
  settle();  // what is left of removed records goes first
  const pm::LockGuard merging(parts_.merging);
  Result<void> loaded = load_settled(records);
  claims_.recount(leftovers_);
  return loaded;
}

template <class Keys>
Result<void> Maintenance<Keys>::load_settled(std::span<const typename Keys::Record> records) {
  const Snapshot<Keys> trees = parts_.snapshot();
  const Error full{ErrorCode::out_of_space, "the pool has no room for the records",
                   parts_.pool.path(), "create a larger pool"};
  if (trees.middle != nullptr) return full;
  std::vector<LoggedChange> changes;
  changes.reserve(records.size());
  {
    PublishBatch batch(parts_.heap);
    for (const auto& record : records) {
      typename RecordStore<Keys>::Draft draft;
      if (!parts_.records.draft(record.key, record.value, draft)) break;
      if constexpr (RecordStore<Keys>::has_blobs) batch.hold(draft.block);
      changes.push_back({draft.words});
    }
    if constexpr (RecordStore<Keys>::has_blobs) batch.publish();
  }
  MergePlan<Keys> plan(parts_, claims_.spare(), *trees.base, changes);
  if (changes.size() == records.size()) plan.make();
  if (changes.size() != records.size() || !plan.left().empty()) {
    plan.cancel();
    for (const LoggedChange& change : changes) parts_.records.free(change.words);
    return full;
  }
  const Epochs::Guard guard(parts_.epochs);
  parts_.current.announce_merge(trees.base->version);
  Merge<Keys> merge(plan, workers_);
  merge.write();
  const State state = parts_.state();
  std::unique_ptr<BaseMap<Keys>> base = merge.commit(state);
  // The front tree has seen no change; the next is made for so many records.
  PERDURE_ASSERT(trees.front->log().changes() == 0);
  auto front = parts_.buffers.make(state.generation, *base);
  std::atomic<std::uint64_t>& log = parts_.anchor.log[state.front];
  front->log().begin(log, parts_.segments(log.load(std::memory_order_relaxed)));
  parts_.current.replace({front.release(), nullptr, base.release()}, parts_.epochs);
  merge.retire_leaves();
  delete trees.front;
  delete trees.base;
  return {};
}

template class Maintenance<IntegerKeys>;
template class Maintenance<ByteKeys>;

}  // namespace perdure::dptree
