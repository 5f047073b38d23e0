// Roart's instant restart: an opening touches the root, and a walk the rest, while the index is in
// use. The paper's DCMM does so: it restarts first, and looks for what is lost later.
//
// The walk goes through the tree in the order of keys, some arrays at a time, pinned only
// meanwhile; then it goes on at a cursor. It never passes anything untouched: a range that
// starts lower is given to what is touched first (T7). After the last array it waits until no
// reader is left that may have found what was taken out, and the heap sweeps (T8).
#include <utility>

#include "index/roart/walk.h"

namespace perdure {

template <class Keys>
Roart<Keys>::~Roart() {
  stop_worker();
}

// The root stands for no entry: it is judged by itself, as node and as what is always there.
template <class Keys>
Result<bool> Roart<Keys>::open_early(std::string_view root_name, std::uint64_t restart) {
  roart::Restart& kept = *pool_.at<roart::Restart>(restart);
  const Result<bool> early = pool_.recover_later(root_name, kept.high_water);
  if (!early || !*early) return early;
  const std::uint64_t root = offset_of(root_);
  if (root % pm::cache_line_bytes != 0 || !heap_.mark(restart, sizeof(roart::Restart)) ||
      !heap_.mark(root, Node::bytes_of(Kind::n4)))
    return corrupt("T1: the root is no block of the heap", root);
  if (root_->kind != Kind::n4 || root_->level != 0)
    return corrupt("T1: the root is not at level 0", root);
  if (const std::uint16_t before = root_->lock.opening();
      !is_of_before(before) || !root_->lock.take_over(before, opening_))
    return corrupt("K2: the root is of a later opening", root);
  if (const Result<void> marked = mark_children(*root_); !marked) return marked.error();
  root_->lock.unlock_unchanged();
  state_.begin_walk();
  start_worker();
  return true;
}

template <class Keys>
void Roart<Keys>::start_worker() {
  if (!walk_->has_worker) return;
  walk_->worker = std::thread([this] {
    while (state_.is_walking() && !walk_->stopping.load(std::memory_order_acquire))
      walk_on(Walk::arrays_at_a_time);
  });
}

template <class Keys>
void Roart<Keys>::stop_worker() {
  if (!walk_ || !walk_->worker.joinable()) return;
  walk_->stopping.store(true, std::memory_order_release);
  walk_->worker.join();
}

template <class Keys>
bool Roart<Keys>::begin_early_change() const {
  if (!walk_->has_worker && walk_->arrays_a_change != 0) walk_on(walk_->arrays_a_change);
  return !state_.is_damaged();
}

// Who holds the lock waits for pinned threads, so nobody pinned waits for the lock.
template <class Keys>
void Roart<Keys>::walk_on(unsigned arrays) const {
  Walk& walk = *walk_;
  while (!walk.lock.lock()) {
  }
  if (state_.is_walking()) {
    Walked walked = Walked::part;
    {
      const Epochs::Guard guard(epochs_);
      std::string path;
      path.reserve(64);
      walked = walk_below(*root_, path, true, arrays);
    }
    if (walked == Walked::all) {
      epochs_.wait_for_pinned();  // T8
      if (const Result<void> swept = pool_.finish_recovery(); !swept)
        note_damage(swept.error());
      else
        state_.settle();
    }
  }
  walk.lock.unlock();
}

template <class Keys>
void Roart<Keys>::finish_walk() const {
  while (state_.early()) {
    walk_on(16 * Walk::arrays_at_a_time);
    if (state_.is_damaged()) return;
  }
}

// `path` is the node's, without the root's byte. `bounded`: the cursor may lie below the node.
// What takes an entry's place while the walk is below it has been touched, as have entries that are
// put in; so it goes on at the entry that was the next before.
template <class Keys>
auto Roart<Keys>::walk_below(const Node& node, std::string& path, bool bounded,
                             unsigned& left) const -> Walked {
  Walk& walk = *walk_;
  Entry ahead;
  for (Entry entry = node.find(bounded ? walk.symbol_at(node.level) : 0); entry; entry = ahead) {
    if (left == 0) {
      walk.path = path;
      walk.level = node.level;
      walk.symbol = entry.symbol();
      return Walked::part;
    }
    ahead = node.next(entry.symbol() + 1);
    if (ahead && ahead.is_array()) array_at(ahead)->prefetch_slots(entries_);
    if (!touch(node, entry, ahead, path_of(path))) return Walked::damaged;
    if (entry.is_array()) {
      --left;
    } else {
      const Node& below = *node_at(entry);
      unsigned at = node.level;
      while (bounded && at < below.level && walk.symbol_at(at) == below.symbol_of(at)) ++at;
      const bool inside = bounded && at == below.level;
      const bool passed = bounded && !inside && walk.symbol_at(at) > below.symbol_of(at);
      if (!passed) {
        const std::size_t length = path.size();
        for (unsigned i = node.level; i < below.level; ++i)
          if (i > 0) path.push_back(static_cast<char>(below.byte_at(i)));
        const Walked walked = walk_below(below, path, inside, left);
        path.resize(length);
        if (walked != Walked::all) return walked;
      }
    }
    bounded = false;
  }
  return Walked::all;
}

template Roart<IntegerKeys>::~Roart();
template Roart<ByteKeys>::~Roart();
template Result<bool> Roart<IntegerKeys>::open_early(std::string_view, std::uint64_t);
template Result<bool> Roart<ByteKeys>::open_early(std::string_view, std::uint64_t);
template bool Roart<IntegerKeys>::begin_early_change() const;
template bool Roart<ByteKeys>::begin_early_change() const;
template void Roart<IntegerKeys>::walk_on(unsigned) const;
template void Roart<ByteKeys>::walk_on(unsigned) const;
template void Roart<IntegerKeys>::finish_walk() const;
template void Roart<ByteKeys>::finish_walk() const;

}  // namespace perdure
