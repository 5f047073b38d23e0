#include "engine/store/recovery.h"

#include <algorithm>
#include <tuple>

#include "index/common/parallel.h"

namespace perdure::engine {
Result<void> DocumentStore::Recovery::find_records() {
  if (Result<void> found = store_.table_.recover(); !found) return found;
  read_intents();
  const std::uint64_t ids = store_.table_.capacity();
  const Result<void> noted =
      in_parallel(ids, store_.options_.threads,
                  [&](std::size_t begin, std::size_t end, std::size_t) -> Result<void> {
                    return note_range(begin, end);
                  });
  if (!noted) return noted;
  if (damaged_.load() != 0 && !store_.options_.serve_damaged)
    return Error{ErrorCode::corrupt,
                 std::to_string(damaged_.load()) + " records of the document store are damaged",
                 store_.pool_.path(), "restore the pool from a copy"};
  if (damaged_.load() != 0) store_.pool_.note_damage();
  store_.table_.recover_ids(used_.load());
  (*store_.slots_)[0].documents.store(static_cast<std::int64_t>(documents_.load()));
  return store_.segments_.recover();
}

// In the order of versions, so that the newest of one id is set last. Who has gone on with an id
// had come to the end of what he did with it before, index and all, and another id may have the key
// since: done again, the earlier write would take the entry away from that.
void DocumentStore::Recovery::read_intents() {
  for (const IntentPair& pair : store_.head_.intents)
    for (const Intent& intent : pair)
      if (const Operation operation = intent.operation(); operation != Operation::none)
        if (intent.terms().id < store_.table_.capacity())
          writes_.push_back({operation, intent.terms(), {}});
  std::ranges::sort(writes_, {}, [](const Write& write) { return write.terms.version; });
  std::erase_if(writes_, [&](Write& write) { return !believe(write); });
  std::erase_if(writes_, [&](const Write& write) { return is_overtaken(write); });
  for (Write& write : writes_)
    if (write.old_document) keep_old(write);
  pm::fence();
}

bool DocumentStore::Recovery::believe(Write& write) {
  const Intent::Terms& terms = write.terms;
  const bool is_write = write.operation == Operation::write;
  if (is_write && (!copy_if(terms.record, terms.id, terms.version, write.key, write.document) ||
                   store_.reader_.at(terms.record)->crc != terms.checksum))
    return false;
  Word& word = store_.table_.word(terms.id);
  const std::uint64_t now = word.load(std::memory_order_relaxed);
  const std::uint64_t version = store_.reader_.version_of(now);
  if (version > terms.version) return false;
  std::string old_key;
  std::string old_document;
  if (copy_if(terms.old, terms.id, terms.version - 1, old_key, old_document))
    write.old_document = std::move(old_document);
  if (!is_write) write.key = old_key;
  if (version < terms.version) {
    word.store(is_write ? terms.record : RecordTable::removed | terms.version,
               std::memory_order_relaxed);
    pm::flush(&word, sizeof word);
  }
  // A removal whose record is gone has come to its end, or blocks of it could not have been reused.
  return is_write || write.old_document.has_value();
}

bool DocumentStore::Recovery::is_overtaken(const Write& write) const {
  const std::uint64_t now = store_.table_.word(write.terms.id).load(std::memory_order_relaxed);
  return store_.reader_.version_of(now) != write.terms.version;
}

// So that the write can be taken back.
void DocumentStore::Recovery::keep_old(Write& write) {
  const RecordHeader& old = *store_.reader_.at(write.terms.old);
  write.old_is_kept = store_.segments_.holds(old.segment, write.terms.old, record_bytes(old));
  if (!write.old_is_kept) return;
  store_.segments_.note_record(old.segment, write.terms.old + record_bytes(old), 0);
  write.old_extents = store_.reader_.extents(old);
}

// Whole as they are, blocks of a document that was replaced may be somebody else's who has not
// written to them yet: then the write had come to its end. Who that is has marked them before.
void DocumentStore::Recovery::keep_old_extents() {
  constexpr std::size_t own_roots = 2;
  for (Write& write : writes_) {
    if (store_.pool_.roots().size() > own_roots && !write.old_extents.empty())
      write.old_is_kept = false;
    if (!write.old_is_kept) write.old_extents.clear();
    for (std::size_t i = 0; i < write.old_extents.size(); ++i) {
      const Extent& extent = write.old_extents[i];
      if (store_.pool_.heap().mark(extent.offset, extent.bytes)) continue;
      write.old_is_kept = false;
      write.old_extents.resize(i);
    }
  }
}

bool DocumentStore::Recovery::copy_if(std::uint64_t offset, std::uint64_t id, std::uint64_t version,
                                      std::string& key, std::string& document) const {
  if (offset == null_offset) return false;
  const RecordHeader* record = store_.reader_.at(offset);
  return record != nullptr && record->id == id && record->version == version &&
         store_.reader_.copy(*record, key, document);
}

Result<void> DocumentStore::Recovery::note_range(std::uint64_t begin, std::uint64_t end) {
  constexpr std::uint64_t ahead = 8;
  const RecordTable& table = store_.table_;
  std::uint64_t documents = 0;
  std::uint64_t used = 0;
  for (std::uint64_t id = begin; id < end; ++id) {
    if (id + ahead < end)
      pm::prefetch(store_.pool_.base() + (table.word(id + ahead).load(std::memory_order_relaxed) &
                                          ~RecordTable::removed) %
                                             store_.pool_.extent_bytes());
    const std::uint64_t word = table.word(id).load(std::memory_order_relaxed);
    if (word != 0) used = id + 1;
    if (!RecordTable::is_present(word)) continue;
    ++documents;
    if (!note(id, word)) damaged_.fetch_add(1, std::memory_order_relaxed);
  }
  documents_.fetch_add(documents);
  std::uint64_t most = used_.load();
  while (most < used && !used_.compare_exchange_weak(most, used)) {
  }
  return {};
}

bool DocumentStore::Recovery::note(std::uint64_t id, std::uint64_t word) {
  Segments& segments = store_.segments_;
  const RecordHeader* record = store_.reader_.at(word);
  if (record == nullptr || record->id != id ||
      !segments.holds(record->segment, word, record_bytes(*record))) {
    // What is left of it may be of use: its segment stays, and is not cleaned.
    for (std::uint32_t n = 0; n < store_.head_.segments; ++n)
      if (segments.holds(n, word, record_alignment)) segments.note_record(n, word, 1);
    return false;
  }
  const std::uint64_t bytes = record_bytes(*record);
  segments.note_record(record->segment, word + bytes, bytes);
  if (record->extents == 0) return true;
  const std::vector<Extent> extents = store_.reader_.extents(*record);
  return !extents.empty() && std::ranges::all_of(extents, [&](const Extent& extent) {
    return store_.pool_.heap().mark(extent.offset, extent.bytes);
  });
}

// The index serves and the heap has swept.
Result<void> DocumentStore::Recovery::redo() {
  const InPart records = store_.for_records();
  std::ranges::sort(writes_, {}, [](const Write& write) {
    return std::tuple(std::string_view(write.key), write.terms.version);
  });
  for (Write& write : writes_)
    if (Result<void> finished = finish(write); !finished) return finished;
  store_.clear_intents();
  for (const Write& write : writes_)
    for (const Extent& extent : write.old_extents)
      store_.pool_.heap().free(extent.offset, extent.bytes);
  if (store_.head_.filling.load(std::memory_order_relaxed) != 0) {
    erase_all();
    store_.set_filling(false);
  }
  return {};
}

Result<void> DocumentStore::Recovery::finish(Write& write) {
  const std::uint64_t id = write.terms.id;
  Entries old_entries;
  Entries new_entries;
  if (write.old_document && store_.rule_.has_entries(write.key))
    store_.entries_of(write.key, *write.old_document, old_entries);
  if (write.operation == Operation::remove) {
    store_.take_from_index(old_entries.without({}), id);
    store_.take_key(write.key, id);
    return {};
  }
  if (store_.rule_.has_entries(write.key))
    store_.entries_of(write.key, write.document, new_entries);
  // Most writes had come to their end: what is there need not be written again.
  auto added = new_entries.without(old_entries);
  std::erase_if(added, [&](const EntryText* entry) { return store_.is_in_index(*entry, id); });
  std::uint64_t held = 0;
  const bool has_key = store_.find_id(write.key, held) && held == id;
  const auto is_added = [&] {
    if (!store_.add_to_index(added, id)) return false;
    if (has_key || store_.add_key(write.key, id)) return true;
    store_.take_from_index(added, id);
    return false;
  };
  if (!is_added()) return take_back(write);
  store_.take_from_index(old_entries.without(new_entries), id);
  return {};
}

// The write was never acknowledged, so it may as well not have happened.
Result<void> DocumentStore::Recovery::take_back(Write& write) {
  const std::uint64_t id = write.terms.id;
  const bool is_new = write.terms.old == null_offset;
  if (!is_new && !write.old_is_kept)
    return Error{ErrorCode::out_of_space, "no room to finish a write that was cut off",
                 store_.pool_.path(), "copy the pool into a larger one"};
  Word& word = store_.table_.word(id);
  {
    const Epochs::Guard pin(store_.epochs_);
    const RecordHeader& record = *store_.reader_.of(word.load(std::memory_order_relaxed));
    store_.segments_.drop_live(record.segment, record_bytes(record));
    store_.retire_extents(record);
  }
  if (is_new) {
    store_.take_key(write.key, id);
    (*store_.slots_)[0].documents.fetch_sub(1, std::memory_order_relaxed);
  } else {
    const RecordHeader& old = *store_.reader_.at(write.terms.old);
    store_.segments_.add_live(old.segment, record_bytes(old));
    write.old_extents.clear();
  }
  // Of a later version: should this recovery be cut off, the next one leaves the intent alone.
  pm::store_persist(word,
                    is_new ? RecordTable::removed | (write.terms.version + 1) : write.terms.old);
  if (is_new) store_.table_.give_back(id);
  return {};
}

void DocumentStore::Recovery::erase_all() {
  std::vector<DocumentStore::Entry> entries;
  std::string next;
  for (std::string from;; from = next) {
    entries.clear();
    store_.scan_entries(from, {}, 256, entries, next);
    for (const DocumentStore::Entry& entry : entries) static_cast<void>(store_.remove(entry.entry));
    if (next.empty()) return;
  }
}

}  // namespace perdure::engine
