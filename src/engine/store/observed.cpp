// DocumentStore: what it does only for an observer (observer.h).
#include "engine/store/document_store.h"

namespace perdure::engine {

const char* name_of(Action action) noexcept {
  switch (action) {
    case Action::lookup:
      return "lookup";
    case Action::read:
      return "read";
    case Action::scan:
      return "scan";
    case Action::scan_entries:
      return "scan_entries";
    case Action::insert:
      return "insert";
    case Action::update:
      return "update";
    case Action::upsert:
      return "upsert";
    case Action::remove:
      return "remove";
    case Action::modify:
      return "modify";
    case Action::add_entries:
      return "add_entries";
    case Action::remove_entries:
      return "remove_entries";
  }
  return "?";
}

Status DocumentStore::observed_lookup(std::string_view key, std::string& document) {
  const KeyLocks::Held held(locks_, key);
  const Status status = find_document(key, document);
  observer_->saw({.action = Action::lookup,
                  .status = status,
                  .key = key,
                  .document = status == Status::ok ? document : std::string_view()});
  return status;
}

// The key is known only when the record has been read: it is locked then, and the record read
// again.
Status DocumentStore::observed_read(std::uint64_t id, std::string& key, std::string& document) {
  const Status unlocked = read_id(id, key, document);
  if (unlocked != Status::ok) return unlocked;
  const std::string locked_key = key;
  const KeyLocks::Held held(locks_, locked_key);
  const Status status = read_id(id, key, document);
  if (status == Status::ok && key == locked_key)
    observer_->saw({.action = Action::read, .status = status, .key = key, .document = document});
  return status;
}

void DocumentStore::tell_observer(Observation observation) const {
  observation.has_entries = rule_.has_entries(observation.key);
  observer_->saw(observation);
}

bool DocumentStore::hold_unique_gone(KeyLocks::Held& held, EntryRefs gone) {
  for (const EntryText* entry : gone)
    if (entry->unique && !held.try_also(entry->text)) return false;
  return true;
}

}  // namespace perdure::engine
