// DocumentStore: writing.
#include <cstring>

#include "engine/store/document_store.h"
#include "engine/store/line_writer.h"
#include "engine/store/store_head.h"
#include "index/common/with_room.h"

namespace perdure::engine {
namespace {

/// A longer body has blocks of its own, so that what is left of a segment at its end is little.
constexpr std::uint64_t pieces_of_segment = 8;

std::string with_id(const EntryText& entry, std::uint64_t id) {
  std::string text = entry.text;
  if (entry.unique) return text;
  const std::uint64_t tail = __builtin_bswap64(id);
  text.append(reinterpret_cast<const char*>(&tail), sizeof tail);
  return text;
}

std::string_view bytes_of(const std::uint64_t& id) noexcept {
  return {reinterpret_cast<const char*>(&id), sizeof id};
}

Action action_of(Put kind) noexcept {
  switch (kind) {
    case Put::insert:
      return Action::insert;
    case Put::update:
      return Action::update;
    case Put::upsert:
      break;
  }
  return Action::upsert;
}

}  // namespace

/// Attempts again, without lock and pin, when the heap has refused and something could be cleaned.
template <class Attempt>
Status DocumentStore::with_cleaning(Attempt&& attempt) {
  const InPart records = for_records();
  Slot& mine = slot();
  if (mine.wants_cleaning) [[unlikely]] {
    mine.wants_cleaning = false;
    cleaner_.keep_small();
  }
  Status status = Status::ok;
  const auto once = [&] {
    pm::Backoff backoff;
    while ((status = attempt()) == Status::busy) backoff.wait();
    return status == Status::out_of_space ? Outcome::out_of_space : Outcome::ok;
  };
  static_cast<void>(with_room(epochs_, once, [&] { static_cast<void>(cleaner_.make_room()); }));
  return status;
}

auto DocumentStore::find(std::string_view key, bool with_document) const -> Present {
  Present present;
  std::uint64_t id = 0;
  if (!find_id(key, id)) return present;
  present.record = reader_.of(table_.word(id).load(std::memory_order_relaxed));
  if (present.record == nullptr || reader_.key(*present.record) != key) return {};
  present.id = id;
  if (with_document)
    present.has_document = reader_.copy_document(*present.record, key, present.document);
  return present;
}

bool DocumentStore::fits(std::string_view key) const noexcept {
  constexpr std::uint64_t most_extents = max_document_bytes / Heap::max_block_bytes;
  return key.size() <= max_key_bytes &&
         record_bytes(key.size(), 0, most_extents) <= segments_.segment_bytes();
}

Status DocumentStore::put(std::string_view key, std::string_view document, Put kind) {
  if (!fits(key) || document.size() > max_document_bytes) return Status::too_long;
  const Status status = with_cleaning([&] {
    const Epochs::Guard pin(epochs_);
    KeyLocks::Held held(locks_, key);
    const Present before = find(key, rule_.has_entries(key));
    const bool present = before.record != nullptr;
    if (is_refused(kind, present))
      return tell({.action = action_of(kind),
                   .status = present ? Status::exists : Status::not_found,
                   .key = key});
    return write(before, held, key, document, action_of(kind));
  });
  return told_if_full(action_of(kind), status, key);
}

Status DocumentStore::remove(std::string_view key) {
  return with_cleaning([&] {
    const Epochs::Guard pin(epochs_);
    KeyLocks::Held held(locks_, key);
    const Present before = find(key, rule_.has_entries(key));
    if (before.record == nullptr)
      return tell({.action = Action::remove, .status = Status::not_found, .key = key});
    return erase(before, held, key, Action::remove);
  });
}

Status DocumentStore::modify(std::string_view key, Change& change) {
  if (!fits(key)) return Status::too_long;
  std::string document;
  const Status status = with_cleaning([&] {
    const Epochs::Guard pin(epochs_);
    KeyLocks::Held held(locks_, key);
    const Present before = find(key, true);
    const bool present = before.record != nullptr;
    if (present && !before.has_document)
      return tell({.action = Action::modify, .status = Status::corrupt, .key = key});
    bool remove = false;
    document.clear();
    if (!change(present ? &before.document : nullptr, document, remove))
      return tell({.action = Action::modify, .status = Status::unchanged, .key = key});
    if (remove && !present)
      return tell(
          {.action = Action::modify, .status = Status::not_found, .key = key, .removes = true});
    if (remove) return erase(before, held, key, Action::modify);
    if (document.size() > max_document_bytes) return Status::too_long;
    return write(before, held, key, document, Action::modify);
  });
  return told_if_full(Action::modify, status, key);
}

void DocumentStore::entries_of(std::string_view key, std::string_view document,
                               Entries& out) const {
  out.clear();
  rule_.entries(key, document, out);
  out.sort();
}

Status DocumentStore::write(const Present& before, KeyLocks::Held& held, std::string_view key,
                            std::string_view document, Action action) {
  Entries old_entries;
  Entries new_entries;
  if (rule_.has_entries(key)) {
    if (before.has_document) entries_of(key, before.document, old_entries);
    entries_of(key, document, new_entries);
  }
  const auto added = new_entries.without(old_entries);
  for (const EntryText* entry : added)
    if (entry->text.size() > max_key_bytes - sizeof(std::uint64_t)) return Status::too_long;
  const auto gone = old_entries.without(new_entries);
  Status status = hold_unique(held, added, before.id);
  if (status == Status::ok && observer_ != nullptr && !hold_unique_gone(held, gone)) [[unlikely]]
    return Status::busy;
  if (status == Status::ok) status = commit(before, key, document, added, gone);
  // Without room, or a lock, it is tried again.
  if (status == Status::out_of_space || status == Status::busy) return status;
  return tell({.action = action,
               .status = status,
               .key = key,
               .document = document,
               .added = added,
               .gone = gone});
}

Status DocumentStore::commit(const Present& before, std::string_view key, std::string_view document,
                             EntryRefs added, EntryRefs gone) {
  Draft draft;
  if (!this->draft(key, document, draft)) return Status::out_of_space;
  const bool is_new = before.record == nullptr;
  const std::uint64_t id = is_new ? table_.take() : before.id;
  if (id == RecordTable::no_id) {
    discard(draft);
    return Status::out_of_space;
  }
  const std::uint64_t word = table_.word(id).load(std::memory_order_relaxed);
  const std::uint64_t version = reader_.version_of(word) + 1;
  const std::uint32_t checksum =
      fill(draft,
           {.crc = 0,
            .segment = draft.segment,
            .id = id,
            .version = version,
            .document_bytes = static_cast<std::uint32_t>(document.size()),
            .key_bytes = static_cast<std::uint16_t>(key.size()),
            .extents = static_cast<std::uint16_t>(draft.block.size())},
           key, document);
  pool_.heap().publish(draft.block);
  Intent& intent = announce(Operation::write,
                            {id, version, draft.offset, is_new ? null_offset : word, checksum});

  const bool has_room = add_to_index(added, id) && (!is_new || add_key(key, id));
  if (!has_room) {
    // The intent goes last: a cut before finds the write committed, and finishes it.
    if (is_new) take_from_index(added, id);
    intent.clear();
    pm::fence();
    discard(draft);
    if (is_new) table_.give_back(id);
    return Status::out_of_space;
  }
  segments_.add_live(draft.segment, draft.bytes);
  swing(id, draft.offset, before.record);
  take_from_index(gone, id);
  if (is_new) slot().documents.fetch_add(1, std::memory_order_relaxed);
  return Status::ok;
}

Status DocumentStore::erase(const Present& before, KeyLocks::Held& held, std::string_view key,
                            Action action) {
  Entries entries;
  if (before.has_document) entries_of(key, before.document, entries);
  const auto gone = entries.without({});
  if (observer_ != nullptr && !hold_unique_gone(held, gone)) [[unlikely]]
    return Status::busy;
  const std::uint64_t word = table_.word(before.id).load(std::memory_order_relaxed);
  const std::uint64_t version = before.record->version + 1;
  announce(Operation::remove, {before.id, version, null_offset, word, 0});
  swing(before.id, RecordTable::removed | version, before.record);
  take_from_index(gone, before.id);
  take_key(key, before.id);
  table_.give_back(before.id);
  slot().documents.fetch_sub(1, std::memory_order_relaxed);
  return tell({.action = action,
               .status = Status::ok,
               .key = key,
               .gone = gone,
               .removes = action == Action::modify});
}

bool DocumentStore::draft(std::string_view key, std::string_view document, Draft& draft) {
  Heap& heap = pool_.heap();
  const std::uint64_t inline_bytes = sizeof(RecordHeader) + key.size() + document.size();
  if (inline_bytes > segments_.segment_bytes() / pieces_of_segment) {
    for (std::size_t left = document.size(); left != 0;) {
      const std::size_t bytes = std::min(left, Heap::max_block_bytes);
      draft.block.push_back(heap.reserve(bytes));
      if (!draft.block.back()) break;
      left -= bytes;
    }
  }
  draft.bytes = record_bytes(key.size(), document.size(), draft.block.size());
  Slot& mine = slot();
  const bool has_blocks = draft.block.empty() || draft.block.back();
  if (!has_blocks || !segments_.fits(mine.open, draft.bytes)) {
    if (!has_blocks || !cleaner_.has_reserve() || !segments_.renew(mine.open)) {
      for (Reservation& block : draft.block)
        if (block) heap.cancel(block);
      return false;
    }
    mine.wants_cleaning = true;
  }
  draft.segment = mine.open.number;
  draft.offset = mine.open.offset + mine.open.used;
  mine.open.used += draft.bytes;
  return true;
}

// The room in the segment can be had again, because no record follows (G3).
void DocumentStore::discard(const Draft& draft) noexcept {
  Segments::Open& open = slot().open;
  PERDURE_ASSERT(open.offset + open.used == draft.offset + draft.bytes);
  open.used -= draft.bytes;
  for (const Reservation& block : draft.block) pool_.heap().free(block.offset, block.bytes);
}

std::uint32_t DocumentStore::fill(const Draft& draft, RecordHeader header, std::string_view key,
                                  std::string_view document) const {
  std::vector<Extent> extents;
  std::size_t at = 0;
  for (const Reservation& block : draft.block) {
    LineWriter writer(pool_.base() + block.offset);
    writer.append(document.data() + at, block.bytes);
    writer.end();
    extents.push_back({block.offset, block.bytes});
    at += block.bytes;
  }
  header.crc = crc_of(header, extents, key, document);
  LineWriter record(pool_.base() + draft.offset);
  record.append(&header, sizeof header);
  if (extents.empty())
    record.append(document.data(), document.size());
  else
    record.append(extents.data(), extents.size() * sizeof(Extent));
  record.append(key.data(), key.size());
  record.end();
  return header.crc;
}

// One fence for the record, the intent, and the word of the write before (I3).
Intent& DocumentStore::announce(Operation operation, const Intent::Terms& terms) {
  Slot& mine = slot();
  Intent& intent = head_.intents[pm::thread_slot()][mine.turn];
  mine.turn ^= 1U;
  intent.write(operation, terms);
  if (mine.pending != nullptr) pm::flush(mine.pending, sizeof *mine.pending);
  mine.pending = nullptr;
  pm::fence();
  return intent;
}

// Counts first: who sees the word believes that they are right (segments.h, G2).
void DocumentStore::swing(std::uint64_t id, std::uint64_t to, const RecordHeader* before) {
  if (before != nullptr) segments_.drop_live(before->segment, record_bytes(*before));
  Word& word = table_.word(id);
  word.store(to, std::memory_order_release);
  slot().pending = &word;
  if (before != nullptr) retire_extents(*before);
}

void DocumentStore::retire_extents(const RecordHeader& record) {
  for (const Extent& extent : reader_.extents(record))
    epochs_.retire(pool_.heap(), extent.offset, extent.bytes);
}

bool DocumentStore::is_taken(const EntryText& entry, std::uint64_t id) const {
  std::uint64_t other = 0;
  return find_id(entry.text, other) && other != id &&
         RecordTable::is_present(table_.word(other).load(std::memory_order_acquire));
}

Status DocumentStore::hold_unique(KeyLocks::Held& held, EntryRefs entries, std::uint64_t id) {
  for (const EntryText* entry : entries)
    if (entry->unique && !held.try_also(entry->text)) return Status::busy;
  for (const EntryText* entry : entries)
    if (entry->unique && is_taken(*entry, id)) return Status::duplicate;
  return Status::ok;
}

bool DocumentStore::is_in_index(const EntryText& entry, std::uint64_t id) const {
  std::uint64_t held = 0;
  if (entry.unique) return find_id(entry.text, held) && held == id;
  std::string value;
  return index_->lookup(with_id(entry, id), value) == Outcome::ok;
}

bool DocumentStore::add_to_index(EntryRefs entries, std::uint64_t id) {
  const InPart index = for_index();
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const std::string text = with_id(*entries[i], id);
    const std::string_view value = entries[i]->unique ? bytes_of(id) : std::string_view();
    if (index_->upsert(text, value) == Outcome::ok) continue;
    take_from_index(entries.first(i), id);
    return false;
  }
  return true;
}

