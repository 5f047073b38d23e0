// Engine: collections of BSON documents in a pool, with secondary indexes. This is the interface
// for programs; a server for MongoDB's clients stands on it (server/mongo/).
//
//   auto engine = Engine::create(*pool).value();
//   Collection people = engine->collection("test.people");
//   if (auto done = people.insert(from_json(R"({"_id": 1, "name": "Ada"})").value()); !done)
//     puts(done.failure().message.c_str());
//   Cursor cursor = people.find({.filter = from_json(R"({"name": "Ada"})").value()}).value();
//   while (auto document = cursor.next().value()) puts(to_json(*document).c_str());
//
// Documents, filters and updates are BSON, as bytes. Filters know $eq $ne $gt $gte $lt $lte $in
// $nin $exists $not $and $or $nor, updates $set $unset $inc $setOnInsert and replacement; anything
// else is an error that names it. A write that has returned is durable. A write of one document is
// atomic; one of several is not, as in MongoDB without transactions. Any number of threads may use
// one engine.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "engine/document/errors.h"
#include "engine/store/store_types.h"
#include "pool/pool.h"

namespace perdure::engine {

class DocumentStore;

/// From MongoDB's extended JSON. Errors: failed_to_parse.
[[nodiscard]] Answer<std::string> from_json(std::string_view json);
[[nodiscard]] std::string to_json(std::string_view document);

struct FindOptions {
  std::string filter{};      ///< empty: all
  std::string projection{};  ///< empty: whole documents
  std::string sort{};        ///< empty: any order
  std::uint64_t skip = 0;
  std::uint64_t limit = 0;  ///< 0: none
  /// Leaves damaged documents out and only counts them (Cursor::corrupt).
  bool skips_damaged = false;
};

struct UpdateOptions {
  bool many = false;    ///< all that match, not only the first
  bool upsert = false;  ///< insert a document where none matches
};

struct UpdateResult {
  std::uint64_t matched = 0;
  std::uint64_t modified = 0;             ///< matched, and not as it was to be already
  std::optional<std::string> upserted{};  ///< {_id: ...} of what was inserted
};

struct IndexOptions {
  std::string field{};  ///< a dotted path
  std::string name{};   ///< empty: the field and "_1"
  bool unique = false;
  bool descends = false;  ///< kept for who asks; an index serves both directions
};

struct CollectionSummary {
  std::string name;  ///< "database.collection"
  std::uint32_t id = 0;
  std::vector<IndexOptions> indexes;  ///< that are ready, but for that of _id
};

/// Results of a query, a batch at a time. Between batches it holds no lock. Not thread-safe.
class Cursor {
 public:
  Cursor(Cursor&&) noexcept;
  Cursor& operator=(Cursor&&) noexcept;
  ~Cursor();

  /// At most so many documents, of about so many bytes; fewer only at the end. Errors:
  /// operation_failed where the collection or the index was dropped, or where a damaged document
  /// was met: after all others, or instead of the last that the limit allows, because nobody would
  /// ask for more; query_exceeded_memory_limit; unsupported_format.
  [[nodiscard]] Answer<std::vector<std::string>> next_batch(std::size_t most_documents,
                                                            std::size_t most_bytes);
  /// Nothing at the end.
  [[nodiscard]] Answer<std::optional<std::string>> next();
  [[nodiscard]] bool is_exhausted() const noexcept;
  /// Documents that were left out so far, because they do not agree with their checksums.
  [[nodiscard]] std::uint64_t corrupt() const noexcept;
  /// For whoever takes no further batch. Errors: operation_failed where a damaged document was met,
  /// unless the query skips them.
  [[nodiscard]] Answer<Done> check_whole() const;

 private:
  friend class Collection;
  struct State;
  explicit Cursor(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

class Engine;

/// A name in an engine: cheap to make and to copy. The collection itself is made by its first
/// write.
class Collection {
 public:
  [[nodiscard]] const std::string& name() const noexcept { return name_; }

  /// An _id is made where there is none. Errors: duplicate_key, bson_object_too_large,
  /// key_too_long, invalid_bson, invalid_id_field, out_of_disk_space, unsupported_format.
  Answer<Done> insert(std::string_view document);
  /// For whoever has called check_document on it.
  Answer<Done> insert_checked(std::string_view document);
  // A damaged document may match or not. Changes of many, and removals, leave it as it is, go on
  // with the rest, and fail then with operation_failed; so does what finds no other document, and a
  // count by a filter.

  /// Errors: bad_value and the like for what is not supported.
  [[nodiscard]] Answer<Cursor> find(const FindOptions& options = {});
  Answer<UpdateResult> update(std::string_view filter, std::string_view update,
                              const UpdateOptions& options = {});
  /// The first that matches, or all; how many those were.
  Answer<std::uint64_t> remove(std::string_view filter, bool many = false);
  /// Cost: a look at each key, and at each document that a filter may match.
  [[nodiscard]] Answer<std::uint64_t> count(std::string_view filter = {}, std::uint64_t skip = 0,
                                            std::uint64_t limit = 0);

  /// Fills the index from the documents that are there, beside other writers. False: it exists.
  /// Errors: duplicate_key, key_too_long, cannot_create_index, index_options_conflict,
  /// index_key_specs_conflict, out_of_disk_space; operation_failed where a document is damaged.
  Answer<bool> create_index(const IndexOptions& index);
  /// Errors: namespace_not_found, index_not_found.
  Answer<Done> drop_index(std::string_view index);
  /// Errors: namespace_not_found.
  [[nodiscard]] Answer<std::vector<IndexOptions>> indexes() const;

 private:
  friend class Engine;
  Collection(Engine& engine, std::string name) : engine_(&engine), name_(std::move(name)) {}
  struct Writing;

  Answer<UpdateResult> update_matching(const Writing& writing);

  Engine* engine_;
  std::string name_;
};

class Engine {
 public:
  /// Errors: exists, out_of_space, usage, unsupported.
  [[nodiscard]] static Result<std::unique_ptr<Engine>> create(Pool& pool,
                                                              const StoreOptions& options = {});
  /// Recovers, and finishes what a crash interrupted: drops, and indexes that were being filled.
  /// Errors: not_found, foreign, newer, corrupt, out_of_space.
  [[nodiscard]] static Result<std::unique_ptr<Engine>> open(Pool& pool,
                                                            const StoreOptions& options = {});
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  /// Before the pool is closed; no other operation may run then or afterwards.
  void settle();

  /// "database.collection".
  [[nodiscard]] Collection collection(std::string_view name);
  /// False: it exists. Errors: invalid_namespace, out_of_disk_space.
  Answer<bool> create_collection(std::string_view name);
  /// False: there is none. In a full pool it makes room as it goes.
  Answer<bool> drop_collection(std::string_view name);
  Answer<Done> drop_database(std::string_view database);
  [[nodiscard]] std::vector<std::string> databases();
  /// In the order of their names.
  [[nodiscard]] std::vector<CollectionSummary> collections(std::string_view database);

  [[nodiscard]] StoreUsage usage() const;
  /// What is wrong with records and index entries; no other operation may run.
  [[nodiscard]] std::vector<Finding> check(std::size_t most) const;
  /// The store beneath; its collection 1 is for whoever keeps raw keys and values there.
  [[nodiscard]] DocumentStore& store() noexcept;

  /// What collections and cursors use.
  struct Parts;
  [[nodiscard]] Parts& parts() noexcept { return *parts_; }

 private:
  explicit Engine(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace perdure::engine
