#include <algorithm>

#include "engine/document/parts.h"
#include "engine/document/scan.h"
#include "engine/document/update.h"

namespace perdure::engine {
namespace {

/// An upsert that another one anticipates sees its document at the next attempt.
constexpr int upsert_attempts = 3;

Failure duplicate(const std::string& collection, std::string_view index, std::string_view field,
                  const std::string& value) {
  return {Code::duplicate_key, "E11000 duplicate key error collection: " + collection +
                                   " index: " + std::string(index) + " dup key: { " +
                                   std::string(field) + ": " + value + " }"};
}

Answer<Filter> parse_filter(std::string_view filter) {
  if (filter.empty()) return Filter();
  if (Answer<Done> checked = check_document(filter); !checked) return checked.failure();
  return Filter::parse(filter);
}

/// Changes a document if it still matches.
class Updating final : public DocumentStore::Change {
 public:
  Updating(const CollectionInfo& collection, const Filter& filter, const Update& update)
      : collection_(collection), filter_(filter), update_(update) {}

  bool operator()(const std::string* document, std::string& out, bool&) override {
    matched_ = false;
    if (document == nullptr) return false;
    const Answer<bool> matched = filter_.matches(*document);
    if (!matched) return fail(matched.failure());
    matched_ = *matched;
    if (!matched_) return false;
    if (Answer<Done> done = update_.apply(*document, out); !done) return fail(done.failure());
    if (out == *document) return false;
    if (Answer<Done> done = check_indexable(collection_, out); !done) return fail(done.failure());
    written_ = out;
    return true;
  }
  [[nodiscard]] bool matched() const noexcept { return matched_; }
  [[nodiscard]] const std::optional<Failure>& failure() const noexcept { return failure_; }
  [[nodiscard]] const std::string& written() const noexcept { return written_; }

 private:
  bool fail(const Failure& failure) {
    failure_ = failure;
    return false;
  }

  const CollectionInfo& collection_;
  const Filter& filter_;
  const Update& update_;
  bool matched_ = false;
  std::optional<Failure> failure_;
  std::string written_;  ///< for messages
};

class Removing final : public DocumentStore::Change {
 public:
  explicit Removing(const Filter& filter) : filter_(filter) {}

  bool operator()(const std::string* document, std::string&, bool& remove) override {
    if (document == nullptr) return false;
    const Answer<bool> matched = filter_.matches(*document);
    if (!matched) failure_ = matched.failure();
    remove = matched.ok() && *matched;
    return remove;
  }
  [[nodiscard]] const std::optional<Failure>& failure() const noexcept { return failure_; }

 private:
  const Filter& filter_;
  std::optional<Failure> failure_;
};

/// Keys of documents that a filter may match, a piece at a time; the filter is evaluated again
/// under the lock of each.
class Candidates {
 public:
  /// `all_first`: writes may move documents within the index that is followed, so that they would
  /// be met again.
  Candidates(Engine::Parts& parts, const CollectionInfo& collection, const Filter& filter,
             bool many, bool all_first)
      : scan_(*parts.store, parts.catalog, make_plan(*parts.store, collection, filter, Sort()),
              filter),
        piece_(many ? Scan::most_in_piece : 1),
        all_first_(all_first && scan_.plan().index.has_value()) {}

  [[nodiscard]] bool is_done() const noexcept { return is_done_; }
  /// A damaged document, which may match, was left out.
  [[nodiscard]] bool met_damage() const noexcept { return scan_.corrupt() != 0; }
  Answer<Done> next(std::vector<std::string>& keys) {
    keys.clear();
    if (scan_.plan().is_points) {  // the documents need not be read here
      for (const KeyRange& range : scan_.plan().ranges) keys.push_back(range.from);
      is_done_ = true;
      return Done{};
    }
    std::vector<DocumentStore::Found> found;
    do {
      found.clear();
      if (Answer<Done> read = scan_.next(piece_, found); !read) return read;
      piece_ = std::min(2 * piece_, Scan::most_in_piece);
      for (DocumentStore::Found& one : found) keys.push_back(std::move(one.key));
    } while (!scan_.is_done() && (all_first_ || keys.empty()));
    is_done_ = scan_.is_done();
    return Done{};
  }

