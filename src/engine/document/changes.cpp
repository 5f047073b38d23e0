// Changes of the catalog: making and dropping collections and indexes, and finishing after a crash
// what was begun.
#include <algorithm>

#include "engine/document/parts.h"

namespace perdure::engine {
namespace {

/// Documents that are removed while other changes of the catalog wait, but no queries.
constexpr std::size_t removed_at_once = 256;

bool is_database(std::string_view name) {
  return !name.empty() && name.size() < 64 &&
         name.find_first_of(std::string_view("/\\. \"$*<>:|?\0", 13)) == std::string_view::npos;
}

/// Some documents of a collection, from `from` on, which becomes where to go on, or empty.
void remove_some(DocumentStore& store, std::string_view to, std::string& from) {
  std::vector<DocumentStore::Entry> entries;
  std::string next;
  store.scan_entries(from, to, removed_at_once, entries, next);
  for (const DocumentStore::Entry& entry : entries) (void)store.remove(entry.entry);
  from = std::move(next);
}

}  // namespace

Answer<Done> check_name(std::string_view name) {
  const std::size_t dot = name.find('.');
  const std::string_view collection =
      dot != std::string_view::npos ? name.substr(dot + 1) : std::string_view();
  const bool is_good = is_database(name.substr(0, dot)) && !collection.empty() &&
                       name.size() <= 255 && collection.front() != '.' &&
                       collection.find_first_of(std::string_view("$\0", 2)) == collection.npos;
  if (is_good) return Done{};
  return {Code::invalid_namespace, "invalid namespace: '" + std::string(name) + "'"};
}

std::optional<CollectionInfo> Engine::Parts::find(std::string_view name) {
  const Catalog::View view(catalog);
  const CollectionInfo* found = view.find(name);
  return found != nullptr ? std::optional(*found) : std::nullopt;
}

Answer<CollectionInfo> Engine::Parts::find_or_create(std::string_view name) {
  if (std::optional<CollectionInfo> found = find(name)) return std::move(*found);
  if (Answer<Done> checked = check_name(name); !checked) return checked.failure();
  Answer<std::uint32_t> id = catalog.new_collection_id();
  if (!id) return id.failure();
  CollectionInfo collection{.name = std::string(name), .id = *id, .dropping = false, .indexes = {}};
  if (Answer<Done> saved = catalog.save(collection); !saved) return saved.failure();
  return collection;
}

Answer<bool> Engine::Parts::create_collection(std::string_view name) {
  const std::lock_guard lock(catalog.changes());
  if (find(name)) return false;
  const Answer<CollectionInfo> made = find_or_create(name);
  return made.ok() ? Answer<bool>(true) : Answer<bool>(made.failure());
}

// The mark needs room for a record; a full pool has it once some documents are gone, which all are
// to be.
Answer<Done> Engine::Parts::mark_as_dropping(CollectionInfo& collection) {
  collection.dropping = true;
  const KeyRange documents = range_of_prefix(collection_prefix(collection.id));
  for (std::string from = documents.from;;) {
    Answer<Done> saved = catalog.save(collection);
    if (saved || saved.failure().code != Code::out_of_disk_space || from.empty()) return saved;
    const Catalog::View view(catalog);
    remove_some(*store, documents.to, from);
  }
}

Answer<Done> Engine::Parts::remove_dropped(const CollectionInfo& collection) {
  const KeyRange documents = range_of_prefix(collection_prefix(collection.id));
  for (std::string from = documents.from; !from.empty();) {
    const Catalog::View view(catalog);
    remove_some(*store, documents.to, from);
  }
  const KeyRange entries = range_of_prefix(indexes_prefix(collection.id));
  store->remove_entries(entries.from, entries.to);
  return catalog.forget(collection);
}

Answer<bool> Engine::Parts::drop_collection(std::string_view name) {
  const std::lock_guard lock(catalog.changes());
  std::optional<CollectionInfo> collection = find(name);
  if (!collection) return false;
  if (Answer<Done> marked = mark_as_dropping(*collection); !marked) return marked.failure();
  if (Answer<Done> removed = remove_dropped(*collection); !removed) return removed.failure();
  return true;
}

Answer<Done> Engine::Parts::drop_database(std::string_view database) {
  const std::lock_guard lock(catalog.changes());
  std::vector<CollectionInfo> collections;
  {
    const Catalog::View view(catalog);
    const std::string prefix = std::string(database) + '.';
    for (const auto& [name, collection] : view.all().by_name)
      if (name.starts_with(prefix)) collections.push_back(*collection);
  }
  for (CollectionInfo& collection : collections)
    if (Answer<Done> marked = mark_as_dropping(collection); !marked) return marked;
  for (const CollectionInfo& collection : collections)
    if (Answer<Done> removed = remove_dropped(collection); !removed) return removed;
  return Done{};
}

Answer<bool> Engine::Parts::create_index(std::string_view name, const IndexOptions& options) {
  Answer<FieldPath> path = FieldPath::parse(options.field);
  if (!path) return {Code::cannot_create_index, path.failure().message};
  const std::lock_guard lock(catalog.changes());
  Answer<CollectionInfo> collection = find_or_create(name);
  if (!collection) return collection.failure();
  finish_indexes(*collection);
  IndexInfo index{.number = 1,
                  .name = options.name,
                  .path = std::move(*path),
                  .descends = options.descends,
                  .unique = options.unique};
  if (index.name.empty()) index.name = options.field + (options.descends ? "_-1" : "_1");
  for (const IndexInfo& other : collection->indexes) {
    const bool same_key =
        other.path.text() == index.path.text() && other.descends == index.descends;
    if (other.name == index.name && same_key && other.unique == index.unique) return false;
    if (other.name == index.name)
      return {Code::index_key_specs_conflict,
              "another index has the name '" + index.name + "' and other options"};
    if (same_key)
      return {Code::index_options_conflict, "the index '" + other.name + "' has the same key"};
  }
  const auto is_taken = [&](std::uint16_t number) {
    return std::ranges::find(collection->indexes, number, &IndexInfo::number) !=
           collection->indexes.end();
  };
  while (is_taken(index.number) && index.number < 64) ++index.number;
  if (is_taken(index.number))
    return {Code::cannot_create_index, "a collection can have at most 64 indexes"};
  collection->indexes.push_back(index);
  if (Answer<Done> saved = catalog.save(*collection); !saved) return saved.failure();
  if (Answer<Done> filled = fill(*collection, index.number); !filled) return filled.failure();
  return true;
}

Answer<Done> Engine::Parts::fill(CollectionInfo& collection, std::uint16_t number) {
  const auto index = std::ranges::find(collection.indexes, number, &IndexInfo::number);
  Answer<Done> filled = fill_entries(collection, *index);
  if (filled) {
    index->state = IndexInfo::State::ready;
    filled = catalog.save(collection);
  }
  if (!filled) (void)remove_index(collection, number);
  return filled;
}

Answer<Done> Engine::Parts::fill_entries(const CollectionInfo& collection, const IndexInfo& index) {
  const KeyRange documents = range_of_prefix(collection_prefix(collection.id));
  const CollectionInfo only{collection.name, collection.id, false, {index}};
  std::vector<DocumentStore::Found> found;
  std::uint64_t corrupt = 0;
  for (std::string from = documents.from, next; !from.empty(); from = std::move(next)) {
    const Catalog::View view(catalog);
    found.clear();
    store->scan(from, documents.to, 32, found, next, corrupt);
    // An index without them would answer as if they did not exist.
    if (corrupt != 0) return failure_of(Status::corrupt, collection.name);
    for (const DocumentStore::Found& one : found) {
      if (Answer<Done> checked = check_indexable(only, one.document); !checked) return checked;
      const Status status = store->add_entries(one.key);
      if (status == Status::duplicate)
        return duplicate_failure(*store, only, one.key, one.document);
      if (status != Status::ok && status != Status::not_found)
        return failure_of(status, "index '" + index.name + "' of " + collection.name);
    }
  }
  return Done{};
}

Answer<Done> Engine::Parts::remove_index(CollectionInfo& collection, std::uint16_t number) {
  const auto index = std::ranges::find(collection.indexes, number, &IndexInfo::number);
  index->state = IndexInfo::State::dropping;
  if (Answer<Done> saved = catalog.save(collection); !saved) return saved;
  const KeyRange entries = range_of_prefix(index_prefix(collection.id, number));
  store->remove_entries(entries.from, entries.to);
  collection.indexes.erase(index);
  return catalog.save(collection);
}

Answer<Done> Engine::Parts::drop_index(std::string_view name, std::string_view index) {
  const std::lock_guard lock(catalog.changes());
  std::optional<CollectionInfo> collection = find(name);
  if (!collection) return {Code::namespace_not_found, "no collection '" + std::string(name) + "'"};
  finish_indexes(*collection);
  const IndexInfo* found = collection->find_index(index);
  if (found == nullptr) return {Code::index_not_found, "no index '" + std::string(index) + "'"};
  return remove_index(*collection, found->number);
}

// What cannot be finished, for want of room or because documents forbid the index, stays as it is:
// no query uses it, and whoever asked for it has not been told that it is there.
void Engine::Parts::finish_indexes(CollectionInfo& collection) {
  const std::vector<IndexInfo> indexes = collection.indexes;
  for (const IndexInfo& index : indexes) {
    if (index.state == IndexInfo::State::dropping) (void)remove_index(collection, index.number);
    if (index.state == IndexInfo::State::building) (void)fill(collection, index.number);
  }
}

void Engine::Parts::finish_interrupted() {
  const std::lock_guard lock(catalog.changes());
  std::vector<CollectionInfo> collections;
  {
    const Catalog::View view(catalog);
    for (const auto& [id, collection] : view.all().by_id) collections.push_back(*collection);
  }
  for (CollectionInfo& collection : collections) {
    if (collection.dropping)
      (void)remove_dropped(collection);
    else
      finish_indexes(collection);
  }
}

}  // namespace perdure::engine
