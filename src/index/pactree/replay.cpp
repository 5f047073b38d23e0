// PacTree's log at work: what was split and merged reaches the search layer.
#include "index/pactree/pactree.h"

namespace perdure {

// Without a worker: whoever finds the log being replayed leaves its entry to that thread, which
// looks again after it has let go. Both write `announced_` before they look at the lock or after
// they freed it, by locked instructions, so one of the two sees the other.
template <class Keys>
void PacTree<Keys>::announce() {
  if (worker_.runs()) return worker_.wake();
  announced_.fetch_add(1, std::memory_order_seq_cst);
  std::uint32_t seen = 0;
  do {
    seen = announced_.load(std::memory_order_acquire);
    if (!replaying_.try_lock()) return;
    replay_locked();
    replaying_.unlock();
  } while (announced_.fetch_add(0, std::memory_order_seq_cst) != seen);
}

template <class Keys>
void PacTree<Keys>::replay_locked() const {
  const auto one = [this](std::uint64_t entry) {
    if (entry == pactree::SmoLog::bulk_load) return true;
    const std::uint64_t offset = entry & ~pactree::SmoLog::merge_bit;
    const DataNode& node = *node_at(offset);
    const Path anchor(anchor_of(node));
    if ((entry & pactree::SmoLog::merge_bit) != 0) {
      log_.forget(offset);
      trie_.remove(anchor.text(), offset);
      return true;
    }
    // A node that is obsolete already has a merge further on in the log.
    return pm::VersionLock::is_obsolete(node.lock.peek()) || trie_.insert(anchor.text(), offset);
  };
  const auto after = [this](std::uint64_t entry) {
    if ((entry & pactree::SmoLog::merge_bit) == 0) return;
    const std::uint64_t offset = entry - pactree::SmoLog::merge_bit;
    records_.retire(node_at(offset)->anchor.load());
    epochs_.retire(heap_, offset, bytes_of_node());
  };
  while (log_.drain(one, after) != 0) {
  }
}

// Whoever starts it has replayed what there was, if the pool was ready.
template <class Keys>
void PacTree<Keys>::start_worker() {
  if (!wants_worker_) return;
  static_cast<void>(worker_.start([this] {
    if (!replaying_.lock()) return false;
    {
      const Epochs::Guard guard(epochs_);
      replay_locked();
    }
    replaying_.unlock();
    return false;
  }));
}

template <class Keys>
void PacTree<Keys>::settle() const {
  if (!pool_.ready() || !replaying_.lock()) return;
  {
    const Epochs::Guard guard(epochs_);
    replay_locked();
  }
  epochs_.drain();
  replaying_.unlock();
}

template <class Keys>
void PacTree<Keys>::replay_now() const {
  if (log_.is_empty() || !replaying_.lock()) return;
  {
    const Epochs::Guard guard(epochs_);
    replay_locked();
  }
  replaying_.unlock();
}

// The log is full only while its oldest entries wait for room, which a look at them tells, or for a
// thread that is between `take` and `finish`: that one waits for nobody.
template <class Keys>
std::uint64_t PacTree<Keys>::take_entry(std::uint64_t entry) {
  constexpr unsigned attempts = 64;
  pm::Backoff backoff;
  for (unsigned i = 0; i < attempts; ++i) {
    if (const std::uint64_t ticket = log_.take(entry); ticket != pactree::SmoLog::none)
      return ticket;
    if (!replaying_.lock()) break;
    const std::uint64_t oldest = log_.oldest_ready();
    replay_locked();
    const bool waits_for_room = oldest != pactree::SmoLog::none && log_.oldest_ready() == oldest;
    replaying_.unlock();
    if (waits_for_room) break;
    backoff.wait();
  }
  return pactree::SmoLog::none;
}

template void PacTree<IntegerKeys>::replay_locked() const;
template void PacTree<ByteKeys>::replay_locked() const;
template void PacTree<IntegerKeys>::announce();
template void PacTree<ByteKeys>::announce();
template void PacTree<IntegerKeys>::start_worker();
template void PacTree<ByteKeys>::start_worker();
template void PacTree<IntegerKeys>::settle() const;
template void PacTree<ByteKeys>::settle() const;
template void PacTree<IntegerKeys>::replay_now() const;
template void PacTree<ByteKeys>::replay_now() const;
template std::uint64_t PacTree<IntegerKeys>::take_entry(std::uint64_t);
template std::uint64_t PacTree<ByteKeys>::take_entry(std::uint64_t);

}  // namespace perdure
