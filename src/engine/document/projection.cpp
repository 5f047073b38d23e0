#include "engine/document/projection.h"

#include <algorithm>
#include <optional>

#include "engine/document/values.h"

namespace perdure::engine {

Answer<Projection> Projection::parse(std::string_view document) {
  Projection projection;
  std::optional<bool> includes;
  std::optional<bool> wants_id;
  bson_iter_t entry = fields_of(document);
  while (bson_iter_next(&entry)) {
    const std::string name(name_of(entry));
    const bool is_flag = is_number(entry) || bson_iter_type(&entry) == BSON_TYPE_BOOL;
    if (is_document(entry)) {
      bson_iter_t operation = fields_of(entry);
      const std::string what = bson_iter_next(&operation) ? std::string(name_of(operation)) : "{}";
      return {Code::bad_value, what + " is not supported in a projection ('" + name + "')"};
    }
    if (!is_flag)
      return {Code::bad_value, "a projection takes only numbers and booleans ('" + name + "')"};
    if (name == "_id") {
      wants_id = is_truthy(entry);
      continue;
    }
    Answer<FieldPath> path = FieldPath::parse(name);
    if (!path) return path.failure();
    if (path->parts().front() == "_id")
      return {Code::bad_value, "a projection of parts of _id is not supported ('" + name + "')"};
    if (includes.has_value() && *includes != is_truthy(entry))
      return {Code::projection_mixed,
              "a projection cannot both include and exclude fields ('" + name + "')"};
    includes = is_truthy(entry);
    if (Answer<Done> added = add(projection.names_, *path); !added) return added.failure();
  }
  projection.includes_ = includes.value_or(wants_id.value_or(false));
  projection.keeps_id_ = wants_id.value_or(true);
  return projection;
}

Answer<Done> Projection::add(Name& root, const FieldPath& path) {
  Name* at = &root;
  for (std::size_t i = 0; i < path.parts().size(); ++i) {
    const bool is_last = i + 1 == path.parts().size();
    const auto child = std::ranges::find(at->children, path.parts()[i], &Name::text);
    const bool is_new = child == at->children.end();
    if (!is_new && (is_last || child->children.empty()))
      return {Code::bad_value, "paths of a projection collide at '" + path.text() + "'"};
    if (is_new) at->children.push_back({path.parts()[i]});
    at = is_new ? &at->children.back() : &*child;
  }
  return Done{};
}

auto Projection::find(const Name& names, std::string_view text) -> const Name* {
  const auto found = std::ranges::find(names.children, text, &Name::text);
  return found != names.children.end() ? &*found : nullptr;
}

void Projection::apply(std::string_view document, std::string& out) const {
  Builder built(document.size());
  bson_iter_t field = fields_of(document);
  if (keeps_id_ && find_field(document, "_id", field)) append_value(built, "_id", field);
  copy_fields(document, names_, built);
  out = built.bytes();
}

void Projection::copy_fields(std::string_view from, const Name& names, bson_t* out) const {
  bson_iter_t field = fields_of(from);
  while (bson_iter_next(&field)) {
    if (&names == &names_ && name_of(field) == "_id") continue;
    const Name* named = find(names, name_of(field));
    if (named != nullptr && !named->children.empty())
      copy_inside(field, name_of(field), *named, out);
    else if ((named != nullptr) == includes_)
      append_value(out, name_of(field), field);
  }
}

void Projection::copy_elements(std::string_view from, const Name& names, bson_t* out) const {
  bson_iter_t element = fields_of(from);
  std::uint32_t count = 0;
  while (bson_iter_next(&element)) {
    if (includes_ && !is_document(element) && !is_array(element)) continue;
    copy_inside(element, std::to_string(count++), names, out);
  }
}

void Projection::copy_inside(const bson_iter_t& value, std::string_view name, const Name& names,
                             bson_t* out) const {
  if (is_document(value)) {
    DocumentBuilder inner(out, name);
    copy_fields(bytes_of(value), names, inner);
  } else if (is_array(value)) {
    ArrayBuilder inner(out, name);
    copy_elements(bytes_of(value), names, inner);
  } else if (!includes_) {
    append_value(out, name, value);
  }
}

}  // namespace perdure::engine
