#include "index/fptree/fptree.h"

#include <algorithm>
#include <array>

#include "core/assert.h"
#include "index/common/index_root.h"
#include "index/common/lookup_groups.h"
#include "index/common/with_room.h"
#include "index/leaf/leaf_order.h"

namespace perdure::fptree {
namespace {

template <class Keys>
IndexRootKind root_kind() {
  return {.index = "fptree", .layout_version = layout_version, .key_kind = Keys::kind};
}

}  // namespace

template <class Keys>
FpTree<Keys>::FpTree(const IndexPlace& place, std::uint64_t head)
    : pool_(*place.pool),
      threads_(std::max(1U, place.threads)),
      update_in_place_(place.options.get("update_in_place") != 0),
      tree_options_{.entries = static_cast<unsigned>(place.options.get("inner_entries")),
                    .huge_pages = place.huge_pages},
      store_(pool_, *epochs_),
      list_(pool_, store_, static_cast<unsigned>(place.options.get("leaf_entries")), head),
      tree_(std::make_unique<Tree>(*epochs_, tree_options_, list_.head())) {}

template <class Keys>
auto FpTree<Keys>::create(const IndexPlace& place) -> MadeIndex<Keys> {
  const auto entries = static_cast<unsigned>(place.options.get("leaf_entries"));
  const auto head = create_rooted(
      place, root_kind<Keys>(), {entries}, {"the first leaf", leaf_bytes(entries)},
      [&](std::uint64_t offset) { LeafList<Keys>::format_head(*place.pool, offset, entries); });
  if (!head) return head.error();
  return std::unique_ptr<OrderedIndex<Keys>>(new FpTree(place, *head));
}

template <class Keys>
auto FpTree<Keys>::recover(const IndexPlace& place) -> MadeIndex<Keys> {
  Pool& pool = *place.pool;
  Result<IndexRoot> root = read_index_root(pool, place.root_name, root_kind<Keys>());
  if (!root) return root.error();
  Result<void> fits =
      check_index_option(pool, "leaf_entries", root->option[0], place.options.get("leaf_entries"));
  if (!fits) return fits.error();
  // The head is only a number until it has been checked: the tree is built over it afterwards.
  const auto entries = static_cast<unsigned>(root->option[0]);
  if (!pool.contains(root->head, leaf_bytes(entries)) || root->head % alignof(Leaf) != 0)
    return detail::corrupt_record("the root leads to no leaf", root->head, pool);
  std::unique_ptr<FpTree> tree(new FpTree(place, root->head));
  auto leaves = tree->list_.recover(tree->threads_);
  if (!leaves) return leaves.error();
  tree->build(*leaves);
  Result<void> done = pool.root_recovered(place.root_name);
  if (!done) return done.error();
  return std::unique_ptr<OrderedIndex<Keys>>(std::move(tree));
}

template <class Keys>
void FpTree<Keys>::build(const std::vector<typename LeafList<Keys>::Entry>& leaves) {
  std::vector<typename Tree::Child> children;
  children.reserve(leaves.size());
  for (const auto& entry : leaves) children.push_back({entry.lowest, entry.leaf});
  tree_->build(children);
}

template <class Keys>
Outcome FpTree<Keys>::lookup(Key key, ValueOut& value) {
  const Epochs::Guard guard(*epochs_);
  RecordWords words;
  if (!find_record(key, hash_of(key), words)) return Outcome::not_found;
  store_.read_value(words, value);  // a blob never changes (R1), and the pin keeps it
  return Outcome::ok;
}

template <class Keys>
bool FpTree<Keys>::find_record(Key key, std::uint64_t hash, RecordWords& words) const {
  constexpr std::uint64_t taken = pm::VersionLock::locked_bit | pm::VersionLock::obsolete_bit;
  bool found = false;
  if (elision_.run(elision_attempts, [&] {
        const Leaf& leaf = *static_cast<const Leaf*>(tree_->find_in_transaction(key));
        prefetch(leaf, hash, list_.entries());
        if ((leaf.lock.peek() & taken) != 0) pm::abort_transaction();
        found = find_slot(leaf, store_, key, hash, words, [] { return true; }) != no_slot;
      }))
    return found;
  for (pm::Backoff backoff;; backoff.wait()) {
    const Entered at = tree_->find(key, [&](void* found_leaf) {
      auto* const leaf = static_cast<Leaf*>(found_leaf);
      prefetch(*leaf, hash, list_.entries());
      return Entered{leaf, leaf->lock.read_begin()};
    });
    pm::ReadAttempt stable(at.leaf->lock, at.version);
    found = find_slot(*at.leaf, store_, key, hash, words, stable) != no_slot;
    if (stable()) return found;  // F3
  }
}

// One stage at a time for a whole group, so that the misses of a stage overlap.
template <class Keys>
void FpTree<Keys>::lookup_batch(std::span<const Key> keys, std::span<ValueOut> values,
                                std::span<Outcome> outcomes) {
  in_groups(keys, values, outcomes,
            [this](auto some, auto into, auto answers) { lookup_group(some, into, answers); });
}

template <class Keys>
void FpTree<Keys>::lookup_group(std::span<const Key> keys, std::span<ValueOut> values,
                                std::span<Outcome> outcomes) {
  const Epochs::Guard guard(*epochs_);
  std::array<typename Tree::Position, batch_group> position;
  std::array<std::uint64_t, batch_group> hash;
  std::array<std::uint64_t, batch_group> version;
  tree_->locate(keys, position);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    hash[i] = hash_of(keys[i]);
    if (position[i].leaf != nullptr)
      prefetch(*static_cast<const Leaf*>(position[i].leaf), hash[i], list_.entries());
  }
  for (std::size_t i = 0; i < keys.size(); ++i) {
    auto* const leaf = static_cast<const Leaf*>(position[i].leaf);
    if (leaf == nullptr) continue;
    version[i] = leaf->lock.peek();
    if (pm::VersionLock::is_locked(version[i]) || !Tree::holds(position[i])) {
      position[i].leaf = nullptr;
      continue;
    }
    const std::uint64_t candidates = pm::match_64(leaf->tag.data(), fingerprint_from(hash[i])) &
                                     leaf->commit.load(std::memory_order_acquire);
    if (candidates != 0)
      pm::prefetch(&leaf->record(static_cast<unsigned>(std::countr_zero(candidates))));
  }
  for (std::size_t i = 0; i < keys.size(); ++i) {
    auto* const leaf = static_cast<const Leaf*>(position[i].leaf);
    RecordWords words;
    bool found = false;
    bool stable = leaf != nullptr;
    if (stable) {
      pm::ReadAttempt validate(leaf->lock, version[i]);
      found = find_slot(*leaf, store_, keys[i], hash[i], words, validate) != no_slot;
      stable = validate();
    }
    if (!stable) found = find_record(keys[i], hash[i], words);
    outcomes[i] = found ? Outcome::ok : Outcome::not_found;
    if (found) store_.read_value(words, values[i]);
  }
}

