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
    parts_.heap.publish({&draft.block, 1}, &record.check, check);
  else
    pm::store_persist(record.check, check);  // G2: one line holds all three words
}

// What lies below the front tree is prefetched before the leaf is locked, and read before that
// where it must be: the lock is taken with a locked instruction, which waits until the change
// before this one has drained, and until all loads before it have come. The front tree's filter
// says whether what lies below can be the answer; there nothing is changed while this thread is a
// writer (D2), merges keep what there is. A change that the base tree decides may be speculative.
template <class Keys>
inline auto DpTree<Keys>::lock_key(Buffer& front, Key key, std::uint64_t hash, ReadFirst read,
                                   Prefetch prefetch) -> LockedKey {
  LockedKey target;
  front.log().prefetch_part(hash);
  if (read == ReadFirst::none) {
    target.position = front.lock(key);
  } else {
    const auto& trees = parts_.prefetch_filters(hash);
    const auto way = trees.base->approach(key);
    way.prefetch();
    const auto entered = front.enter(key);
    const Route route =
        parts_.prefetch_leaf(trees, trees.base->find(key, way).leaf, hash, prefetch);
    const bool is_ahead = !front.log().may_have(hash);
    if (is_ahead) {
      target.is_speculative = read == ReadFirst::buffers && base_decides(route, hash);
      target.route = route;
      target.present =
          target.is_speculative || parts_.find_below_front(route, key, hash, target.below);
    }
    target.position = front.lock(key, entered);
    if (!is_ahead && !target.position.found.any())
      target.present =
          parts_.find_below_front(parts_.prefetch_route(key, hash), key, hash, target.below);
  }
  if (target.position.found.any()) {
    target.present = target.position.found.is_put();
    target.is_speculative = false;
  }
  return target;
}

template <class Keys>
inline bool DpTree<Keys>::base_decides(const Route& route, std::uint64_t hash) noexcept {
  const Buffer* const middle = route.trees->middle;
  return route.has_leaf() && (middle == nullptr || !middle->log().may_have(hash));
}

template <class Keys>
inline bool DpTree<Keys>::is_in_base(const Route& route, Key key, std::uint64_t hash) const {
  const bool found = parts_.find_in_base(route, key, hash).has_value();
  if (parts_.current.is_whole(*route.trees)) return found;
  RecordWords words;
  return parts_.find_below_front(parts_.prefetch_route(key, hash), key, hash, words);
}

/// A slot for the log record of a change, which is counted; null: the log has no room. The position
/// is ready for its entry then.
template <class Keys>
inline LogRecord* DpTree<Keys>::take_slot(Buffer& front, typename Buffer::Position& position,
                                          Key key, std::uint64_t hash, std::uint64_t blob_bytes) {
  front.make_room(position, key);
  LogRecord* const record = front.log().take_slot(hash, !position.found.any(), blob_bytes);
  if (record == nullptr) front.unlock(position);
  return record;
}

template <class Keys>
inline auto DpTree<Keys>::read_before(Put kind) const noexcept -> ReadFirst {
  if (kind == Put::upsert) return ReadFirst::none;
  return last_succeeded_[static_cast<std::size_t>(kind)].load(std::memory_order_relaxed)
             ? ReadFirst::buffers
             : ReadFirst::all;
}

template <class Keys>
inline void DpTree<Keys>::note_outcome(Put kind, bool succeeds) noexcept {
  std::atomic<bool>& presumed = last_succeeded_[static_cast<std::size_t>(kind)];
  if (presumed.load(std::memory_order_relaxed) != succeeds)
    presumed.store(succeeds, std::memory_order_relaxed);
}

template <class Keys>
inline Outcome DpTree<Keys>::try_put(Key key, Value value, std::uint64_t hash, Put kind,
                                     bool& needs_maintenance) {
  const pm::AsymmetricLock::ReadGuard writing(parts_.writers);
  const Epochs::Guard guard(parts_.epochs);
  Buffer& front = *parts_.snapshot().front;
  const Outcome refused = refusal(kind == Put::insert);
  LockedKey target = lock_key(front, key, hash, read_before(kind),
                              kind == Put::update ? Prefetch::record : Prefetch::metadata);
  auto& position = target.position;
  if (!target.is_speculative && is_refused(kind, target.present)) {
    front.release(position);
    note_outcome(kind, false);
    return refused;
  }
  Draft draft;
  LogRecord* record = nullptr;
  if (parts_.records.draft(key, value, draft)) {
    std::uint64_t blob_bytes = 0;
    if constexpr (RecordStore<Keys>::has_blobs) blob_bytes = draft.block.bytes;
    record = take_slot(front, position, key, hash, blob_bytes);
    if (record == nullptr) parts_.records.cancel(draft);
  } else {
    front.release(position);
  }
  if (record == nullptr) {
    const bool knows_better =
        target.is_speculative && is_refused(kind, is_in_base(target.route, key, hash));
    return knows_better ? refused : Outcome::out_of_space;
  }
  front.set(position, key, parts_.pool.offset_of(record));
  constexpr std::array speculative{Change::insert, Change::put, Change::update};  // by `Put`
  log_put(*record, draft, front.seal(),
          target.is_speculative ? speculative[static_cast<std::size_t>(kind)] : Change::put);
  needs_maintenance = maintenance_.may_be_due(front, hash);
  if (target.is_speculative && is_refused(kind, is_in_base(target.route, key, hash))) {
    front.discard(draft.words.value, draft.words.key);
    front.mark_failed(position, hash);
    front.unlock(position);
    note_outcome(kind, false);
    return refused;
  }
  note_outcome(kind, true);
  if constexpr (RecordStore<Keys>::has_blobs)
    if (position.found.is_put()) {
      const RecordWords old = front.record_of(position.found.word)->words();
      front.discard(old.value, old.key);
    }
  front.unlock(position);
  return Outcome::ok;
}

