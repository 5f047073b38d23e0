// The changing half of BTreeOlc: insert, update, remove, bulk load.
#include <new>
#include <vector>

#include "index/btreeolc/btreeolc.h"
#include "index/common/bulk_check.h"

namespace perdure {

template <class Keys>
auto BTreeOlc<Keys>::lock_leaf(Key key) const -> Leaf& {
  for (pm::Backoff backoff;; backoff.wait()) {
    const Entered at = enter(key);
    if (at.leaf->lock.try_upgrade(at.word)) return *at.leaf;
  }
}

template <class Keys>
auto BTreeOlc<Keys>::make_entry(Key key, Value value) -> Entry {
  if constexpr (is_bytes)
    return {key_word(key), reinterpret_cast<std::uint64_t>(TextRecord::make(arena_, key, value))};
  else
    return {key, value};
}

// Only memory can fail, and then nothing has changed.
template <class Keys>
Outcome BTreeOlc<Keys>::put(Key key, Value value, Put kind) {
  if (!within_limits(key, value)) return Outcome::invalid;
  const Epochs::Guard guard(epochs_);
  Leaf& leaf = lock_leaf(key);
  const LeafPosition position = search(leaf, key, [] { return true; });
  if (is_refused(kind, position.present)) {
    leaf.lock.unlock_unchanged();
    return refusal(position.present);
  }
  Entry entry;
  Leaf* right = nullptr;
  try {
    if (!position.present && leaf.count() == Leaf::entries) right = new_leaf();
    entry = make_entry(key, value);
  } catch (const std::bad_alloc&) {
    if (right != nullptr) arena_.free(right, sizeof *right);
    leaf.lock.unlock_unchanged();
    return Outcome::out_of_space;
  }
  if (position.present) {
    const Entry old{entry.key, leaf.exchange(position.rank, entry.word)};
    if constexpr (is_bytes) retire(text_of(old), text_of(old)->bytes());
  } else if (right == nullptr) {
    leaf.insert_at(position.rank, entry);
  } else {
    split(leaf, *right, position.rank, entry);
  }
  leaf.lock.unlock();
  return Outcome::ok;
}

// In the middle, or, where keys come in ascending order, after the last. The right half is whole
// before anything leads to it.
template <class Keys>
void BTreeOlc<Keys>::split(Leaf& leaf, Leaf& right, unsigned rank, Entry added) {
  const bool ascending = leaf.next() == nullptr && rank == Leaf::entries;
  const unsigned middle = ascending ? Leaf::entries : Leaf::entries / 2;
  leaf.split(middle, right);
  if (rank > middle || ascending)
    right.insert_at(rank - middle, added);
  else
    leaf.insert_at(rank, added);
  right.set_next(leaf.next());
  leaf.set_next(&right);
  inner_.insert(key_of(right.entry(0)), &right);
}

template <class Keys>
Outcome BTreeOlc<Keys>::remove(Key key) {
  if (!within_limits(key, Value{})) return Outcome::not_found;
  const Epochs::Guard guard(epochs_);
  for (pm::Backoff backoff;; backoff.wait()) {
    Leaf& leaf = lock_leaf(key);
    const LeafPosition position = search(leaf, key, [] { return true; });
    if (!position.present) {
      leaf.lock.unlock_unchanged();
      return Outcome::not_found;
    }
    const Entry old = leaf.entry(position.rank);
    if (leaf.count() == 1 && &leaf != first_) {
      if (!try_unlink(key, leaf)) {
        leaf.lock.unlock_unchanged();
        continue;
      }
    } else {
      leaf.remove_at(position.rank);
      leaf.lock.unlock();
    }
    if constexpr (is_bytes) retire(text_of(old), text_of(old)->bytes());
    return Outcome::ok;
  }
}

// Takes a locked leaf away with its last record, and releases it. False: a neighbour is being
// changed (T4). The leaf before is the right one when it leads to this one.
template <class Keys>
bool BTreeOlc<Keys>::try_unlink(Key key, Leaf& leaf) {
  auto* const previous = static_cast<Leaf*>(inner_.find_previous(key));
  if (previous == nullptr || !previous->lock.try_lock()) return false;
  if (previous->next() != &leaf) {
    previous->lock.unlock_unchanged();
    return false;
  }
  inner_.remove(key, &leaf);
  previous->set_next(leaf.next());
  previous->lock.unlock();
  leaf.lock.unlock_obsolete();
  retire(&leaf, sizeof leaf);
  return true;
}

template <class Keys>
void BTreeOlc<Keys>::retire(const void* object, std::size_t bytes) {
  epochs_.retire(reinterpret_cast<std::uint64_t>(object), bytes, StripedArena::destroy, &arena_);
}

template <class Keys>
Result<void> BTreeOlc<Keys>::bulk_load(std::span<const Record> records) {
  if (auto refusal = bulk_load_refusal(size() == 0, records)) return std::move(*refusal);
  if (records.empty()) return {};
  constexpr std::size_t fill = Leaf::entries * 4 / 5;  // room before the first splits
  std::vector<typename InnerTree<Keys>::Child> children;
  try {
    children.reserve(records.size() / fill + 1);
    for (std::size_t i = 0; i < records.size(); ++i) {
      if (i % fill == 0) {
        Leaf* const leaf = i == 0 ? first_ : new_leaf();
        if (i != 0) static_cast<Leaf*>(children.back().leaf)->set_next(leaf);
        children.push_back({records[i].key, leaf});
      }
      auto& leaf = *static_cast<Leaf*>(children.back().leaf);
      leaf.insert_at(leaf.count(), make_entry(records[i].key, records[i].value));
    }
    inner_.build(children);
  } catch (const std::bad_alloc&) {
    for (auto& child : children) {
      auto* const leaf = static_cast<Leaf*>(child.leaf);
      free_texts(*leaf);
      if (leaf != first_) arena_.free(leaf, sizeof *leaf);
    }
    while (first_->count() > 0) first_->remove_at(0);
    first_->set_next(nullptr);
    return Error{ErrorCode::out_of_space, "no memory for the records", "bulk load",
                 "load fewer records"};
  }
  return {};
}

template <class Keys>
void BTreeOlc<Keys>::free_texts(const Leaf& leaf) noexcept {
  if constexpr (is_bytes)
    for (unsigned i = 0; i < leaf.count(); ++i) TextRecord::free(arena_, text_of(leaf.entry(i)));
}

template Outcome BTreeOlc<IntegerKeys>::put(Key, Value, Put);
template Outcome BTreeOlc<ByteKeys>::put(Key, Value, Put);
template Outcome BTreeOlc<IntegerKeys>::remove(Key);
template Outcome BTreeOlc<ByteKeys>::remove(Key);
template Result<void> BTreeOlc<IntegerKeys>::bulk_load(std::span<const Record>);
template Result<void> BTreeOlc<ByteKeys>::bulk_load(std::span<const Record>);

}  // namespace perdure