// Without a transaction the leaf is searched first: taking the lock waits for the flushes of the
// operation before, and so hides the leaf's misses. The result is still valid because the lock is
// acquired at the version that was searched; the leaf's bounds shrink only under its lock, so it
// still covers the key.
template <class Keys>
auto FpTree<Keys>::lock_leaf(Key key, std::uint64_t hash) -> Locked {
  Locked at;
  if (elision_.run(elision_attempts, [&] {
        at.leaf = static_cast<Leaf*>(tree_->find_in_transaction(key));
        prefetch_for_write(*at.leaf, hash, list_.entries());
        at.leaf->lock.lock_in_transaction();
      })) {
    prefetch_free_slot(*at.leaf, hash);
    at.slot = find_slot(*at.leaf, store_, key, hash, at.found, [] { return true; });
    return at;
  }
  for (pm::Backoff backoff;; backoff.wait()) {
    const Entered entered = tree_->find(key, [&](void* found) {
      auto* const leaf = static_cast<Leaf*>(found);
      prefetch_for_write(*leaf, hash, list_.entries());
      return Entered{leaf, leaf->lock.read_begin()};
    });
    at.leaf = entered.leaf;
    prefetch_free_slot(*at.leaf, hash);
    pm::ReadAttempt stable(at.leaf->lock, entered.version);
    at.slot = find_slot(*at.leaf, store_, key, hash, at.found, stable);
    if (stable() && at.leaf->lock.try_upgrade(entered.version)) return at;
  }
}

/// Prefetches the line that a new record would take, beside the miss of an old record elsewhere.
template <class Keys>
void FpTree<Keys>::prefetch_free_slot(const Leaf& leaf, std::uint64_t hash) const noexcept {
  const std::uint64_t free = ~leaf.commit.load(std::memory_order_relaxed) & list_.full();
  if (free != 0) pm::prefetch_for_write(&leaf.record(choose_slot(free, hash, list_.entries())));
}

template <class Keys>
Outcome FpTree<Keys>::put(Key key, Value value, Put kind) {
  if (!store_.within_limits(key, value) || !pool_.ready()) return Outcome::invalid;
  return with_room(*epochs_, [&] { return try_put(key, value, kind); });
}

