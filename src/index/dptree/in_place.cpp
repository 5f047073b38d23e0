#include "index/dptree/in_place.h"

#include <algorithm>

namespace perdure::dptree {

// False: the tree has no entry of the key. Cost of a removal: 1 flushed line, 1 fence.
template <class Keys>
bool InPlace<Keys>::turn_to_removal(Tree& tree, Key key, Outcome& outcome) {
  const auto position = tree.lock(key);
  if (!position.found.is_put()) {
    tree.release(position);
    outcome = Outcome::not_found;
    return position.found.any();
  }
  LogRecord& record = *tree.record_of(position.found.word);
  const RecordWords words = record.words();
  pm::store_persist(record.check, record.check_of_removal(tree.seal()));  // G2
  tree.discard(words.value, words.key);
  tree.set(position, key, position.found.word | Tree::removal_bit);
  tree.unlock(position);
  outcome = Outcome::ok;
  return true;
}

// False: the tree's log has no record of a change of the key that failed. Cost: 1 flushed line, 1
// fence.
template <class Keys>
bool InPlace<Keys>::turn_failed_to_removal(Tree& tree, Key key, std::uint64_t hash) {
  const auto position = tree.lock(key);
  if (!position.found.has_failed()) {
    tree.release(position);
    return false;
  }
  LogRecord& record = *tree.record_of(position.found.word);
  pm::store_persist(record.check, record.check_of_removal(tree.seal()));  // G2
  tree.set_removal(position, hash);
  tree.unlock(position);
  return true;
}

// Readers of the base tree are held off until the bit is durably gone, because they read it
// without a lock.
template <class Keys>
void InPlace<Keys>::clear_in_base(const BaseRecord& place) noexcept {
  std::atomic<std::uint64_t>& bits = place.view.set(place.which).bitmap[place.slot / 64];
  {
    const typename CurrentSnapshot<Keys>::ReadersHeldOff alone(parts_.current);
    const std::uint64_t bit = std::uint64_t{1} << place.slot % 64;
    pm::store_persist(bits, bits.load(std::memory_order_relaxed) & ~bit);
  }
  leftovers_.count_removed(1);
  if (place.view.records(place.which) == 0) leftovers_.set_empty_leaf(true);
}

/// The value word of the log record that a tree's entry leads to.
template <class Keys>
std::uint64_t InPlace<Keys>::logged_value(const Tree& tree, Key key, std::uint64_t hash) const {
  return tree.record_of(tree.find(key, hash).word)->words().value;
}

// What is removed from the middle tree and not left over goes from the base tree, too (D4), its
// blob with the log. What failed in a log must not count when the key is gone below (G6); in the
// front log that is a removal enough.
template <class Keys>
Outcome InPlace<Keys>::remove_alone(Key key, std::uint64_t hash) {
  const Snapshot<Keys>& trees = parts_.snapshot();
  Outcome outcome = Outcome::not_found;
  if (turn_to_removal(*trees.front, key, outcome)) return outcome;
  if (parts_.is_below(trees, key, hash) && turn_failed_to_removal(*trees.front, key, hash))
    return Outcome::ok;
  const bool in_middle = trees.middle != nullptr && turn_to_removal(*trees.middle, key, outcome);
  const auto place = find_in_base(key, hash);
  if (in_middle) {
    const std::uint64_t value = logged_value(*trees.middle, key, hash);
    if (outcome == Outcome::ok && place && place->words.value == value) clear_in_base(*place);
    return outcome;
  }
  if (!place) return outcome;
  const bool is_logged = trees.middle != nullptr &&
                         turn_failed_to_removal(*trees.middle, key, hash) &&
                         logged_value(*trees.middle, key, hash) == place->words.value;
  clear_in_base(*place);
  if (is_logged)
    trees.middle->discard(place->words.value, place->words.key);  // D5
  else
    parts_.records.retire(place->words);
  return Outcome::ok;
}

// A removal brings the next merge nearer, which may find room.
template <class Keys>
Outcome InPlace<Keys>::remove(Key key, std::uint64_t hash) {
  const pm::LockGuard merging(parts_.merging);
  Outcome outcome = Outcome::not_found;
  {
    const pm::AsymmetricLock::WriteGuard alone(parts_.writers);
    const Epochs::Guard guard(parts_.epochs);
    outcome = remove_alone(key, hash);
  }
  constexpr std::uint64_t fewest = 64;
  constexpr std::uint64_t read_per_removal = 64;  // by the next merge
  const std::uint64_t read = leftovers_.records().size() + parts_.snapshot().base->size();
  leftovers_.set_requests_at_most(std::max(fewest, read / read_per_removal));
  return outcome;
}

// Power-cut states: the old value, or the new one. Cost: 1 flushed line, 1 fence; byte strings the
// blob's lines, and one flush and fence more. R2, G2.
template <class Keys>
void InPlace<Keys>::replace_in_log(const Tree& tree, LogRecord& record, Draft& draft) noexcept {
  const bool in_other = !record.is_in_other();
  std::atomic<std::uint64_t>& into = in_other ? record.other : record.value;
  const std::uint64_t check =
      LogRecord::check_of(draft.words, tree.seal(), record.change(), in_other);
  into.store(draft.words.value, std::memory_order_release);
  if constexpr (RecordStore<Keys>::has_blobs) {
    pm::persist(&into, sizeof into);  // libpmemobj sets the check word by a log of its own
    parts_.heap.publish({&draft.block, 1}, &record.check, check);
  } else {
    pm::store_persist(record.check, check);
  }
}

/// The value of a record of the base tree. Power-cut states: the old value, or the new one.
template <class Keys>
void InPlace<Keys>::replace_in_base(const BaseRecord& place, Draft& draft) noexcept {
  std::atomic<std::uint64_t>& value = place.view.record(place.slot).value;
  if constexpr (RecordStore<Keys>::has_blobs)
    parts_.heap.publish({&draft.block, 1}, &value, draft.words.value);
  else
    pm::store_persist(value, draft.words.value);
}

// What the middle tree has goes first there, because recovery merges it again; then in the base
// tree, where a merge that left something over has put it (D4), and which no thread reads in
// between. The old blob may be below, too, where recovery or a merge has put one record into two
// trees: then it goes with the tree, whose merge takes it from below. Else nothing leads to it any
// more.
template <class Keys>
Outcome InPlace<Keys>::replace_alone(Key key, std::uint64_t hash, Draft& draft, Outcome absent) {
  using Found = typename Tree::Found;
  const Snapshot<Keys>& trees = parts_.snapshot();
  const auto place = find_in_base(key, hash);
  const Found middle = trees.middle == nullptr ? Found{} : trees.middle->find(key, hash);
  const auto middle_leads_to = [&](std::uint64_t value) {
    return middle.word != 0 && trees.middle->record_of(middle.word)->words().value == value;
  };
  if (const Found front = trees.front->find(key, hash); front.any()) {
    if (!front.is_put()) return absent;
    LogRecord& record = *trees.front->record_of(front.word);
    const RecordWords old = record.words();
    replace_in_log(*trees.front, record, draft);
    if (middle_leads_to(old.value) || (place && place->words.value == old.value))
      trees.front->discard(old.value, old.key);
    else
      parts_.records.retire(old);
    return Outcome::ok;
  }
  if (middle.any()) {
    if (!middle.is_put()) return absent;
    LogRecord& record = *trees.middle->record_of(middle.word);
    const RecordWords old = record.words();
    replace_in_log(*trees.middle, record, draft);
    if (place && place->words.value == old.value)
      pm::store_persist(place->view.record(place->slot).value, draft.words.value);
    parts_.records.retire(old);
    return Outcome::ok;
  }
  if (!place) return absent;
  replace_in_base(*place, draft);
  if (middle_leads_to(place->words.value))
    trees.middle->discard(place->words.value, place->words.key);  // D5
  else
    parts_.records.retire(place->words);
  return Outcome::ok;
}

template <class Keys>
Outcome InPlace<Keys>::replace(Key key, Value value, std::uint64_t hash, Outcome absent,
                               Block block, bool& lacks_blob) {
  Draft draft;
  lacks_blob = !parts_.records.draft(key, value, draft, block);
  if (lacks_blob) return Outcome::out_of_space;
  Outcome outcome = absent;
  {
    const pm::LockGuard merging(parts_.merging);
    const pm::AsymmetricLock::WriteGuard alone(parts_.writers);
    const Epochs::Guard guard(parts_.epochs);
    const typename CurrentSnapshot<Keys>::ReadersHeldOff unread(parts_.current);  // D3
    outcome = replace_alone(key, hash, draft, absent);
  }
  if (outcome != Outcome::ok) parts_.records.cancel(draft);
  return outcome;
}

template class InPlace<IntegerKeys>;
template class InPlace<ByteKeys>;

}  // namespace perdure::dptree