template <class Keys>
Outcome DpTree<Keys>::put(Key key, Value value, Put kind) {
  if (!RecordStore<Keys>::within_limits(key, value) || !parts_.pool.ready())
    return Outcome::invalid;
  constexpr unsigned most_merges_for_a_blob = 4;
  const std::uint64_t hash = hash_of(key);
  dptree::SplitClaims<Keys>& claims = maintenance_.claims();
  const Outcome absent = kind == Put::update ? Outcome::not_found : Outcome::out_of_space;
  for (unsigned merges_for_a_blob = 0;;) {
    const std::uint64_t merges = maintenance_.merges();
    const bool must_claim = kind != Put::update && claims.must_claim(key, hash);
    if (must_claim && !claims.claim()) [[unlikely]] {
      if (maintenance_.make_room(merges)) continue;
      return Outcome::out_of_space;
    }
    bool needs_maintenance = false;
    const Outcome outcome = try_put(key, value, hash, kind, needs_maintenance);
    if (must_claim && outcome != Outcome::ok) [[unlikely]]
      claims.withdraw();
    if (needs_maintenance) maintenance_.run();
    if (outcome != Outcome::out_of_space) return outcome;
    if (maintenance_.make_room(merges)) continue;
    if (kind == Put::insert) return outcome;
    bool lacks_blob = false;
    const auto replace = [&](Block block) {
      const auto attempt = [&] {
        return in_place_.replace(key, value, hash, absent, block, lacks_blob);
      };
      return with_room(parts_.epochs, attempt);
    };
    const Outcome replaced = replace(Block::fitting);
    if (replaced != Outcome::out_of_space || !lacks_blob) return replaced;
    if (++merges_for_a_blob > most_merges_for_a_blob) return replace(Block::any);
    maintenance_.leftovers().set_requests(0);  // a merge frees blobs that logs mention (D5)
    if (!maintenance_.make_room(maintenance_.merges())) return replace(Block::any);
  }
}

// A byte string's removal leads to the blob that goes, which has the key and stays as long as the
// log does (D5): so a removal needs no room but its slot.
template <class Keys>
Outcome DpTree<Keys>::try_remove(Key key, std::uint64_t hash, bool& needs_maintenance) {
  const pm::AsymmetricLock::ReadGuard writing(parts_.writers);
  const Epochs::Guard guard(parts_.epochs);
  Buffer& front = *parts_.snapshot().front;
  LockedKey target = lock_key(front, key, hash, ReadFirst::all, Prefetch::record);
  auto& position = target.position;
  if (!target.present) {
    front.release(position);
    return Outcome::not_found;
  }
  LogRecord* const record = take_slot(front, position, key, hash, 0);
  if (record == nullptr) return Outcome::out_of_space;
  const RecordWords words =
      position.found.any() ? front.record_of(position.found.word)->words() : target.below;
  front.set(position, key, parts_.pool.offset_of(record) | Buffer::removal_bit);
  record->key.store(words.key, std::memory_order_release);  // D3
  record->value.store(words.value, std::memory_order_release);
  pm::store_persist(record->check, LogRecord::check_of(words, front.seal(), Change::removal));
  if (position.found.is_put()) front.discard(words.value, words.key);
  front.unlock(position);
  needs_maintenance = maintenance_.may_be_due(front, hash);
  return Outcome::ok;
}

// With no room for its record, and none to be made, a removal takes place where the record is.
template <class Keys>
Outcome DpTree<Keys>::remove(Key key) {
  if (!parts_.pool.ready()) return Outcome::invalid;
  const std::uint64_t hash = hash_of(key);
  for (;;) {
    const std::uint64_t merges = maintenance_.merges();
    bool needs_maintenance = false;
    const Outcome outcome = try_remove(key, hash, needs_maintenance);
    if (needs_maintenance) maintenance_.run();
    if (outcome != Outcome::out_of_space) return outcome;
    if (!maintenance_.make_room(merges)) return in_place_.remove(key, hash);
  }
}

template Outcome DpTree<IntegerKeys>::put(Key, Value, Put);
template Outcome DpTree<ByteKeys>::put(Key, Value, Put);
template Outcome DpTree<IntegerKeys>::remove(Key);
template Outcome DpTree<ByteKeys>::remove(Key);

}  // namespace perdure