template <class Keys>
Outcome FpTree<Keys>::try_put(Key key, Value value, Put kind) {
  const Epochs::Guard guard(*epochs_);
  const std::uint64_t hash = hash_of(key);
  Locked at = lock_leaf(key, hash);
  Leaf& leaf = *at.leaf;
  unsigned old = at.slot;
  if (is_refused(kind, old != no_slot)) {
    leaf.lock.unlock_unchanged();
    return refusal(old != no_slot);
  }
  typename LeafList<Keys>::Draft draft;
  if (!store_.draft(key, value, draft)) {
    leaf.lock.unlock_unchanged();
    return Outcome::out_of_space;
  }
  const auto replace_in_place = [&] {
    list_.replace(leaf, draft, old);
    leaf.lock.unlock();
    store_.retire(at.found);
    return Outcome::ok;
  };
  if (old != no_slot && update_in_place_) return replace_in_place();
  Leaf* target = &leaf;
  if (leaf.commit.load(std::memory_order_relaxed) == list_.full()) {
    Key separator{};
    Leaf* const right = list_.split(leaf, separator);
    if (right == nullptr) {
      // A value needs no second slot: without room for one it is replaced in its own.
      if (old != no_slot) return replace_in_place();
      store_.cancel(draft);
      leaf.lock.unlock_unchanged();
      return Outcome::out_of_space;
    }
    // Locked, because it is reached through the tree before this write is durable.
    [[maybe_unused]] const bool locked = right->lock.try_lock();
    PERDURE_ASSERT(locked);
    tree_->insert(separator, right);
    Leaf* other = right;
    if (!(key < separator)) std::swap(target, other);
    other->lock.unlock();
    if (old != no_slot) old = find_slot(*target, store_, key, hash, at.found, [] { return true; });
  }
  list_.put(*target, draft, hash, old);
  target->lock.unlock();  // L7: after the fence
  if (old != no_slot) store_.retire(at.found);
  return Outcome::ok;
}

template <class Keys>
Outcome FpTree<Keys>::remove(Key key) {
  if (!store_.within_limits(key, {})) return Outcome::not_found;
  if (!pool_.ready()) return Outcome::invalid;
  return with_room(*epochs_, [&] { return try_remove(key); });
}

template <class Keys>
Outcome FpTree<Keys>::try_remove(Key key) {
  const Epochs::Guard guard(*epochs_);
  const std::uint64_t hash = hash_of(key);
  const Locked at = lock_leaf(key, hash);
  Leaf& leaf = *at.leaf;
  if (at.slot == no_slot) {
    leaf.lock.unlock_unchanged();
    return Outcome::not_found;
  }
  list_.erase(leaf, at.slot);
  if (leaf.commit.load(std::memory_order_relaxed) == 0 && &leaf != list_.head())
    drop_leaf(leaf, key);
  else
    leaf.lock.unlock();
  store_.retire(at.found);
  return Outcome::ok;
}

// Unlinks an empty leaf that we hold, takes it out of the tree and retires it (L6). Whoever splits
// the left neighbour holds that one's lock until the new leaf is in list and tree: so with the lock
// of the leaf that the tree names as the left neighbour, `next` says whether it still is (L9).
template <class Keys>
void FpTree<Keys>::drop_leaf(Leaf& leaf, Key key) {
  for (pm::Backoff backoff;; backoff.wait()) {
    auto* const previous = static_cast<Leaf*>(tree_->find_previous(key));
    PERDURE_ASSERT(previous != nullptr);
    if (!previous->lock.lock()) continue;
    if (list_.next_of(*previous) != &leaf) {
      previous->lock.unlock_unchanged();
      continue;
    }
    list_.unlink(*previous, leaf);
    tree_->remove(key, &leaf);
    previous->lock.unlock();
    leaf.lock.unlock_obsolete();
    epochs_->retire(pool_.heap(), pool_.offset_of(&leaf), leaf_bytes(list_.entries()));
    return;
  }
}

template <class Keys>
auto FpTree<Keys>::enter_for_scan(Key key) const -> Entered {
  return tree_->find(key, [&](void* found) {
    auto* const leaf = static_cast<Leaf*>(found);
    prefetch_records(*leaf, list_.entries());
    return Entered{leaf, leaf->lock.read_begin()};
  });
}

