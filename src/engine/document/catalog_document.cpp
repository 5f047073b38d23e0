// How the catalog keeps a collection:
//   {name: "db.people", id: 2, dropping: false,
//    indexes: [{number: 1, name: "age_1", path: "age", descends: false, unique: false, state: 1}]}
#include "engine/document/catalog.h"

namespace perdure::engine {
namespace {

Failure malformed_entry() { return {Code::invalid_bson, "an entry of the catalog is malformed"}; }

bool read_text(std::string_view document, std::string_view name, std::string& out) {
  bson_iter_t field;
  if (!find_field(document, name, field) || bson_iter_type(&field) != BSON_TYPE_UTF8) return false;
  out = text_of(field);
  return true;
}

bool read_flag(std::string_view document, std::string_view name, bool& out) {
  bson_iter_t field;
  if (!find_field(document, name, field) || bson_iter_type(&field) != BSON_TYPE_BOOL) return false;
  out = bson_iter_bool(&field);
  return true;
}

bool read_number(std::string_view document, std::string_view name, std::int64_t least,
                 std::int64_t most, std::int64_t& out) {
  bson_iter_t field;
  return find_field(document, name, field) && as_whole(field, out) && out >= least && out <= most;
}

bool read_index(std::string_view document, IndexInfo& index) {
  std::int64_t number = 0;
  std::int64_t state = 0;
  std::string path;
  if (!read_number(document, "number", 1, 0xFFFF, number) ||
      !read_number(document, "state", 0, 2, state) || !read_text(document, "name", index.name) ||
      !read_text(document, "path", path) || !read_flag(document, "descends", index.descends) ||
      !read_flag(document, "unique", index.unique))
    return false;
  Answer<FieldPath> parsed = FieldPath::parse(path);
  if (!parsed) return false;
  index.path = std::move(*parsed);
  index.number = static_cast<std::uint16_t>(number);
  index.state = static_cast<IndexInfo::State>(state);
  return true;
}

}  // namespace

const IndexInfo* CollectionInfo::find_index(std::string_view index) const noexcept {
  for (const IndexInfo& candidate : indexes)
    if (candidate.name == index && candidate.state != IndexInfo::State::dropping) return &candidate;
  return nullptr;
}

std::string to_document(const CollectionInfo& collection) {
  Builder out;
  append_text(out, "name", collection.name);
  append_int64(out, "id", collection.id);
  append_bool(out, "dropping", collection.dropping);
  {
    ArrayBuilder indexes(out, "indexes");
    for (const IndexInfo& index : collection.indexes) {
      DocumentBuilder one(indexes, indexes.next());
      append_int32(one, "number", index.number);
      append_text(one, "name", index.name);
      append_text(one, "path", index.path.text());
      append_bool(one, "descends", index.descends);
      append_bool(one, "unique", index.unique);
      append_int32(one, "state", static_cast<std::int32_t>(index.state));
    }
  }
  return std::string(out.bytes());
}

Answer<CollectionInfo> to_collection(std::string_view document) {
  if (!check_document(document)) return malformed_entry();
  CollectionInfo collection;
  std::int64_t id = 0;
  bson_iter_t indexes;
  if (!read_text(document, "name", collection.name) ||
      !read_number(document, "id", first_collection, end_of_collections - 1, id) ||
      !read_flag(document, "dropping", collection.dropping) ||
      !find_field(document, "indexes", indexes) || !is_array(indexes))
    return malformed_entry();
  collection.id = static_cast<std::uint32_t>(id);
  bson_iter_t entry = fields_of(indexes);
  while (bson_iter_next(&entry)) {
    IndexInfo index;
    if (!is_document(entry) || !read_index(bytes_of(entry), index)) return malformed_entry();
    collection.indexes.push_back(std::move(index));
  }
  return collection;
}

}  // namespace perdure::engine
