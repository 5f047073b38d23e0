// When DPTree rotates and merges, and who does it: a worker thread, or the thread that filled the
// front tree.
#include "index/dptree/merge.h"

namespace perdure {

using dptree::LogSegment;
using dptree::State;

template <class Keys>
std::uint64_t DpTree<Keys>::capacity_over(const BaseMap& base) const noexcept {
  return std::max(buffer_entries_, base.records * merge_percent_ / 100);
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
  pm::store_persist(log, null_offset);
  BaseMap* const base = snapshot().base;  // `merging_` is held: nobody replaces it
  std::unique_ptr<Buffer> front = new_buffer(state.generation + 1, capacity_over(*base));
  const pm::SharedLock::WriteGuard alone(writers_);  // D2
  const Epochs::Guard guard(epochs_);
  state.front = state.middle();
  state.has_middle = true;
  ++state.generation;
  pm::store_persist(anchor_.state, state.word());
  tail_.move_to(log);
  Buffer* const middle = snapshot().front;
  show({front.release(), middle, base});
}

// False: no room for the new leaves, and nothing has changed. Power-cut states: before, or after;
// both hold the same records.
template <class Keys>
bool DpTree<Keys>::merge_middle() {
  const Epochs::Guard guard(epochs_);
  const Snapshot trees = snapshot();
  std::vector<Pending> changes;
  changes.reserve(trees.middle->count());
  trees.middle->each([&](const typename Buffer::Entry& entry) {
    changes.push_back(
        {trees.middle->record_of(entry.word)->words(), (entry.word & Buffer::removal_bit) != 0});
  });
  Merge merge(*this, *trees.base, changes);
  if (!merge.plan()) {
    constexpr std::uint64_t entries_per_change = 16;  // that waits for the next attempt
    stuck_.store(2 + trees.middle->count() / entries_per_change, std::memory_order_relaxed);
    return false;
  }
  stuck_.store(0, std::memory_order_relaxed);
  overwriting_.store(trees.base->version, std::memory_order_seq_cst);  // D3
  merge.apply();
  State state = State::from(anchor_.state.load(std::memory_order_relaxed));
  const std::uint64_t log = anchor_.log[state.middle()].load(std::memory_order_relaxed);
  state.has_middle = false;
  show({trees.front, nullptr, merge.commit(state).release()});
  merge.retire(trees.middle->garbage());
  for (std::uint64_t at = log; at != null_offset;) {
    const std::uint64_t next = pool_.at<LogSegment>(at)->next.load(std::memory_order_relaxed);
    epochs_.retire(heap_, at, LogSegment::bytes(log_entries_));
    at = next;
  }
  epochs_.retire(
      reinterpret_cast<std::uint64_t>(trees.middle), sizeof(Buffer),
      [](void*, std::uint64_t object, std::size_t) { delete reinterpret_cast<Buffer*>(object); },
      nullptr);
  epochs_.retire(
      reinterpret_cast<std::uint64_t>(trees.base), sizeof(BaseMap),
      [](void*, std::uint64_t object, std::size_t) { delete reinterpret_cast<BaseMap*>(object); },
      nullptr);
  return true;
}

template <class Keys>
bool DpTree<Keys>::flush_one() {
  const Snapshot trees = snapshot();  // `merging_` is held: nobody replaces it
  if (trees.middle == nullptr) {
    if (trees.front->count() == 0) return false;
    rotate();
  }
  return merge_middle();
}

template <class Keys>
void DpTree<Keys>::merge_what_is_full() {
  bool merged = false;
  if (snapshot().middle != nullptr) merged = merge_middle();
  if (snapshot().middle == nullptr && snapshot().front->is_full(1)) merged = flush_one() || merged;
  if (merged) collect_retired();
}

// A merge retires much at once, pinned to one epoch; without this it would wait for later merges.
template <class Keys>
void DpTree<Keys>::collect_retired() {
  constexpr int epochs = 4;
  constexpr std::size_t enough_to_advance = std::size_t{1} << 20;
  for (int i = 0; i < epochs; ++i) {
    const Epochs::Guard guard(epochs_);
    epochs_.retire(
        0, enough_to_advance, [](void*, std::uint64_t, std::size_t) {}, nullptr);
  }
}

// A merge that finds no room has read all it was to merge: too much for every change of a full
// pool.
template <class Keys>
bool DpTree<Keys>::make_room() {
  std::uint64_t left = stuck_.load(std::memory_order_relaxed);
  if (left > 1) {
    stuck_.compare_exchange_strong(left, left - 1, std::memory_order_relaxed);
    return false;
  }
  (void)merging_.lock();
  const bool made = flush_one();
  if (made) collect_retired();
  merging_.unlock_unchanged();
  return made;
}

// A full front tree is merged by the worker; without one, by the thread whose change filled it.
// Others go on with the new front tree, until that is full twice over: then they wait.
template <class Keys>
void DpTree<Keys>::merge_if_full() {
  if (stuck_.load(std::memory_order_relaxed) != 0) return;
  bool overfull = false;
  {
    const Epochs::Guard guard(epochs_);
    const Buffer& front = *snapshot().front;
    if (!front.is_full(1)) return;
    overfull = front.is_full(2);
  }
  if (!overfull && has_worker_) {
    wake_worker();
    return;
  }
  if (overfull)
    (void)merging_.lock();
  else if (!merging_.try_lock())
    return;
  merge_what_is_full();
  merging_.unlock_unchanged();
}

template <class Keys>
void DpTree<Keys>::start_worker() {
  if (has_worker_) worker_ = std::thread([this] { work(); });
}

template <class Keys>
void DpTree<Keys>::wake_worker() noexcept {
  if (wanted_.load(std::memory_order_relaxed) != 0 ||
      wanted_.exchange(1, std::memory_order_acq_rel) != 0)
    return;
  wanted_.notify_one();
}

// What is full when the tree is closed is merged before the worker ends. Nothing is merged before
// the pool is ready: until then blocks that live may look free.
template <class Keys>
void DpTree<Keys>::work() {
  for (bool stops = false; !stops;) {
    wanted_.wait(0, std::memory_order_acquire);
    stops = stopping_.load(std::memory_order_acquire);
    wanted_.store(0, std::memory_order_seq_cst);
    if (!pool_.ready()) continue;
    (void)merging_.lock();
    merge_what_is_full();
    merging_.unlock_unchanged();
  }
}

template <class Keys>
void DpTree<Keys>::stop_worker() {
  if (!worker_.joinable()) return;
  stopping_.store(true, std::memory_order_release);
  wake_worker();
  worker_.join();
}

template <class Keys>
void DpTree<Keys>::quiesce() {
  (void)merging_.lock();
  while (flush_one()) continue;
  epochs_.drain();
  merging_.unlock_unchanged();
}

template std::uint64_t DpTree<IntegerKeys>::capacity_over(const BaseMap&) const noexcept;
template std::uint64_t DpTree<ByteKeys>::capacity_over(const BaseMap&) const noexcept;
template void DpTree<IntegerKeys>::show(Snapshot);
template void DpTree<ByteKeys>::show(Snapshot);
template void DpTree<IntegerKeys>::rotate();
template void DpTree<ByteKeys>::rotate();
template bool DpTree<IntegerKeys>::flush_one();
template bool DpTree<ByteKeys>::flush_one();
template bool DpTree<IntegerKeys>::make_room();
template bool DpTree<ByteKeys>::make_room();
template void DpTree<IntegerKeys>::merge_if_full();
template void DpTree<ByteKeys>::merge_if_full();
template void DpTree<IntegerKeys>::start_worker();
template void DpTree<ByteKeys>::start_worker();
template void DpTree<IntegerKeys>::stop_worker();
template void DpTree<ByteKeys>::stop_worker();
template void DpTree<IntegerKeys>::quiesce();
template void DpTree<ByteKeys>::quiesce();

}  // namespace perdure