 private:
  Scan scan_;
  std::size_t piece_;
  bool all_first_;
  bool is_done_ = false;
};

}  // namespace

Answer<Done> check_indexable(const CollectionInfo& collection, std::string_view document) {
  std::vector<std::string> values;
  for (const IndexInfo& index : collection.indexes) {
    if (index.state == IndexInfo::State::dropping) continue;
    bool through_array = false;
    switch (index_values(index.path, document, values, through_array)) {
      case Indexable::yes:
        break;
      case Indexable::has_decimal:
        return {Code::unsupported_format,
                "a Decimal128 in the indexed field '" + index.path.text() + "' is not supported"};
      case Indexable::too_long:
        return {Code::key_too_long, "the value of the indexed field '" + index.path.text() +
                                        "' takes more than " + std::to_string(max_entry_bytes) +
                                        " bytes as a key"};
    }
  }
  return Done{};
}

Failure duplicate_id_failure(const CollectionInfo& collection, std::string_view document) {
  bson_iter_t id;
  const std::string value = find_field(document, "_id", id) ? json_of(id) : "?";
  return duplicate(collection.name, "_id_", "_id", value);
}

Failure duplicate_failure(DocumentStore& store, const CollectionInfo& collection,
                          std::string_view key, std::string_view document) {
  std::vector<std::string> values;
  for (const IndexInfo& index : collection.indexes) {
    bool through_array = false;
    if (!index.unique ||
        index_values(index.path, document, values, through_array) != Indexable::yes)
      continue;
    const std::string prefix = index_prefix(collection.id, index.number);
    for (const std::string& value : values) {
      const KeyRange range = range_of_prefix(prefix + value);
      std::vector<DocumentStore::Entry> entries;
      std::string next;
      store.scan_entries(range.from, range.to, 1, entries, next);
      std::string other_key;
      std::string other;
      if (entries.empty() || store.read(entries[0].id, other_key, other) != Status::ok ||
          other_key == key)
        continue;
      std::string shown = "?";
      index.path.walk(document, [&](const Reached& reached) {
        shown = reached.value != nullptr ? json_of(*reached.value) : "null";
        std::string encoded;
        if (reached.value == nullptr)
          encode_missing(encoded);
        else
          (void)encode(*reached.value, encoded);
        return encoded != value;
      });
      return duplicate(collection.name, index.name, index.path.text(), shown);
    }
  }
  return duplicate(collection.name, "?", "?", "?");
}

Answer<Done> Collection::insert(std::string_view document) {
  if (Answer<Done> checked = check_document(document); !checked) return checked;
  return insert_checked(document);
}

Answer<Done> Collection::insert_checked(std::string_view document) {
  std::string with_id;
  if (put_id_first(document, with_id)) document = with_id;
  if (document.size() > max_document_bytes)
    return {Code::bson_object_too_large, "the document has " + std::to_string(document.size()) +
                                             " bytes; at most " +
                                             std::to_string(max_document_bytes) + " are allowed"};
  bson_iter_t id;
  if (!find_field(document, "_id", id)) return {Code::internal_error, "a document without an _id"};
  if (Answer<Done> checked = check_id(id); !checked) return checked;
  Engine::Parts& parts = engine_->parts();
  for (;;) {
    {
      const Catalog::View view(parts.catalog);
      if (const CollectionInfo* collection = view.find(name_)) {
        if (Answer<Done> checked = check_indexable(*collection, document); !checked) return checked;
        const Answer<std::string> key = key_of(collection->id, id);
        if (!key) return key.failure();
        const Status status = parts.store->put(*key, document, Put::insert);
        if (status == Status::ok) return Done{};
        if (status == Status::exists) return duplicate_id_failure(*collection, document);
        if (status == Status::duplicate)
          return duplicate_failure(*parts.store, *collection, *key, document);
        return failure_of(status, name_);
      }
    }
    if (Answer<bool> made = parts.create_collection(name_); !made) return made.failure();
  }
}

struct Collection::Writing {
  const Filter& filter;
  const Update& update;
  bool many;
};

Answer<UpdateResult> Collection::update(std::string_view filter, std::string_view update,
                                        const UpdateOptions& options) {
  const Answer<Filter> parsed_filter = parse_filter(filter);
  if (!parsed_filter) return parsed_filter.failure();
  if (Answer<Done> checked = check_document(update); !checked) return checked.failure();
  const Answer<Update> parsed = Update::parse(update);
  if (!parsed) return parsed.failure();
  if (options.many && parsed->is_replacement())
    return {Code::failed_to_parse, "a replacement is for one document; use operators for many"};
  for (int attempt = 1;; ++attempt) {
    Answer<UpdateResult> result = update_matching({*parsed_filter, *parsed, options.many});
    if (!result || result->matched > 0 || !options.upsert) return result;
    std::string made;
    if (Answer<Done> done = parsed->make(*parsed_filter, made); !done) return done.failure();
    if (Answer<Done> done = insert_checked(made); !done) {
      if (done.failure().code == Code::duplicate_key && attempt < upsert_attempts) continue;
      return done.failure();
    }
    bson_iter_t id;
    Builder upserted;
    if (find_field(made, "_id", id)) append_value(upserted, "_id", id);
    result->upserted = std::string(upserted.bytes());
    return result;
  }
}

Answer<UpdateResult> Collection::update_matching(const Writing& writing) {
  Engine::Parts& parts = engine_->parts();
  UpdateResult result;
  std::optional<Candidates> candidates;
  {
    const Catalog::View view(parts.catalog);
    const CollectionInfo* collection = view.find(name_);
    if (collection == nullptr) return result;
    candidates.emplace(parts, *collection, writing.filter, writing.many, writing.many);
  }
  std::vector<std::string> keys;
  bool met_damage = false;
  while (!candidates->is_done()) {
    if (Answer<Done> read = candidates->next(keys); !read) return read.failure();
    for (const std::string& key : keys) {
      const Catalog::View view(parts.catalog);
      const CollectionInfo* collection = view.find(collection_of(key));
      if (collection == nullptr || collection->dropping) return result;
      Updating change(*collection, writing.filter, writing.update);
      const Status status = parts.store->modify(key, change);
      if (change.failure()) return *change.failure();
      if (status == Status::duplicate)
        return duplicate_failure(*parts.store, *collection, key, change.written());
      met_damage = met_damage || status == Status::corrupt;
      if (status != Status::ok && status != Status::unchanged && status != Status::corrupt)
        return failure_of(status, name_);
      if (change.matched()) ++result.matched;
      if (status == Status::ok) ++result.modified;
      if (change.matched() && !writing.many) return result;
    }
  }
  if (met_damage || candidates->met_damage()) return failure_of(Status::corrupt, name_);
  return result;
}

Answer<std::uint64_t> Collection::remove(std::string_view filter, bool many) {
  const Answer<Filter> parsed = parse_filter(filter);
  if (!parsed) return parsed.failure();
  Engine::Parts& parts = engine_->parts();
  std::uint64_t removed = 0;
  std::optional<Candidates> candidates;
  {
    const Catalog::View view(parts.catalog);
    const CollectionInfo* collection = view.find(name_);
    if (collection == nullptr) return removed;
    candidates.emplace(parts, *collection, *parsed, many, false);
  }
  std::vector<std::string> keys;
  bool met_damage = false;
  while (!candidates->is_done()) {
    if (Answer<Done> read = candidates->next(keys); !read) return read.failure();
    for (const std::string& key : keys) {
      const Catalog::View view(parts.catalog);
      Removing change(*parsed);
      const Status status = parts.store->modify(key, change);
      if (change.failure()) return *change.failure();
      if (status == Status::ok) ++removed;
      met_damage = met_damage || status == Status::corrupt;
      if (status != Status::ok && status != Status::unchanged && status != Status::not_found &&
          status != Status::corrupt)
        return failure_of(status, name_);
      if (status == Status::ok && !many) return removed;
    }
  }
  if (met_damage || candidates->met_damage()) return failure_of(Status::corrupt, name_);
  return removed;
}

Answer<bool> Collection::create_index(const IndexOptions& index) {
  return engine_->parts().create_index(name_, index);
}

Answer<Done> Collection::drop_index(std::string_view index) {
  return engine_->parts().drop_index(name_, index);
}

Answer<std::vector<IndexOptions>> Collection::indexes() const {
  for (CollectionSummary& one :
       engine_->collections(std::string_view(name_).substr(0, name_.find('.'))))
    if (one.name == name_) return std::move(one.indexes);
  return {Code::namespace_not_found, "no collection '" + name_ + "'"};
}

}  // namespace perdure::engine
