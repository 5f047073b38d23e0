// When DPTree rotates and merges, and who does it: a worker thread, or the thread that filled the
// front tree.
#include <algorithm>
#include <chrono>
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

// Fewer where the pool has little room left: a merge of so many would leave over more than the log
// has room for (G5). An entry may take two log records, its part of a new leaf, and its blob.
template <class Keys>
std::uint64_t DpTree<Keys>::capacity_over(const BaseMap& base) const noexcept {
  constexpr std::uint64_t bytes_per_entry = RecordStore<Keys>::has_blobs ? 256 : 128;
  const std::uint64_t usual = std::max(buffer_entries_, base.records * merge_percent_ / 100);
  const std::uint64_t kept = kept_segments(base.records) * log_entries_;
  if (kept == 0) return usual;
  return std::clamp(heap_.usage().free_bytes() / bytes_per_entry, std::min(usual, kept / 8), usual);
}

template <class Keys>
void DpTree<Keys>::show(Snapshot trees) {
  Snapshot* const old = snapshot_.exchange(new Snapshot(trees), std::memory_order_acq_rel);
  epochs_.retire(
      reinterpret_cast<std::uint64_t>(old), sizeof *old,
      [](void*, std::uint64_t object, std::size_t) { delete reinterpret_cast<Snapshot*>(object); },
      nullptr);
}

// Power-cut states: before, or after; both hold the same records (A2).
template <class Keys>
void DpTree<Keys>::rotate() {
  State state = State::from(anchor_.state.load(std::memory_order_relaxed));
  std::atomic<std::uint64_t>& log = anchor_.log[state.middle()];
  std::vector<std::uint64_t> kept = segments(log.load(std::memory_order_relaxed));
  BaseMap* const base = snapshot().base;  // `merging_` is held: nobody replaces it
  std::unique_ptr<Buffer> front = new_buffer(state.generation + 1, *base);
  const std::size_t set_aside = std::min(kept.size(), set_aside_segments(base->records));  // G5
  front->begin_log(log, std::move(kept), set_aside);
  const pm::AsymmetricLock::WriteGuard alone(writers_);  // D2
  const Epochs::Guard guard(epochs_);
  state.front = state.middle();
  state.has_middle = true;
  ++state.generation;
  pm::store_persist(anchor_.state, state.word());
  reusing_.store(state.generation, std::memory_order_seq_cst);  // D3
  spare_.rotate();
  Buffer* const middle = snapshot().front;
  show({front.release(), middle, base});
}

