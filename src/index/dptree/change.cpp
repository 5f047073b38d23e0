// The changing half of DPTree: insert, upsert, update, remove. An entry of the front tree, then its
// log record, both before the leaf is unlocked.
#include "index/common/with_room.h"
#include "index/dptree/dptree.h"

namespace perdure {

using dptree::Change;
using dptree::LogRecord;

// Power-cut states: without the change, or with it. Cost: 1 flushed line and 1 fence; byte strings
// the blob's lines more. R2: the lock of the log's part, a locked instruction, comes after the
// flushes of the blob and before this, so the blob is durable.
template <class Keys>
void DpTree<Keys>::log_put(LogRecord& record, Draft& draft, std::uint64_t seal,
                           Change change) noexcept {
  const RecordWords words = draft.words;
  const std::uint64_t check = LogRecord::check_of(words, seal, change);
  record.key.store(words.key, std::memory_order_release);  // D3
  record.value.store(words.value, std::memory_order_release);
  if constexpr (RecordStore<Keys>::has_blobs)
    heap_.publish({&draft.block, 1}, &record.check, check);
  else
    pm::store_persist(record.check, check);  // G2: one line holds all three words
}

// What lies below the front tree is prefetched before the leaf is locked, and read before that
// where it must be: the lock is taken with a locked instruction, which waits until the change
// before this one has drained, and until all loads before it have come. The front tree's filter
// says whether what lies below can be the answer; there nothing is changed while this thread is a
// writer (D2), merges keep what there is. A change that the base tree decides may be speculative.
template <class Keys>
inline auto DpTree<Keys>::lock_target(Buffer& front, Key key, std::uint64_t hash, Ask ask,
                                      Expect expected) -> Target {
  Target target;
  front.prefetch_for_change(hash);
  if (ask == Ask::nothing) {
    target.position = front.lock(key);
  } else {
    const Snapshot& trees = prefetch_filters(hash);
    const auto way = trees.base->approach(key);
    way.prefetch();
    const auto entered = front.enter(key);
    const Aim aim = aim_at(trees, trees.base->find(key, way).leaf, hash, expected);
    const bool is_ahead = !front.may_have(hash);
    if (is_ahead) {
      target.is_speculative = ask == Ask::buffers && base_decides(aim, hash);
      target.aim = aim;
      target.present = target.is_speculative || find_below_front(aim, key, hash, target.below);
    }
    target.position = front.lock(key, entered);
    if (!is_ahead && !target.position.found.any())
      target.present = find_below_front(aim_at(key, hash), key, hash, target.below);
  }
  if (target.position.found.any()) {
    target.present = target.position.found.is_put();
    target.is_speculative = false;
  }
  return target;
}

template <class Keys>
inline bool DpTree<Keys>::base_decides(const Aim& aim, std::uint64_t hash) noexcept {
  const Buffer* const middle = aim.trees->middle;
  return aim.has_leaf() && (middle == nullptr || !middle->may_have(hash));
}

// The first and the last suspect are compared, whatever one comes to: without a branch on what is
// not in the cache yet. Where there is none, a record that is nobody's is, which is in the cache.
template <class Keys>
inline bool DpTree<Keys>::is_confirmed(const Aim& aim, Key key, std::uint64_t hash) const {
  static constinit const LeafRecord nobodys{};
  const LeafView view = leaf_at(aim.leaf);
  const unsigned which = aim.leaf.which();
  const LeafView::Suspects suspects = view.suspects(which, hash);
  const auto matches = [&](unsigned suspect) {
    const unsigned slot = suspects.any ? suspect : 0;
    const LeafRecord& record = suspects.any ? view.record(slot) : nobodys;
    const unsigned same = records_.matches(record.load(), key) ? 1 : 0;
    return same & (suspects.any ? 1U : 0U) & (view.set(which).has(slot) ? 1U : 0U);
  };
  bool found = false;
  if (!RecordStore<Keys>::has_blobs || suspects.any)
    found = (matches(suspects.first) | matches(suspects.last)) != 0;
  if (suspects.others) found = found || find_in_leaf(view, which, key, hash).has_value();
  if (current_.is_whole(*aim.trees)) return found;
  RecordWords words;
  return find_below_front(aim_at(key, hash), key, hash, words);
}

/// A slot for the log record of a change, which is counted; null: the log has no room. The position
/// is ready for its entry then.
template <class Keys>
inline LogRecord* DpTree<Keys>::take_slot(Buffer& front, typename Buffer::Position& position,
                                          Key key, std::uint64_t hash, std::uint64_t blob_bytes) {
  front.make_room(position, key);
  LogRecord* const record = front.take_slot(hash, !position.found.any(), blob_bytes);
  if (record == nullptr) front.unlock(position);
  return record;
}

template <class Keys>
inline auto DpTree<Keys>::what_to_ask(Put kind) const noexcept -> Ask {
  if (kind == Put::upsert) return Ask::nothing;
  return presumed_[static_cast<std::size_t>(kind)].load(std::memory_order_relaxed) ? Ask::buffers
                                                                                   : Ask::all;
}

template <class Keys>
inline void DpTree<Keys>::presume(Put kind, bool succeeds) noexcept {
  std::atomic<bool>& presumed = presumed_[static_cast<std::size_t>(kind)];
  if (presumed.load(std::memory_order_relaxed) != succeeds)
    presumed.store(succeeds, std::memory_order_relaxed);
}

template <class Keys>
inline Outcome DpTree<Keys>::try_put(Key key, Value value, std::uint64_t hash, Put kind,
                                     bool& needs_maintenance) {
  const pm::AsymmetricLock::ReadGuard writing(writers_);
  const Epochs::Guard guard(epochs_);
  Buffer& front = *snapshot().front;
  const Outcome otherwise = kind == Put::insert ? Outcome::exists : Outcome::not_found;
  const auto is_against = [&](bool present) {
    return kind != Put::upsert && present == (kind == Put::insert);
  };
  Target target = lock_target(front, key, hash, what_to_ask(kind),
                              kind == Put::update ? Expect::record : Expect::none);
  auto& position = target.position;
  if (!target.is_speculative && is_against(target.present)) {
    front.release(position);
    presume(kind, false);
    return otherwise;
  }
  Draft draft;
  LogRecord* record = nullptr;
  if (records_.draft(key, value, draft)) {
    std::uint64_t blob_bytes = 0;
    if constexpr (RecordStore<Keys>::has_blobs) blob_bytes = draft.block.bytes;
    record = take_slot(front, position, key, hash, blob_bytes);
    if (record == nullptr) records_.cancel(draft);
  } else {
    front.release(position);
  }
  if (record == nullptr) {
    const bool knows_better =
        target.is_speculative && is_against(is_confirmed(target.aim, key, hash));
    return knows_better ? otherwise : Outcome::out_of_space;
  }
  front.set(position, key, pool_.offset_of(record));
  constexpr std::array speculative{Change::insert, Change::put, Change::update};  // by `Put`
  log_put(*record, draft, front.seal(),
          target.is_speculative ? speculative[static_cast<std::size_t>(kind)] : Change::put);
  needs_maintenance = may_need_maintenance(front, hash);
  if (target.is_speculative && is_against(is_confirmed(target.aim, key, hash))) {
    front.discard(draft.words.value, draft.words.key);
    front.set_nothing(position, hash);
    front.unlock(position);
    presume(kind, false);
    return otherwise;
  }
  presume(kind, true);
  if constexpr (RecordStore<Keys>::has_blobs)
    if (position.found.is_put()) {
      const RecordWords old = front.record_of(position.found.word)->words();
      front.discard(old.value, old.key);
    }
  front.unlock(position);
  return Outcome::ok;
}

/// Calls visit(key) for the keys of a buffer tree that a base leaf covers, until it says no.
template <class Keys>
template <class Visit>
void DpTree<Keys>::each_pending(const Buffer& tree, const BaseMap& base, std::size_t leaf,
                                Visit&& visit) {
  Key from = base.separator(leaf);
  typename Buffer::Batch batch;
  for (bool inclusive = true;; inclusive = false) {
    tree.collect(from, inclusive, tree.reenter(from), batch);
    if (batch.count == 0) return;
    for (unsigned i = 0; i < batch.count; ++i) {
      from = tree.key_of(batch.entry[i]);
      if (leaf + 1 != base.size() && !(from < base.separator(leaf + 1))) return;
      if (typename Buffer::Found{batch.entry[i].word}.is_put() && !visit(from)) return;
    }
  }
}

/// How many keys that were logged may need a slot of a base leaf; `most` if it is not fewer. With
/// `exact` those do not count that have one, which takes a search for each.
template <class Keys>
std::size_t DpTree<Keys>::pending_in(const Snapshot& trees, dptree::LeafPlace place,
                                     std::size_t most, bool exact) const {
  const LeafView view = leaf_at(place.leaf);
  std::size_t count = 0;
  for (const Buffer* tree : {trees.front, trees.middle})
    if (tree != nullptr && count < most)
      each_pending(*tree, *trees.base, place.number, [&](Key key) {
        if (!exact || !find_in_leaf(view, place.leaf.which(), key, hash_of(key))) ++count;
        return count < most;
      });
  return count;
}

/// Whether this key is new, and its base leaf must be split for it, which no other key has claimed.
template <class Keys>
bool DpTree<Keys>::needs_split(Key key, std::uint64_t hash) const {
  constexpr std::size_t most_for_one_claim = 16;
  const Epochs::Guard guard(epochs_);
  const Snapshot& trees = snapshot();
  const dptree::LeafPlace place = trees.base->find(key);
  if (place.leaf.offset() == null_offset) return false;
  const std::size_t room = leaf_at(place.leaf).room(place.leaf.which());
  if (pending_in(trees, place, room, false) < room) return false;
  const std::size_t most = room + most_for_one_claim;
  const std::size_t pending = pending_in(trees, place, most, true);
  if (pending < room) return false;
  if (pending > room && pending < most && spare_.covers_claims()) return false;
  RecordWords found;
  return !find_pinned(key, hash, found);
}

/// False: the heap has no room for the leaves, retired blocks included that nobody looks at.
template <class Keys>
bool DpTree<Keys>::claim_split() {
  const auto claim = [&] { return spare_.claim() ? Outcome::ok : Outcome::out_of_space; };
  return with_room(epochs_, claim) == Outcome::ok;
}

template <class Keys>
Outcome DpTree<Keys>::put(Key key, Value value, Put kind) {
  if (!RecordStore<Keys>::within_limits(key, value) || !pool_.ready()) return Outcome::invalid;
  constexpr unsigned most_merges_for_a_blob = 4;
  const std::uint64_t hash = hash_of(key);
  for (unsigned merges_for_a_blob = 0;;) {
    const std::uint64_t merges = retired_.merges();
    const bool claims = spare_.are_scarce() && kind != Put::update && needs_split(key, hash);
    if (claims && !claim_split()) [[unlikely]] {
      if (make_room(merges)) continue;
      return Outcome::out_of_space;
    }
    bool needs_maintenance = false;
    const Outcome outcome = try_put(key, value, hash, kind, needs_maintenance);
    if (claims && outcome != Outcome::ok) [[unlikely]]
      spare_.unclaim();
    if (needs_maintenance) merge_if_full();
    if (outcome != Outcome::out_of_space) return outcome;
    if (make_room(merges)) continue;
    if (kind == Put::insert) return outcome;
    bool lacks_blob = false;
    const auto replace = [&](Block block) {
      const auto attempt = [&] {
        return replace_in_place(key, value, hash, kind, block, lacks_blob);
      };
      return with_room(epochs_, attempt);
    };
    const Outcome replaced = replace(Block::fitting);
    if (replaced != Outcome::out_of_space || !lacks_blob) return replaced;
    if (++merges_for_a_blob > most_merges_for_a_blob) return replace(Block::any);
    leftovers_.set_requests(0);  // a merge frees blobs that logs mention (D5)
    if (!make_room(retired_.merges())) return replace(Block::any);
  }
}

// A byte string's removal leads to the blob that goes, which has the key and stays as long as the
// log does (D5): so a removal needs no room but its slot.
template <class Keys>
Outcome DpTree<Keys>::try_remove(Key key, std::uint64_t hash, bool& needs_maintenance) {
  const pm::AsymmetricLock::ReadGuard writing(writers_);
  const Epochs::Guard guard(epochs_);
  Buffer& front = *snapshot().front;
  Target target = lock_target(front, key, hash, Ask::all, Expect::record);
  auto& position = target.position;
  if (!target.present) {
    front.release(position);
    return Outcome::not_found;
  }
  LogRecord* const record = take_slot(front, position, key, hash, 0);
  if (record == nullptr) return Outcome::out_of_space;
  const RecordWords words =
      position.found.any() ? front.record_of(position.found.word)->words() : target.below;
  front.set(position, key, pool_.offset_of(record) | Buffer::removal_bit);
  record->key.store(words.key, std::memory_order_release);  // D3
  record->value.store(words.value, std::memory_order_release);
  pm::store_persist(record->check, LogRecord::check_of(words, front.seal(), Change::removal));
  if (position.found.is_put()) front.discard(words.value, words.key);
  front.unlock(position);
  needs_maintenance = may_need_maintenance(front, hash);
  return Outcome::ok;
}

// With no room for its record, and none to be made, a removal takes place where the record is.
template <class Keys>
Outcome DpTree<Keys>::remove(Key key) {
  if (!pool_.ready()) return Outcome::invalid;
  const std::uint64_t hash = hash_of(key);
  for (;;) {
    const std::uint64_t merges = retired_.merges();
    bool needs_maintenance = false;
    const Outcome outcome = try_remove(key, hash, needs_maintenance);
    if (needs_maintenance) merge_if_full();
    if (outcome != Outcome::out_of_space) return outcome;
    if (!make_room(merges)) return remove_in_place(key, hash);
  }
}

// False: the tree has no entry of the key. Cost of a removal: 1 flushed line, 1 fence.
template <class Keys>
bool DpTree<Keys>::turn_to_removal(Buffer& tree, Key key, Outcome& outcome) {
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
  tree.set(position, key, position.found.word | Buffer::removal_bit);
  tree.unlock(position);
  outcome = Outcome::ok;
  return true;
}

// False: the tree's log has no record of a change of the key that failed. Cost: 1 flushed line, 1
// fence.
template <class Keys>
bool DpTree<Keys>::turn_nothing_to_removal(Buffer& tree, Key key, std::uint64_t hash) {
  const auto position = tree.lock(key);
  if (!position.found.is_nothing()) {
    tree.release(position);
    return false;
  }
  LogRecord& record = *tree.record_of(position.found.word);
  pm::store_persist(record.check, record.check_of_removal(tree.seal()));  // G2
  tree.set_removal(position, hash);
  tree.unlock(position);
  return true;
}

// Readers of the base tree are held off until the bit is durably gone, because they look at it
// without a lock.
template <class Keys>
void DpTree<Keys>::clear_in_base(const BasePlace& place) noexcept {
  dptree::LeafSet& set = place.view.set(place.which);
  std::atomic<std::uint64_t>& bits = set.bitmap[place.slot / 64];
  {
    const typename CurrentSnapshot::ReadersHeldOff alone(current_);
    const std::uint64_t bit = std::uint64_t{1} << place.slot % 64;
    pm::store_persist(bits, bits.load(std::memory_order_relaxed) & ~bit);
  }
  leftovers_.count_removed(1);
  if (place.view.records(place.which) == 0) leftovers_.set_empty_leaf(true);
}

/// The value word of the log record that a tree's entry leads to.
template <class Keys>
std::uint64_t DpTree<Keys>::logged_value(const Buffer& tree, Key key, std::uint64_t hash) const {
  return tree.record_of(tree.find(key, hash).word)->words().value;
}

// Nothing merges and nobody else changes anything meanwhile. What is removed from the middle tree
// and not left over goes from the base tree, too (D4), its blob with the log. What failed
// in a log must not count when the key is gone below (G6); in the front log that is a removal
// enough.
template <class Keys>
Outcome DpTree<Keys>::remove_in_place(Key key, std::uint64_t hash) {
  const pm::LockGuard merging(merging_);
  Outcome outcome = Outcome::not_found;
  {
    const pm::AsymmetricLock::WriteGuard alone(writers_);
    const Epochs::Guard guard(epochs_);
    const Snapshot& trees = snapshot();
    bool is_done = turn_to_removal(*trees.front, key, outcome);
    if (!is_done && is_below(trees, key, hash) &&
        turn_nothing_to_removal(*trees.front, key, hash)) {
      outcome = Outcome::ok;
      is_done = true;
    }
    if (!is_done) {
      const bool in_middle =
          trees.middle != nullptr && turn_to_removal(*trees.middle, key, outcome);
      const auto place = find_in_base(aim_at(key, hash), key, hash);
      if (in_middle) {
        const std::uint64_t value = logged_value(*trees.middle, key, hash);
        if (outcome == Outcome::ok && place && place->words.value == value) clear_in_base(*place);
      } else if (place) {
        const bool is_logged = trees.middle != nullptr &&
                               turn_nothing_to_removal(*trees.middle, key, hash) &&
                               logged_value(*trees.middle, key, hash) == place->words.value;
        clear_in_base(*place);
        if (is_logged)
          trees.middle->discard(place->words.value, place->words.key);  // D5
        else
          records_.retire(place->words);
        outcome = Outcome::ok;
      }
    }
  }
  constexpr std::uint64_t fewest = 64;
  constexpr std::uint64_t read_per_removal = 64;  // by the next merge
  const std::uint64_t read = leftovers_.records().size() + snapshot().base->size();
  leftovers_.set_requests_at_most(std::max(fewest, read / read_per_removal));
  return outcome;
}

// Power-cut states: the old value, or the new one. Cost: 1 flushed line, 1 fence; byte strings the
// blob's lines, and one flush and fence more. R2, G2. Readers are held off until it is durable.
template <class Keys>
void DpTree<Keys>::replace_in_log(const Buffer& tree, LogRecord& record, Draft& draft) noexcept {
  const bool in_other = !record.is_in_other();
  std::atomic<std::uint64_t>& into = in_other ? record.other : record.value;
  const std::uint64_t check =
      LogRecord::check_of(draft.words, tree.seal(), record.change(), in_other);
  into.store(draft.words.value, std::memory_order_release);
  if constexpr (RecordStore<Keys>::has_blobs) {
    pm::persist(&into, sizeof into);  // libpmemobj sets the check word by a log of its own
    heap_.publish({&draft.block, 1}, &record.check, check);
  } else {
    pm::store_persist(record.check, check);
  }
}

/// The value of a record of the base tree. Power-cut states: the old value, or the new one.
template <class Keys>
void DpTree<Keys>::replace_in_base(const BasePlace& place, Draft& draft) noexcept {
  std::atomic<std::uint64_t>& value = place.view.record(place.slot).value;
  if constexpr (RecordStore<Keys>::has_blobs)
    heap_.publish({&draft.block, 1}, &value, draft.words.value);
  else
    pm::store_persist(value, draft.words.value);
}

// What the middle tree has goes first there, because recovery merges it again; then in the base
// tree, where a merge that left something over has put it (D4), and which nobody asks between. The
// old blob may be below, too, where recovery or `hand_on` has put one record into two trees: then
// it goes with the tree, whose merge takes it from below. Else nobody mentions it any more.
template <class Keys>
Outcome DpTree<Keys>::replace_where_it_is(const Snapshot& trees, Key key, std::uint64_t hash,
                                          Draft& draft, Outcome absent) {
  using Found = typename Buffer::Found;
  const auto place = find_in_base(aim_at(key, hash), key, hash);
  const Found middle = trees.middle == nullptr ? Found{} : trees.middle->find(key, hash);
  const auto has_below = [&](const Found& found, std::uint64_t value) {
    return found.word != 0 && trees.middle->record_of(found.word)->words().value == value;
  };
  if (const Found front = trees.front->find(key, hash); front.any()) {
    if (!front.is_put()) return absent;
    LogRecord& record = *trees.front->record_of(front.word);
    const RecordWords old = record.words();
    replace_in_log(*trees.front, record, draft);
    if (has_below(middle, old.value) || (place && place->words.value == old.value))
      trees.front->discard(old.value, old.key);
    else
      records_.retire(old);
    return Outcome::ok;
  }
  if (middle.any()) {
    if (!middle.is_put()) return absent;
    LogRecord& record = *trees.middle->record_of(middle.word);
    const RecordWords old = record.words();
    replace_in_log(*trees.middle, record, draft);
    if (place && place->words.value == old.value)
      pm::store_persist(place->view.record(place->slot).value, draft.words.value);
    records_.retire(old);
    return Outcome::ok;
  }
  if (!place) return absent;
  replace_in_base(*place, draft);
  if (has_below(middle, place->words.value))
    trees.middle->discard(place->words.value, place->words.key);  // D5
  else
    records_.retire(place->words);
  return Outcome::ok;
}

// With no room for a log record, and none to be made, a value is replaced where it is: a value in
// the base tree, or the log record that holds it. So a full pool refuses none whose blob it has
// room for. Nothing merges and nobody else changes anything meanwhile.
template <class Keys>
Outcome DpTree<Keys>::replace_in_place(Key key, Value value, std::uint64_t hash, Put kind,
                                       Block block, bool& lacks_blob) {
  const Outcome absent = kind == Put::update ? Outcome::not_found : Outcome::out_of_space;
  Draft draft;
  lacks_blob = !records_.draft(key, value, draft, block);
  if (lacks_blob) return Outcome::out_of_space;
  Outcome outcome = absent;
  {
    const pm::LockGuard merging(merging_);
    const pm::AsymmetricLock::WriteGuard alone(writers_);
    const Epochs::Guard guard(epochs_);
    const typename CurrentSnapshot::ReadersHeldOff unread(current_);  // D3
    outcome = replace_where_it_is(snapshot(), key, hash, draft, absent);
  }
  if (outcome != Outcome::ok) records_.cancel(draft);
  return outcome;
}

template Outcome DpTree<IntegerKeys>::put(Key, Value, Put);
template Outcome DpTree<ByteKeys>::put(Key, Value, Put);
template Outcome DpTree<IntegerKeys>::remove(Key);
template Outcome DpTree<ByteKeys>::remove(Key);

}  // namespace perdure
