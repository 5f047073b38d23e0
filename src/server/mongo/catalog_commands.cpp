#include <algorithm>

#include "engine/document/filter.h"
#include "server/mongo/command.h"

namespace perdure::server::mongo {
namespace {

constexpr std::int32_t index_version = 2;
constexpr std::string_view id_index = "_id_";

void append_index(bson_t* out, std::string_view name, std::string_view field, bool descends,
                  bool unique) {
  engine::append_int32(out, "v", index_version);
  {
    engine::DocumentBuilder key(out, "key");
    engine::append_int32(key, field, descends ? -1 : 1);
  }
  engine::append_text(out, "name", name);
  if (unique) engine::append_bool(out, "unique", true);
}

std::string describe(const engine::IndexOptions& index) {
  engine::Builder one;
  append_index(one, index.name, index.field, index.descends, index.unique);
  return std::string(one.bytes());
}

std::string describe_id_index() {
  engine::Builder one;
  append_index(one, id_index, "_id", false, false);
  return std::string(one.bytes());
}

/// {field: 1} or {field: -1}; of several fields or another kind: cannot_create_index.
Answer<Done> read_key(const bson_iter_t& key, engine::IndexOptions& index) {
  const Failure unsupported{
      Code::cannot_create_index,
      "an index must have one field, in the order 1 or -1: " + engine::json_of(key)};
  bson_iter_t field;
  std::int64_t direction = 0;
  if (!engine::is_document(key) || (field = engine::fields_of(key), !bson_iter_next(&field)) ||
      !engine::as_whole(field, direction) || (direction != 1 && direction != -1))
    return unsupported;
  index.field = engine::name_of(field);
  index.descends = direction < 0;
  if (bson_iter_next(&field)) return unsupported;
  return Done{};
}

Answer<engine::IndexOptions> read_index(std::string_view document) {
  engine::IndexOptions index;
  bson_iter_t field = engine::fields_of(document);
  while (bson_iter_next(&field)) {
    const std::string_view name = engine::name_of(field);
    if (name == "key") {
      if (Answer<Done> read = read_key(field, index); !read) return read.failure();
    } else if (name == "name" && bson_iter_type(&field) == BSON_TYPE_UTF8) {
      index.name = engine::text_of(field);
    } else if (name == "unique") {
      index.unique = engine::is_truthy(field);
    } else if (name != "v" && name != "ns" && name != "background" &&
               !(name == "sparse" && !engine::is_truthy(field)) &&
               !(name == "hidden" && !engine::is_truthy(field))) {
      return {Code::cannot_create_index,
              "indexes do not support the option '" + std::string(name) + "'"};
    }
  }
  if (index.field.empty() || index.name.empty())
    return {Code::failed_to_parse, "an index needs a key and a name"};
  return index;
}

/// What matches the option `filter`, if there is one.
Answer<std::vector<std::string>> filtered(const Call& call, std::vector<std::string> documents) {
  const Answer<std::string> filter = call.document("filter");
  if (!filter) return filter.failure();
  if (filter->empty()) return documents;
  const Answer<engine::Filter> parsed = engine::Filter::parse(*filter);
  if (!parsed) return parsed.failure();
  std::vector<std::string> found;
  for (std::string& document : documents) {
    const Answer<bool> matched = parsed->matches(document);
    if (!matched) return matched.failure();
    if (*matched) found.push_back(std::move(document));
  }
  return found;
}

Failure no_collection(const std::string& name) {
  return {Code::namespace_not_found, "ns does not exist: " + name};
}

/// The names of the indexes that the option `index` of dropIndexes means.
Answer<std::vector<std::string>> indexes_to_drop(const Call& call,
                                                 const std::vector<engine::IndexOptions>& indexes) {
  std::vector<std::string> names;
  bson_iter_t option;
  if (!engine::find_field(call.body(), "index", option))
    return {Code::failed_to_parse, "'dropIndexes' needs the option 'index'"};
  if (bson_iter_type(&option) == BSON_TYPE_UTF8 && engine::text_of(option) == "*") {
    for (const engine::IndexOptions& index : indexes) names.push_back(index.name);
  } else if (bson_iter_type(&option) == BSON_TYPE_UTF8) {
    names.emplace_back(engine::text_of(option));
  } else if (engine::is_array(option)) {
    bson_iter_t element = engine::fields_of(option);
    while (bson_iter_next(&element)) names.emplace_back(engine::text_of(element));
  } else {
    engine::IndexOptions wanted;
    if (Answer<Done> read = read_key(option, wanted); !read)
      return {Code::index_not_found, "can't find index with key: " + engine::json_of(option)};
    const auto found = std::ranges::find_if(indexes, [&](const engine::IndexOptions& index) {
      return index.field == wanted.field && index.descends == wanted.descends;
    });
    if (found != indexes.end())
      names.push_back(found->name);
    else if (wanted.field == "_id")
      names.emplace_back(id_index);
    else
      return {Code::index_not_found, "can't find index with key: " + engine::json_of(option)};
  }
  if (std::ranges::find(names, id_index) != names.end())
    return {Code::invalid_options, "cannot drop _id index"};
  return names;
}

}  // namespace

Answer<Done> run_create_indexes(Call& call) {
  if (auto checked = call.check_options({"indexes", "commitQuorum"}); !checked) return checked;
  const Answer<std::string> name = call.collection_name();
  if (!name) return name.failure();
  const auto documents = call.documents("indexes");
  if (!documents) return documents.failure();
  std::vector<engine::IndexOptions> wanted;
  for (const std::string_view document : *documents) {
    Answer<engine::IndexOptions> index = read_index(document);
    if (!index) return index.failure();
    if (index->field == "_id" && index->descends)
      return {Code::cannot_create_index,
              "the index of _id is {_id: 1}; it serves both directions, and is always there"};
    if (index->field != "_id") wanted.push_back(std::move(*index));
  }
  const Answer<bool> is_new = call.engine().create_collection(*name);
  if (!is_new) return is_new.failure();
  engine::Collection collection = call.engine().collection(*name);
  const auto count = [&] {
    const auto indexes = collection.indexes();
    return static_cast<std::int32_t>(indexes.ok() ? indexes->size() + 1 : 1);
  };
  const std::int32_t before = count();
  std::vector<std::string> made;
  for (const engine::IndexOptions& index : wanted) {
    const Answer<bool> is_made = collection.create_index(index);
    if (!is_made) {  // as MongoDB: all of them or none
      for (const std::string& before : made) (void)collection.drop_index(before);
      return is_made.failure();
    }
    if (*is_made) made.push_back(index.name);
  }
  engine::append_int32(call.reply, "numIndexesBefore", before);
  engine::append_int32(call.reply, "numIndexesAfter", count());
  engine::append_bool(call.reply, "createdCollectionAutomatically", *is_new);
  return Done{};
}

Answer<Done> run_list_indexes(Call& call) {
  if (auto checked = call.check_options({"cursor"}); !checked) return checked;
  const Answer<std::string> name = call.collection_name();
  if (!name) return name.failure();
  const auto indexes = call.engine().collection(*name).indexes();
  if (!indexes) return no_collection(*name);
  std::vector<std::string> documents{describe_id_index()};
  for (const engine::IndexOptions& index : *indexes) documents.push_back(describe(index));
  reply_with_list(call, *name, documents);
  return Done{};
}

Answer<Done> run_drop_indexes(Call& call) {
  if (auto checked = call.check_options({"index"}); !checked) return checked;
  const Answer<std::string> name = call.collection_name();
  if (!name) return name.failure();
  engine::Collection collection = call.engine().collection(*name);
  const auto indexes = collection.indexes();
  if (!indexes) return no_collection(*name);
  const auto names = indexes_to_drop(call, *indexes);
  if (!names) return names.failure();
  for (const std::string& index : *names)
    if (Answer<Done> dropped = collection.drop_index(index); !dropped) return dropped;
  engine::append_int32(call.reply, "nIndexesWas", static_cast<std::int32_t>(indexes->size() + 1));
  return Done{};
}

Answer<Done> run_list_collections(Call& call) {
  if (auto checked = call.check_options({"filter", "nameOnly", "cursor", "authorizedCollections"});
      !checked)
    return checked;
  std::vector<std::string> documents;
  for (const engine::CollectionSummary& collection : call.engine().collections(call.database)) {
    engine::Builder one;
    engine::append_text(one, "name",
                        std::string_view(collection.name).substr(call.database.size() + 1));
    engine::append_text(one, "type", "collection");
    if (!call.flag("nameOnly")) {
      {
        engine::DocumentBuilder options(one, "options");
      }
      {
        engine::DocumentBuilder info(one, "info");
        engine::append_bool(info, "readOnly", false);
      }
      engine::append_document(one, "idIndex", describe_id_index());
    }
    documents.emplace_back(one.bytes());
  }
  const auto found = filtered(call, std::move(documents));
  if (!found) return found.failure();
  reply_with_list(call, std::string(call.database) + ".$cmd.listCollections", *found);
  return Done{};
}

Answer<Done> run_list_databases(Call& call) {
  if (auto checked = call.check_options({"filter", "nameOnly", "authorizedDatabases"}); !checked)
    return checked;
  std::vector<std::string> documents;
  for (const std::string& name : call.engine().databases()) {
    engine::Builder one;
    engine::append_text(one, "name", name);
    if (!call.flag("nameOnly")) {
      // The store does not keep databases apart.
      engine::append_int64(one, "sizeOnDisk", 0);
      engine::append_bool(one, "empty", false);
    }
    documents.emplace_back(one.bytes());
  }
  const auto found = filtered(call, std::move(documents));
  if (!found) return found.failure();
  {
    engine::ArrayBuilder list(call.reply, "databases");
    for (const std::string& one : *found) engine::append_document(list, list.next(), one);
  }
  if (!call.flag("nameOnly"))
    engine::append_int64(call.reply, "totalSize",
                         static_cast<std::int64_t>(call.engine().usage().segment_bytes));
  return Done{};
}

Answer<Done> run_drop(Call& call) {
  if (auto checked = call.check_options({}); !checked) return checked;
  const Answer<std::string> name = call.collection_name();
  if (!name) return name.failure();
  const auto indexes = call.engine().collection(*name).indexes();
  const Answer<bool> dropped = call.engine().drop_collection(*name);
  if (!dropped) return dropped.failure();
  if (!*dropped) return {Code::namespace_not_found, "ns not found"};
  engine::append_int32(call.reply, "nIndexesWas",
                       static_cast<std::int32_t>(indexes.ok() ? indexes->size() + 1 : 1));
  engine::append_text(call.reply, "ns", *name);
  return Done{};
}

Answer<Done> run_drop_database(Call& call) {
  if (auto checked = call.check_options({}); !checked) return checked;
  if (Answer<Done> dropped = call.engine().drop_database(call.database); !dropped) return dropped;
  engine::append_text(call.reply, "dropped", call.database);
  return Done{};
}

}  // namespace perdure::server::mongo