/// Blobs of `dropped` that the middle log mentions go when it does (D5); the others stay in the
/// list.
template <class Keys>
void DpTree<Keys>::keep_what_is_logged(Buffer& middle, std::vector<RecordWords>& dropped) {
  if (dropped.empty()) return;
  const State state = State::from(anchor_.state.load(std::memory_order_relaxed));
  std::unordered_set<std::uint64_t> logged;
  for (const std::uint64_t at : segments(anchor_.log[state.middle()].load()))
    for (unsigned i = 0; i < log_entries_; ++i) {
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
  const std::size_t kept = std::min(chain.size(), kept_segments(records));
  const std::size_t freed = chain.size() - kept;
  if (freed != 0) pm::store_persist(log, kept == 0 ? null_offset : chain[freed]);
  for (std::size_t i = 0; i < freed; ++i)
    epochs_.retire(heap_, chain[i], LogSegment::bytes(log_entries_));
  const std::vector<RecordWords>& garbage = trees.middle->garbage();
  dropped.insert(dropped.end(), garbage.begin(), garbage.end());
  std::ranges::sort(dropped, {}, &RecordWords::value);
  const auto same = std::ranges::unique(dropped, {}, &RecordWords::value);
  dropped.erase(same.begin(), same.end());
  epochs_.retire(
      reinterpret_cast<std::uint64_t>(trees.middle), trees.middle->dram_bytes(),
      [](void*, std::uint64_t object, std::size_t) { delete reinterpret_cast<Buffer*>(object); },
      nullptr);
}

/// Notes what a merge has left over, and when the next is worth its reading.
template <class Keys>
void DpTree<Keys>::leave(std::span<const std::size_t> left, std::span<const Pending> changes) {
  constexpr std::uint64_t entries_per_change = 16;  // that waits for the next attempt
  in_vain_.reset();
  if (left.size() == changes.size()) in_vain_ = thinned_;
  std::vector<LogRecord*> records;
  for (const std::size_t i : left) records.push_back(pool_.at<LogRecord>(changes[i].source()));
  left_ = std::move(records);
  patience_.store(left_.size() / entries_per_change, std::memory_order_relaxed);
  stuck_.store(!left_.empty(), std::memory_order_relaxed);
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
  const std::size_t segments = set_aside_segments(trees.base->records);
  const std::size_t begun = front.log_parts();  // each part's last one may be far from full
  if (segments <= begun || merge.left().size() >= (segments - begun) * log_entries_) return false;
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

/// After a merge in vain: whether the next could get anywhere, without reading what was left over.
template <class Keys>
bool DpTree<Keys>::may_find_room() {
  return !in_vain_ || emptied_ || thinned_ != *in_vain_ || spare_.could_claim(1);
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
  spare_.count(trees.front->changes(), stuck_ ? left_.size() : of_middle);
}

// Merges the middle tree, or what is left over of it; without one, takes out empty leaves.
// Power-cut states: before, or after; both hold the same records.
template <class Keys>
auto DpTree<Keys>::merge_middle(Effort effort) -> Merged {
  if (stuck_ && effort != Effort::thorough && !may_find_room()) {
    patience_.store(refusals_between_looks, std::memory_order_relaxed);
    return Merged::nothing;
  }
  const Epochs::Guard guard(epochs_);
  const Snapshot trees = snapshot();
  std::vector<Pending> changes;
  const std::size_t entries = stuck_                    ? left_.size()
                              : trees.middle != nullptr ? trees.middle->count()
                                                        : 0;
  changes.reserve(entries);
  const auto add = [&](LogRecord* record) {
    changes.emplace_back(record->words(), pool_.offset_of(record), record->is_removal());
  };
  if (stuck_)
    std::ranges::for_each(left_, add);
  else if (trees.middle != nullptr)
    trees.middle->each(
        [&](const typename Buffer::Entry& entry) { add(trees.middle->record_of(entry.word)); });
  Merge merge(*this, *trees.base, changes);
  merge.plan();
  const std::uint64_t worth_a_look = paying_changes();
  const std::size_t wanted = merge.lacking() + (lacks_leaves() ? splits_to_join_for() : 0);
  if (wanted != 0 && may_join(effort) && !merge.plan_joins(dptree::SpareLeaves::per_split * wanted))
    thinned_ = 0;
  if (!merge.left().empty() && merge.left().size() == changes.size() && merge.joined() == 0 &&
      !emptied_) {
    leave(merge.left(), changes);
    patience_.store(std::max(patience_.load(std::memory_order_relaxed), worth_a_look),
                    std::memory_order_relaxed);
    count_claims();
    return Merged::nothing;
  }
  const bool handed_on =
      effort == Effort::for_room && !merge.left().empty() && hand_on(trees, merge, changes);
  const bool left_over = !merge.left().empty() && !handed_on;
  overwriting_.store(trees.base->version, std::memory_order_seq_cst);  // D3
  merge.apply();
  State state = State::from(anchor_.state.load(std::memory_order_relaxed));
  state.has_middle = left_over;
  std::unique_ptr<BaseMap> base = merge.commit(state);
  const std::uint64_t records = base->records;
  show({trees.front, left_over ? trees.middle : nullptr, base.release()});
  merge.retire_leaves();
  if (left_over)
    keep_what_is_logged(*trees.middle, merge.dropped());
  else if (trees.middle != nullptr)
    drop_middle(trees, merge.dropped(), records);
  if constexpr (RecordStore<Keys>::has_blobs)
    for (const RecordWords words : merge.dropped()) records_.retire(words);
  epochs_.retire(
      reinterpret_cast<std::uint64_t>(trees.base), trees.base->bytes(),
      [](void*, std::uint64_t object, std::size_t) { delete reinterpret_cast<BaseMap*>(object); },
      nullptr);
  leave(left_over ? merge.left() : std::span<const std::size_t>(), changes);
  if (!left_over) trees.front->release_what_is_set_aside();
  thinned_ += static_cast<std::uint64_t>(
      std::ranges::count_if(changes, [](const Pending& change) { return change.removal(); }));
  emptied_ = false;
  // A merge that room was asked for is paid for by its changes, or else by patience.
  if (handed_on)
    patience_.store(merge.left().size() + worth_a_look, std::memory_order_relaxed);
  else if (!left_over && worth_a_look > changes.size())
    patience_.store(worth_a_look - changes.size(), std::memory_order_relaxed);
  return left_over ? Merged::some : Merged::all;
}

template <class Keys>
auto DpTree<Keys>::flush_one(Effort effort) -> Merged {
  const Snapshot trees = snapshot();  // `merging_` is held: nobody replaces it
  if (trees.middle == nullptr) {
    if (trees.front->changes() != 0)
      rotate();
    else if (!emptied_ && !(lacks_leaves() && may_join(effort))) {
      count_claims();
      if (lacks_leaves()) patience_.store(refusals_between_looks, std::memory_order_relaxed);
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

// A merge retires much at once, pinned to one epoch; without this it would wait for later merges.
// Other threads are pinned for one operation each; where they are fibers, they may never get on.
// What a thread keeps that lost its core while it was pinned is tried again later.
template <class Keys>
void DpTree<Keys>::collect_retired(unsigned attempts) {
  bool all = epochs_.collect();
  pm::Backoff backoff;
  for (unsigned i = 1; has_worker() && i < attempts && !all; ++i) {
    backoff.wait();
    all = epochs_.collect();
  }
  uncollected_.store(!all, std::memory_order_relaxed);
  count_claims();
  if (!all && has_worker()) ask_worker(collect_task);
  ++merges_;
}

// The same once more, where a merge had to leave something. The caller holds `merging_`.
template <class Keys>
void DpTree<Keys>::collect_what_is_left() {
  if (!uncollected_.load(std::memory_order_relaxed)) return;
  uncollected_.store(!epochs_.collect(), std::memory_order_relaxed);
  count_claims();
}

/// True when room may be looked for now; else one step nearer. What was left over would be read for
/// every change of a full pool.
template <class Keys>
bool DpTree<Keys>::is_due() noexcept {
  std::uint64_t left = patience_.load(std::memory_order_relaxed);
  if (left == 0) return true;
  patience_.compare_exchange_strong(left, left - 1, std::memory_order_relaxed);
  return false;
}

// Each merge frees leaves for the next; they go on while they get somewhere. The worker may have
// made room, or be about to.
template <class Keys>
bool DpTree<Keys>::make_room(std::uint64_t merges) {
  constexpr unsigned attempts = 1000;  // without the room the operation fails
  const bool due = is_due();
  (void)merging_.lock();
  const bool pays = !stuck_ && snapshot().front->changes() > paying_changes();
  if ((!due && !pays) || merges_ != merges) {
    merging_.unlock_unchanged();
    return merges_ != merges;
  }
  bool made = false;
  for (std::size_t before = ~std::size_t{0};; before = left_.size()) {
    const Merged merged = flush_one(Effort::for_room);
    if (merged != Merged::nothing) {
      made = true;
      collect_retired(attempts);
    }
    if (merged != Merged::some || left_.size() > before - before / 16) break;
  }
  merging_.unlock_unchanged();
  return made;
}

// Without workers whoever changes something does a stretch of a merge first.
template <class Keys>
bool DpTree<Keys>::help_merging() noexcept {
  helpers_.fetch_add(1, std::memory_order_seq_cst);
  Merge* const merge = shared_.load(std::memory_order_seq_cst);
  const bool helped = merge != nullptr && merge->work();
  if (helped) pm::fence();  // D8
  helpers_.fetch_sub(1, std::memory_order_release);
  return helped;
}

template <class Keys>
void DpTree<Keys>::share(Merge& merge) noexcept {
  shared_.store(&merge, std::memory_order_seq_cst);
  if (workers_ < 2) return;
  shares_.fetch_add(1, std::memory_order_release);
  shares_.notify_all();
}

template <class Keys>
void DpTree<Keys>::end_sharing() noexcept {
  shared_.store(nullptr, std::memory_order_seq_cst);
  for (pm::Backoff backoff; helpers_.load(std::memory_order_seq_cst) != 0;) backoff.wait();
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
    collects = !full && !has_worker() && uncollected_.load(std::memory_order_relaxed);
  }
  if (collects && merging_.try_lock()) {
    collect_what_is_left();
    merging_.unlock_unchanged();
  }
  if (!has_worker() && shared_.load(std::memory_order_relaxed) != nullptr) (void)help_merging();
  if (!full) return;
  if (stuck_.load(std::memory_order_relaxed) && !is_due()) return;
  if (!overfull && has_worker()) {
    ask_worker(merge_task);
    return;
  }
  for (pm::Backoff backoff; !merging_.try_lock();) {
    if (!overfull) return;
    if (!help_merging()) backoff.wait();
  }
  merge_what_is_full();
  merging_.unlock_unchanged();
}

template <class Keys>
void DpTree<Keys>::start_worker() {
  for (std::uint64_t i = 0; i < workers_; ++i)
    worker_.emplace_back([this, i] { i == 0 ? work() : work_along(); });
}

template <class Keys>
void DpTree<Keys>::ask_worker(std::uint32_t task) noexcept {
  if ((tasks_.load(std::memory_order_relaxed) & task) != 0 ||
      tasks_.fetch_or(task, std::memory_order_acq_rel) != 0)
    return;
  tasks_.notify_one();
}

// Nothing is merged before the pool is ready: until then blocks that live may look free. The worker
// does not go idle while something is retired: no later merge need come, and threads that have
// retired something may have ended.
template <class Keys>
void DpTree<Keys>::work() {
  constexpr std::chrono::milliseconds until_pinned_threads_run(1);
  for (std::uint32_t tasks = 0; (tasks & stop_task) == 0;) {
    if (!uncollected_.load(std::memory_order_relaxed))
      tasks_.wait(0, std::memory_order_acquire);
    else if (tasks_.load(std::memory_order_relaxed) == 0)
      std::this_thread::sleep_for(until_pinned_threads_run);
    (void)merging_.lock();
    tasks = tasks_.exchange(0, std::memory_order_seq_cst);
    if ((tasks & merge_task) != 0 && pool_.ready()) merge_what_is_full();
    collect_what_is_left();
    merging_.unlock_unchanged();
  }
}

// Until the first worker has ended.
template <class Keys>
void DpTree<Keys>::work_along() {
  for (std::uint32_t seen = 0; (seen & end_of_shares) == 0;) {
    shares_.wait(seen, std::memory_order_acquire);
    seen = shares_.load(std::memory_order_acquire);
    while (help_merging()) {
    }
  }
}

template <class Keys>
void DpTree<Keys>::stop_worker() {
  if (worker_.empty()) return;
  ask_worker(stop_task);
  worker_.front().join();
  shares_.fetch_or(end_of_shares, std::memory_order_release);
  shares_.notify_all();
  for (std::size_t i = 1; i < worker_.size(); ++i) worker_[i].join();
  worker_.clear();
}

// What the worker was asked for is done with it: a pool that is closed now stays as it is. A worker
// could else find room that another thread did not, because libpmemobj gives each its own.
template <class Keys>
void DpTree<Keys>::quiesce() {
  (void)merging_.lock();
  do epochs_.drain();  // what merges retire is room for the next
  while (flush_one(Effort::thorough) != Merged::nothing);
  spare_.give_up();
  uncollected_.store(false, std::memory_order_relaxed);
  tasks_.fetch_and(~merge_task, std::memory_order_relaxed);
  merging_.unlock_unchanged();
}

template void DpTree<IntegerKeys>::merge_if_full();
template void DpTree<ByteKeys>::merge_if_full();
template std::uint64_t DpTree<IntegerKeys>::capacity_over(const BaseMap&) const noexcept;
template std::uint64_t DpTree<ByteKeys>::capacity_over(const BaseMap&) const noexcept;
template void DpTree<IntegerKeys>::show(Snapshot);
template void DpTree<ByteKeys>::show(Snapshot);
template void DpTree<IntegerKeys>::rotate();
template void DpTree<ByteKeys>::rotate();
template auto DpTree<IntegerKeys>::flush_one(Effort) -> Merged;
template auto DpTree<ByteKeys>::flush_one(Effort) -> Merged;
template void DpTree<IntegerKeys>::count_claims();
template void DpTree<ByteKeys>::count_claims();
template bool DpTree<IntegerKeys>::make_room(std::uint64_t);
template bool DpTree<ByteKeys>::make_room(std::uint64_t);
template void DpTree<IntegerKeys>::start_worker();
template void DpTree<ByteKeys>::start_worker();
template void DpTree<IntegerKeys>::stop_worker();
template void DpTree<ByteKeys>::stop_worker();
template void DpTree<IntegerKeys>::quiesce();
template void DpTree<ByteKeys>::quiesce();

}  // namespace perdure
