#include "engine/document/catalog.h"

#include <algorithm>

namespace perdure::engine {
namespace {

std::string catalog_key(std::string_view name) {
  Builder one;
  append_text(one, "_id", name);
  bson_iter_t id = fields_of(one.bytes());
  bson_iter_next(&id);
  std::string key = collection_prefix(catalog_collection);
  (void)encode(id, key);
  return key;
}

}  // namespace

Failure failure_of(Status status, std::string_view what) {
  const std::string of(what);
  switch (status) {
    case Status::exists:
    case Status::duplicate:
      return {Code::duplicate_key, "E11000 duplicate key error: " + of};
    case Status::out_of_space:
      return {Code::out_of_disk_space, "no room in the pool: " + of};
    case Status::too_long:
      return {Code::key_too_long, "a key or a document is too long: " + of};
    case Status::corrupt:
      return {Code::operation_failed,
              "a damaged record, which does not agree with its checksum, in " + of +
                  "; stop the server and run perdure engine check"};
    default:
      return {Code::internal_error, std::string(name_of(status)) + ": " + of};
  }
}

auto Catalog::View::find(std::string_view name) const noexcept -> const CollectionInfo* {
  const auto found = snapshot_.by_name.find(name);
  return found != snapshot_.by_name.end() ? found->second.get() : nullptr;
}

auto Catalog::View::find(std::uint32_t id) const noexcept -> const CollectionInfo* {
  const auto found = snapshot_.by_id.find(id);
  return found != snapshot_.by_id.end() ? found->second.get() : nullptr;
}

// Recovery asks before `load`, once the catalog's own writes are finished, because their keys are
// the least.
auto Catalog::snapshot() const -> const Snapshot& {
  if (const Snapshot* now = current_.load(std::memory_order_acquire)) return *now;
  const std::lock_guard lock(loading_);
  if (current_.load(std::memory_order_relaxed) == nullptr) {
    Result<std::unique_ptr<Snapshot>> read = read_all();
    owned_ = read ? std::move(*read) : std::make_unique<Snapshot>();
    current_.store(owned_.get(), std::memory_order_release);
  }
  return *owned_;
}

bool Catalog::has_entries(std::string_view key) const {
  const std::uint32_t collection = collection_of(key);
  if (collection < first_collection || collection >= end_of_collections) return false;
  const Snapshot& now = snapshot();
  const auto found = now.by_id.find(collection);
  return found != now.by_id.end() && !found->second->indexes.empty();
}

void Catalog::entries(std::string_view key, std::string_view document, Entries& out) const {
  const std::uint32_t collection = collection_of(key);
  if (collection < first_collection || collection >= end_of_collections) return;
  const Snapshot& now = snapshot();
  const auto found = now.by_id.find(collection);
  if (found == now.by_id.end()) return;
  std::vector<std::string> values;
  for (const IndexInfo& index : found->second->indexes) {
    if (index.state == IndexInfo::State::dropping) continue;
    bool through_array = false;
    // Writers that know the index have refused such a document; who fills the index will, too (C1).
    if (index_values(index.path, document, values, through_array) != Indexable::yes) continue;
    const std::string prefix = index_prefix(collection, index.number);
    for (const std::string& value : values) out.add(index.unique).append(prefix).append(value);
    if (through_array) out.add().append(prefix).append(array_mark);
  }
}

auto Catalog::read_all() const -> Result<std::unique_ptr<Snapshot>> {
  auto read = std::make_unique<Snapshot>();
  const KeyRange range = range_of_prefix(collection_prefix(catalog_collection));
  std::vector<DocumentStore::Found> found;
  std::uint64_t corrupt = 0;
  std::string next = range.from;
  while (!next.empty()) {
    const std::string from = std::move(next);
    found.clear();
    store_->scan(from, range.to, 256, found, next, corrupt);
    for (const DocumentStore::Found& one : found) {
      Answer<CollectionInfo> collection = to_collection(one.document);
      if (!collection) {
        ++corrupt;
        continue;
      }
      auto shared = std::make_shared<const CollectionInfo>(std::move(*collection));
      if (!shared->dropping) read->by_name[shared->name] = shared;
      read->by_id[shared->id] = std::move(shared);
    }
  }
  if (corrupt != 0)
    return Error{ErrorCode::corrupt,
                 std::to_string(corrupt) + " entries of the catalog are damaged", "",
                 "restore the pool from a copy"};
  return read;
}

Result<void> Catalog::load() {
  const std::lock_guard lock(changes_);
  Result<std::unique_ptr<Snapshot>> read = read_all();
  if (!read) return read.error();
  for (const auto& [id, collection] : (*read)->by_id) next_id_ = std::max(next_id_, id + 1);
  publish(std::move(*read));
  return {};
}

void Catalog::publish(std::unique_ptr<Snapshot> next) {
  const std::unique_ptr<const Snapshot> before = std::move(owned_);
  owned_ = std::move(next);
  current_.store(owned_.get(), std::memory_order_seq_cst);
  readers_.wait_for_pinned();  // C1
}

Answer<Done> Catalog::save(const CollectionInfo& collection) {
  const Status status =
      store_->put(catalog_key(collection.name), to_document(collection), Put::upsert);
  if (status != Status::ok) return failure_of(status, "catalog of " + collection.name);
  auto next = std::make_unique<Snapshot>(*owned_);
  auto shared = std::make_shared<const CollectionInfo>(collection);
  next->by_id[collection.id] = shared;
  if (collection.dropping)
    next->by_name.erase(collection.name);
  else
    next->by_name[collection.name] = std::move(shared);
  publish(std::move(next));
  return Done{};
}

Answer<Done> Catalog::forget(const CollectionInfo& collection) {
  const Status status = store_->remove(catalog_key(collection.name));
  if (status != Status::ok && status != Status::not_found)
    return failure_of(status, "catalog of " + collection.name);
  auto next = std::make_unique<Snapshot>(*owned_);
  next->by_id.erase(collection.id);
  next->by_name.erase(collection.name);
  publish(std::move(next));
  return Done{};
}

Answer<std::uint32_t> Catalog::new_collection_id() {
  if (next_id_ >= end_of_collections)
    return {Code::operation_failed, "no more collections can be made until the pool is reopened"};
  return next_id_++;
}

}  // namespace perdure::engine
