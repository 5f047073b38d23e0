// What an engine is made of, for its own files: the store, the catalog, and changes of the catalog.
#pragma once

#include <memory>
#include <string_view>

#include "engine/document/catalog.h"
#include "engine/document/engine.h"

namespace perdure::engine {

struct Engine::Parts {
  Catalog catalog;
  std::unique_ptr<DocumentStore> store;

  // All take the catalog's lock of changes, and wait for queries that run.
  Answer<bool> create_collection(std::string_view name);
  Answer<bool> drop_collection(std::string_view name);
  Answer<Done> drop_database(std::string_view database);
  Answer<bool> create_index(std::string_view collection, const IndexOptions& options);
  Answer<Done> drop_index(std::string_view collection, std::string_view index);
  /// At opening.
  void finish_interrupted();

 private:
  // The caller holds the lock of changes.
  [[nodiscard]] std::optional<CollectionInfo> find(std::string_view name);
  Answer<CollectionInfo> find_or_create(std::string_view name);
  Answer<Done> mark_as_dropping(CollectionInfo& collection);
  Answer<Done> remove_dropped(const CollectionInfo& collection);
  Answer<Done> fill(CollectionInfo& collection, std::uint16_t number);
  Answer<Done> fill_entries(const CollectionInfo& collection, const IndexInfo& index);
  void finish_indexes(CollectionInfo& collection);
  Answer<Done> remove_index(CollectionInfo& collection, std::uint16_t number);
};

/// Whether a document can be indexed as its collection asks. Errors: key_too_long,
/// unsupported_format.
[[nodiscard]] Answer<Done> check_indexable(const CollectionInfo& collection,
                                           std::string_view document);
/// E11000, with the name of the index that holds another document's equal value.
[[nodiscard]] Failure duplicate_failure(DocumentStore& store, const CollectionInfo& collection,
                                        std::string_view key, std::string_view document);
/// E11000 for the _id of `document`.
[[nodiscard]] Failure duplicate_id_failure(const CollectionInfo& collection,
                                           std::string_view document);
/// "database.collection". Errors: invalid_namespace.
[[nodiscard]] Answer<Done> check_name(std::string_view name);

}  // namespace perdure::engine