void DocumentStore::take_from_index(EntryRefs entries, std::uint64_t id) {
  const InPart index = for_index();
  for (const EntryText* entry : entries) {
    if (entry->unique)
      take_key(entry->text, id);
    else
      static_cast<void>(index_->remove(with_id(*entry, id)));
  }
}

bool DocumentStore::add_key(std::string_view key, std::uint64_t id) {
  const InPart index = for_index();
  return index_->upsert(key, bytes_of(id)) == Outcome::ok;
}

// Only its own: another document may have the key, or the unique entry, by now.
void DocumentStore::take_key(std::string_view key, std::uint64_t id) {
  const InPart index = for_index();
  std::uint64_t held = 0;
  if (find_id(key, held) && held == id) static_cast<void>(index_->remove(key));
}

Status DocumentStore::add_entries(std::string_view key) {
  return with_cleaning([&] {
    const Epochs::Guard pin(epochs_);
    KeyLocks::Held held(locks_, key);
    const Present present = find(key, true);
    if (present.record == nullptr) return Status::not_found;
    if (!present.has_document) return Status::corrupt;
    Entries entries;
    entries_of(key, present.document, entries);
    const auto all = entries.without({});
    for (const EntryText* entry : all)
      if (entry->text.size() > max_key_bytes - sizeof(std::uint64_t)) return Status::too_long;
    const Status status = hold_unique(held, all, present.id);
    if (status == Status::duplicate)
      return tell({.action = Action::add_entries, .status = status, .key = key, .added = all});
    if (status != Status::ok) return status;
    const InPart index = for_index();
    for (const EntryText* entry : all) {
      const std::string_view value = entry->unique ? bytes_of(present.id) : std::string_view();
      if (index_->upsert(with_id(*entry, present.id), value) != Outcome::ok)
        return Status::out_of_space;
    }
    return tell({.action = Action::add_entries, .status = Status::ok, .key = key, .added = all});
  });
}

void DocumentStore::remove_entries(std::string_view from, std::string_view to) {
  constexpr std::size_t batch = 256;
  const InPart index = for_index();
  BytesScan found;
  bool is_done = false;
  for (std::string at(from); !is_done;) {
    found.clear();
    is_done = index_->scan(at, batch, found) == 0;
    for (std::size_t i = 0; i < found.size() && !is_done; ++i) {
      is_done = found[i].key >= to;
      if (is_done) break;
      at = found[i].key;
      static_cast<void>(index_->remove(at));
    }
  }
  if (observer_ != nullptr) [[unlikely]]
    observer_->saw({.action = Action::remove_entries, .key = from, .to = to});
}

}  // namespace perdure::engine
