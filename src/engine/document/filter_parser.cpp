#include "engine/document/filter_parser.h"

#include <algorithm>
#include <array>
#include <optional>

namespace perdure::engine {
namespace {

Failure unsupported(std::string_view name) {
  return {Code::bad_value, "the operator " + std::string(name) + " is not supported in a filter"};
}

std::optional<Filter::Kind> comparison(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, Filter::Kind>, 5> kinds = {
      {{"$eq", Filter::Kind::equal},
       {"$gt", Filter::Kind::greater},
       {"$gte", Filter::Kind::greater_or_equal},
       {"$lt", Filter::Kind::less},
       {"$lte", Filter::Kind::less_or_equal}}};
  const auto* found = std::ranges::find(kinds, name, [](const auto& kind) { return kind.first; });
  return found != kinds.end() ? std::optional(found->second) : std::nullopt;
}

/// The first field decides, as it does for MongoDB.
bool has_operators(const bson_iter_t& value) {
  if (!is_document(value)) return false;
  bson_iter_t field = fields_of(value);
  return bson_iter_next(&field) && name_of(field).starts_with('$');
}

Filter::Node leaf(Filter::Kind kind, const FieldPath& path, const bson_iter_t& operand) {
  return {.kind = kind, .path = path, .operands = {Value{operand}}};
}

Filter::Node negation(Filter::Node node) {
  Filter::Node none{.kind = Filter::Kind::none};
  none.children.push_back(std::move(node));
  return none;
}

Answer<Done> check_operand(std::string_view name, const bson_iter_t& operand, bool with_order) {
  if (bson_iter_type(&operand) == BSON_TYPE_UNDEFINED)
    return {Code::bad_value, "cannot compare with undefined"};
  if (with_order && bson_iter_type(&operand) == BSON_TYPE_REGEX)
    return {Code::bad_value, std::string(name) + " has no meaning for a regular expression"};
  return Done{};
}

}  // namespace

Answer<Done> FilterParser::conditions(std::string_view document, std::vector<Node>& out) {
  bson_iter_t entry = fields_of(document);
  while (bson_iter_next(&entry)) {
    const std::string_view name = name_of(entry);
    if (name.starts_with('$')) {
      if (Answer<Done> read = top_operator(name, entry, out); !read) return read;
      continue;
    }
    Answer<FieldPath> path = FieldPath::parse(name);
    if (!path) return path.failure();
    if (Answer<Done> read = field(*path, entry, out); !read) return read;
  }
  return Done{};
}

Answer<Done> FilterParser::top_operator(std::string_view name, const bson_iter_t& list,
                                        std::vector<Node>& out) {
  if (name != "$and" && name != "$or" && name != "$nor") return unsupported(name);
  bson_iter_t element;
  if (!is_array(list) || (element = fields_of(list), !bson_iter_next(&element)))
    return {Code::bad_value, std::string(name) + " must be an array that is not empty"};
  Node node{.kind = name == "$or" ? Kind::any : Kind::none};
  do {
    if (!is_document(element))
      return {Code::bad_value, "the elements of " + std::string(name) + " must be documents"};
    Node all;
    // Conditions of $and are as good as those beside it, and the planner looks only there.
    std::vector<Node>& into = name == "$and" ? out : all.children;
    if (Answer<Done> read = conditions(bytes_of(element), into); !read) return read;
    if (name != "$and") node.children.push_back(std::move(all));
  } while (bson_iter_next(&element));
  if (name != "$and") out.push_back(std::move(node));
  return Done{};
}

Answer<Done> FilterParser::field(const FieldPath& path, const bson_iter_t& value,
                                 std::vector<Node>& out) {
  if (has_operators(value)) return operators(path, bytes_of(value), out);
  if (bson_iter_type(&value) == BSON_TYPE_REGEX) return unsupported("$regex");
  if (Answer<Done> checked = check_operand("equality", value, false); !checked) return checked;
  out.push_back(leaf(Kind::equal, path, value));
  return Done{};
}

Answer<Done> FilterParser::operators(const FieldPath& path, std::string_view document,
                                     std::vector<Node>& out) {
  bson_iter_t operation = fields_of(document);
  while (bson_iter_next(&operation))
    if (Answer<Done> read = one_operator(path, operation, out); !read) return read;
  return Done{};
}

Answer<Done> FilterParser::one_operator(const FieldPath& path, const bson_iter_t& operation,
                                        std::vector<Node>& out) {
  const std::string_view name = name_of(operation);
  if (const auto kind = comparison(name)) {
    if (Answer<Done> checked = check_operand(name, operation, *kind != Kind::equal); !checked)
      return checked;
    out.push_back(leaf(*kind, path, operation));
  } else if (name == "$ne") {
    if (bson_iter_type(&operation) == BSON_TYPE_REGEX)
      return Answer<Done>(Code::bad_value, "$ne has no meaning for a regular expression");
    if (Answer<Done> checked = check_operand(name, operation, false); !checked) return checked;
    out.push_back(negation(leaf(Kind::equal, path, operation)));
  } else if (name == "$in" || name == "$nin") {
    Node node;
    if (Answer<Done> read = one_of(path, operation, node); !read) return read;
    out.push_back(name == "$in" ? std::move(node) : negation(std::move(node)));
  } else if (name == "$exists") {
    Node node{.kind = Kind::exists, .path = path};
    out.push_back(is_truthy(operation) ? std::move(node) : negation(std::move(node)));
  } else if (name == "$not") {
    if (!has_operators(operation))
      return bson_iter_type(&operation) == BSON_TYPE_REGEX
                 ? Answer<Done>(unsupported("$not with a regular expression"))
                 : Answer<Done>(Code::bad_value, "$not needs a document of operators");
    Node all;
    if (Answer<Done> read = operators(path, bytes_of(operation), all.children); !read) return read;
    out.push_back(negation(std::move(all)));
  } else {
    return name.starts_with('$')
               ? Answer<Done>(unsupported(name))
               : Answer<Done>(Code::bad_value, "unknown operator: " + std::string(name));
  }
  return Done{};
}

Answer<Done> FilterParser::one_of(const FieldPath& path, const bson_iter_t& list, Node& out) {
  if (!is_array(list)) return {Code::bad_value, "$in and $nin need an array"};
  out = {.kind = Kind::one_of, .path = path};
  bson_iter_t element = fields_of(list);
  while (bson_iter_next(&element)) {
    if (bson_iter_type(&element) == BSON_TYPE_REGEX)
      return unsupported("$in with a regular expression");
    if (has_operators(element)) return {Code::bad_value, "$in and $nin take no operators"};
    if (Answer<Done> checked = check_operand("$in", element, false); !checked) return checked;
    out.operands.push_back({element});
  }
  return Done{};
}

}  // namespace perdure::engine
