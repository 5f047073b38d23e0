#include "engine/document/update.h"

#include "engine/store/document_store.h"

namespace perdure::engine {
namespace {

Failure changes_id() {
  return {Code::immutable_field,
          "performing an update on the path '_id' would modify the immutable field '_id'"};
}

Answer<Done> check_size(std::size_t bytes) {
  if (bytes <= max_document_bytes) return Done{};
  return {Code::bson_object_too_large, "the document would have " + std::to_string(bytes) +
                                           " bytes; at most " + std::to_string(max_document_bytes) +
                                           " are allowed"};
}

/// Negative: the operator is not supported.
int kind_of(std::string_view name) {
  if (name == "$set") return static_cast<int>(Edit::Kind::set);
  if (name == "$unset") return static_cast<int>(Edit::Kind::unset);
  if (name == "$inc") return static_cast<int>(Edit::Kind::add);
  if (name == "$setOnInsert") return static_cast<int>(Edit::Kind::set_on_insert);
  return -1;
}

/// Whether `document` has the _id `id`, as values compare.
bool has_id(std::string_view document, const bson_iter_t& id) {
  bson_iter_t other;
  bool has_decimal = false;
  return find_field(document, "_id", other) && compare(other, id, has_decimal) == 0 && !has_decimal;
}

Answer<Done> add_equalities(const Filter& filter, Edit& root) {
  for (const Filter::Node& node : filter.conditions())
    if (node.kind == Filter::Kind::equal)
      if (Answer<Done> added = add_edit(root, node.path, Edit::Kind::set, node.operands.front().at);
          !added)
        return added;
  return Done{};
}

}  // namespace

Answer<Update> Update::parse(std::string_view document) {
  Update update;
  update.document_ = std::make_shared<const std::string>(document);
  bson_iter_t entry = fields_of(*update.document_);
  bool is_first = true;
  while (bson_iter_next(&entry)) {
    const std::string_view name = name_of(entry);
    const bool is_operator = name.starts_with('$');
    if (is_first) update.is_replacement_ = !is_operator;
    is_first = false;
    if (is_operator == update.is_replacement_)
      return {
          Code::failed_to_parse,
          "an update has either operators or fields of a replacement: '" + std::string(name) + "'"};
    if (is_operator)
      if (Answer<Done> read = update.read_operator(name, entry); !read) return read.failure();
  }
  return update;
}

Answer<Done> Update::read_operator(std::string_view name, const bson_iter_t& fields) {
  const int kind = kind_of(name);
  if (kind < 0)
    return {Code::failed_to_parse,
            "the operator " + std::string(name) + " is not supported in an update"};
  if (!is_document(fields))
    return {Code::failed_to_parse, std::string(name) + " needs a document of fields"};
  bson_iter_t field = fields_of(fields);
  while (bson_iter_next(&field)) {
    Answer<FieldPath> path = FieldPath::parse(name_of(field));
    if (!path) return path.failure();
    makes_deeper_ = makes_deeper_ || path->parts().size() > 1;
    const auto edit = static_cast<Edit::Kind>(kind);
    if (edit == Edit::Kind::add) {
      if (bson_iter_type(&field) == BSON_TYPE_DECIMAL128)
        return {Code::unsupported_format, "$inc by a Decimal128 is not supported"};
      if (!is_number(field))
        return {Code::type_mismatch,
                "cannot increment '" + path->text() + "' by what is no number"};
    }
    if (Answer<Done> added = add_edit(root_, *path, edit, field); !added) return added;
  }
  return Done{};
}

Answer<Done> Update::apply(std::string_view old, std::string& out) const {
  return is_replacement_ ? replace(old, out) : rewrite(old, false, out);
}

Answer<Done> Update::replace(std::string_view old, std::string& out) const {
  Builder built(document_->size() + 64);
  bson_iter_t id;
  const bool had_id = find_field(old, "_id", id);
  bson_iter_t field = fields_of(*document_);
  if (had_id) {
    bson_iter_t other;
    if (find_field(*document_, "_id", other) && !has_id(*document_, id)) return changes_id();
    append_value(built, "_id", id);
  }
  while (bson_iter_next(&field))
    if (!had_id || name_of(field) != "_id") append_value(built, name_of(field), field);
  out = built.bytes();
  return check_size(out.size());
}

Answer<Done> Update::rewrite(std::string_view old, bool inserting, std::string& out) const {
  Builder built(old.size() + document_->size() + 64);
  if (Answer<Done> done = rewrite_fields(old, root_, inserting, built); !done) return done;
  const std::string_view bytes = built.bytes();
  if (Answer<Done> checked = check_size(bytes.size()); !checked) return checked;
  if (makes_deeper_)
    if (Answer<Done> checked = check_document(bytes); !checked) return checked;
  bson_iter_t id;
  if (find_field(old, "_id", id)) {
    if (!has_id(bytes, id)) return changes_id();
  } else if (!inserting && find_field(bytes, "_id", id)) {
    return changes_id();
  }
  out = bytes;
  return Done{};
}

Answer<Done> Update::make(const Filter& filter, std::string& out) const {
  Edit equalities;
  if (is_replacement_) {
    // Only the filter's _id is taken into a replacement.
    for (const Filter::Node& node : filter.conditions())
      if (node.kind == Filter::Kind::equal && node.path.text() == "_id")
        if (Answer<Done> added =
                add_edit(equalities, node.path, Edit::Kind::set, node.operands.front().at);
            !added)
          return added;
  } else if (Answer<Done> added = add_equalities(filter, equalities); !added) {
    return added;
  }
  Builder base;
  if (Answer<Done> done = rewrite_fields({}, equalities, true, base); !done) return done;
  std::string made;
  Answer<Done> done =
      is_replacement_ ? replace(base.bytes(), made) : rewrite(base.bytes(), true, made);
  if (!done) return done;
  if (!put_id_first(made, out)) out = std::move(made);
  return check_size(out.size());
}

bool put_id_first(std::string_view document, std::string& out) {
  bson_iter_t field = fields_of(document);
  if (bson_iter_next(&field) && name_of(field) == "_id") return false;
  Builder built(document.size() + 32);
  bson_iter_t id;
  if (find_field(document, "_id", id)) {
    append_value(built, "_id", id);
  } else {
    bson_oid_t made;
    bson_oid_init(&made, nullptr);
    bson_append_oid(built, "_id", 3, &made);
  }
  field = fields_of(document);
  while (bson_iter_next(&field))
    if (name_of(field) != "_id") append_value(built, name_of(field), field);
  out = built.bytes();
  return true;
}

Answer<Done> check_id(const bson_iter_t& id) {
  switch (bson_iter_type(&id)) {
    case BSON_TYPE_ARRAY:
      return {Code::invalid_id_field, "the _id must not be an array"};
    case BSON_TYPE_REGEX:
      return {Code::invalid_id_field, "the _id must not be a regular expression"};
    case BSON_TYPE_UNDEFINED:
      return {Code::invalid_id_field, "the _id must not be undefined"};
    default:
      return Done{};
  }
}

}  // namespace perdure::engine
