#include "engine/document/engine.h"

#include <algorithm>

#include "engine/document/parts.h"

namespace perdure::engine {

Answer<std::string> from_json(std::string_view json) {
  bson_error_t error;
  bson_t* parsed = bson_new_from_json(reinterpret_cast<const std::uint8_t*>(json.data()),
                                      static_cast<ssize_t>(json.size()), &error);
  if (parsed == nullptr) return {Code::failed_to_parse, error.message};
  std::string document(reinterpret_cast<const char*>(bson_get_data(parsed)), parsed->len);
  bson_destroy(parsed);
  return document;
}

std::string to_json(std::string_view document) {
  if (!check_document(document)) return "?";
  return json_of(document, std::string::npos);
}

Engine::Engine(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Engine::~Engine() = default;

Result<std::unique_ptr<Engine>> Engine::create(Pool& pool, const StoreOptions& options) {
  auto parts = std::make_unique<Parts>();
  auto store = DocumentStore::create(pool, options, parts->catalog);
  if (!store) return store.error();
  parts->store = std::move(*store);
  if (Result<void> loaded = parts->catalog.load(); !loaded) return loaded.error();
  return std::unique_ptr<Engine>(new Engine(std::move(parts)));
}

Result<std::unique_ptr<Engine>> Engine::open(Pool& pool, const StoreOptions& options) {
  auto parts = std::make_unique<Parts>();
  auto store = DocumentStore::recover(pool, options, parts->catalog);
  if (!store) return store.error();
  parts->store = std::move(*store);
  if (Result<void> loaded = parts->catalog.load(); !loaded) return loaded.error();
  parts->finish_interrupted();
  return std::unique_ptr<Engine>(new Engine(std::move(parts)));
}

void Engine::settle() { parts_->store->settle(); }

Collection Engine::collection(std::string_view name) { return {*this, std::string(name)}; }

Answer<bool> Engine::create_collection(std::string_view name) {
  return parts_->create_collection(name);
}
Answer<bool> Engine::drop_collection(std::string_view name) {
  return parts_->drop_collection(name);
}
Answer<Done> Engine::drop_database(std::string_view database) {
  return parts_->drop_database(database);
}

std::vector<std::string> Engine::databases() {
  const Catalog::View view(parts_->catalog);
  std::vector<std::string> names;
  for (const auto& [name, collection] : view.all().by_name) {
    std::string database = name.substr(0, name.find('.'));
    if (std::ranges::find(names, database) == names.end()) names.push_back(std::move(database));
  }
  return names;
}

std::vector<CollectionSummary> Engine::collections(std::string_view database) {
  const Catalog::View view(parts_->catalog);
  std::vector<CollectionSummary> found;
  const std::string prefix = std::string(database) + '.';
  for (const auto& [name, collection] : view.all().by_name) {
    if (!name.starts_with(prefix)) continue;
    CollectionSummary& summary = found.emplace_back(CollectionSummary{name, collection->id, {}});
    for (const IndexInfo& index : collection->indexes)
      if (index.state == IndexInfo::State::ready)
        summary.indexes.push_back({index.path.text(), index.name, index.unique, index.descends});
  }
  return found;
}

StoreUsage Engine::usage() const { return parts_->store->usage(); }
std::vector<Finding> Engine::check(std::size_t most) const { return parts_->store->check(most); }
DocumentStore& Engine::store() noexcept { return *parts_->store; }

}  // namespace perdure::engine