// Leaf by leaf along the list, each copied at one version. A leaf that changed under the copy, or
// was unlinked, is found again from the last key returned.
template <class Keys>
std::size_t FpTree<Keys>::scan(Key from, std::size_t count, Scan& out) {
  out.clear();
  if (count == 0) return 0;
  const Epochs::Guard guard(*epochs_);
  LeafCopy copy;
  Key bound = from;
  bool beyond = false;  // records above `bound` only, not at it
  pm::Backoff backoff;
  for (Entered at = enter_for_scan(bound);;) {
    const std::uint64_t commit = at.leaf->commit.load(std::memory_order_acquire);
    const Leaf* const next = list_.next_of(*at.leaf);
    if (next != nullptr && pm::count_bits(commit) < count - out.size())
      prefetch_records(*next, list_.entries());
    // Integer keys below the bound, and byte keys whose first bytes are, need no place in the sort.
    const std::uint64_t lowest_word = store_.key_word(bound);
    copy.count = 0;
    for (std::uint64_t left = commit; left != 0; left &= left - 1) {
      copy.words[copy.count] =
          at.leaf->record(static_cast<unsigned>(std::countr_zero(left))).load();
      copy.count += copy.words[copy.count].key >= lowest_word;
    }
    if (pm::VersionLock::is_obsolete(at.version) || !at.leaf->lock.validate(at.version)) {
      backoff.wait();
      at = enter_for_scan(bound);
      continue;
    }
    sort_by_key(copy, store_);
    unsigned r = 0;
    for (; r < copy.count; ++r) {
      const Key key = store_.key_of(copy.words[copy.order[r]]);
      if (beyond ? bound < key : !(key < bound)) break;
    }
    const auto end =
        static_cast<unsigned>(std::min<std::size_t>(copy.count, r + count - out.size()));
    if (r < end) {
      for (; r < end; ++r) store_.append(copy.words[copy.order[r]], out);
      bound = store_.key_of(copy.words[copy.order[end - 1]]);
      beyond = true;
    }
    if (out.size() == count || next == nullptr) return out.size();
    at = {const_cast<Leaf*>(next), next->lock.read_begin()};
  }
}

template <class Keys>
Result<void> FpTree<Keys>::bulk_load(std::span<const Record> records) {
  if (!pool_.ready())
    return Error{ErrorCode::usage, "the pool is not ready", "bulk load", "recover all its roots"};
  auto leaves = list_.load(records, threads_);
  if (!leaves) return leaves.error();
  build(*leaves);
  return {};
}

template <class Keys>
Result<void> FpTree<Keys>::check_invariants() const {
  epochs_->drain();
  std::uint64_t blocks = 1;  // the root
  const Leaf* expected = list_.head();
  Result<void> walked =
      tree_->check([&](void* found, const Key* low, const Key* high) -> Result<void> {
        const auto& leaf = *static_cast<const Leaf*>(found);
        if (&leaf != expected) return list_.broken("F1: the tree and the list disagree", leaf);
        expected = list_.next_of(leaf);
        return check_leaf(leaf, low, high, blocks);
      });
  if (!walked) return walked;
  if (expected != nullptr) return list_.broken("F1: a leaf is in the list alone", *expected);
  if (pool_.roots().size() == 1 && pool_.heap().usage().live_blocks != blocks)
    return Error{ErrorCode::corrupt,
                 "the heap holds " + std::to_string(pool_.heap().usage().live_blocks) +
                     " blocks, the index reaches " + std::to_string(blocks),
                 pool_.path(), "reopen the pool: recovery frees what is not reached"};
  return {};
}

template <class Keys>
Result<void> FpTree<Keys>::check_leaf(const Leaf& leaf, const Key* low, const Key* high,
                                      std::uint64_t& blocks) const {
  const std::uint64_t commit = leaf.commit.load(std::memory_order_acquire);
  ++blocks;
  if ((commit & ~list_.full()) != 0) return list_.broken("L1: more records than slots", leaf);
  if (commit == 0 && &leaf != list_.head()) return list_.broken("L6: an empty leaf", leaf);
  if ((leaf.lock.peek() & (pm::VersionLock::locked_bit | pm::VersionLock::obsolete_bit)) != 0)
    return list_.broken("L7: locked at rest", leaf);
  LeafCopy copy;
  for (std::uint64_t left = commit; left != 0; left &= left - 1) {
    const auto slot = static_cast<unsigned>(std::countr_zero(left));
    const RecordWords words = leaf.record(slot).load();
    if (Result<void> sane = store_.check(words); !sane) return sane;
    const Key key = store_.key_of(words);
    if (leaf.tag[slot] != fingerprint_of(key))
      return list_.broken("L3: a fingerprint does not match its key", leaf);
    // Bounds of neighbours meet, so this is L5 as well.
    if ((low != nullptr && key < *low) || (high != nullptr && !(key < *high)))
      return list_.broken("F2, L5: a key outside its leaf's bounds", leaf);
    copy.words[copy.count++] = words;
    blocks += RecordStore<Keys>::has_blobs;
  }
  sort_by_key(copy, store_);
  for (unsigned r = 1; r < copy.count; ++r)
    if (!store_.less(copy.words[copy.order[r - 1]], copy.words[copy.order[r]]))
      return list_.broken("L4: a key is there twice", leaf);
  return {};
}

template class FpTree<IntegerKeys>;
template class FpTree<ByteKeys>;

}  // namespace perdure::fptree
