// Rewriting a document as a tree of edits says.
#include <algorithm>
#include <limits>

#include "engine/document/update.h"

namespace perdure::engine {
namespace {

/// As MongoDB: how many nulls a path may put before an element.
constexpr std::int64_t most_padding = 1'500'000;

Failure cannot_create(std::string_view name) {
  return {Code::path_not_viable,
          "cannot create field '" + std::string(name) + "' in a value that is no document"};
}

Answer<Done> append_sum(std::string_view name, const bson_iter_t* old, const bson_iter_t& addend,
                        bson_t* out) {
  if (old == nullptr) {
    append_value(out, name, addend);
    return Done{};
  }
  const bson_type_t type = bson_iter_type(old);
  if (type == BSON_TYPE_DECIMAL128)
    return {Code::unsupported_format, "$inc of a Decimal128 is not supported"};
  if (!is_number(*old))
    return {Code::type_mismatch,
            "cannot apply $inc to the field '" + std::string(name) + "', which is no number"};
  if (type == BSON_TYPE_DOUBLE || bson_iter_type(&addend) == BSON_TYPE_DOUBLE) {
    append_double(out, name, bson_iter_as_double(old) + bson_iter_as_double(&addend));
    return Done{};
  }
  std::int64_t sum = 0;
  if (__builtin_add_overflow(bson_iter_as_int64(old), bson_iter_as_int64(&addend), &sum))
    return {Code::bad_value, "$inc of '" + std::string(name) + "' would overflow"};
  const bool is_short = type == BSON_TYPE_INT32 && bson_iter_type(&addend) == BSON_TYPE_INT32 &&
                        sum >= std::numeric_limits<std::int32_t>::min() &&
                        sum <= std::numeric_limits<std::int32_t>::max();
  if (is_short)
    append_int32(out, name, static_cast<std::int32_t>(sum));
  else
    append_int64(out, name, sum);
  return Done{};
}

class Rewriter {
 public:
  explicit Rewriter(bool inserting) : inserting_(inserting) {}

  Answer<Done> fields(std::string_view old, const Edit& edits, bool in_array, bson_t* out) {
    std::vector<bool> seen(edits.children.size());
    std::int64_t count = 0;
    if (!old.empty()) {
      bson_iter_t field = fields_of(old);
      for (; bson_iter_next(&field); ++count) {
        const auto edit = std::ranges::find(edits.children, name_of(field), &Edit::name);
        if (edit == edits.children.end()) {
          append_value(out, name_of(field), field);
          continue;
        }
        seen[static_cast<std::size_t>(edit - edits.children.begin())] = true;
        if (Answer<Done> done = one(&field, *edit, in_array, out); !done) return done;
      }
    }
    std::vector<const Edit*> rest;
    for (std::size_t i = 0; i < seen.size(); ++i)
      if (!seen[i]) rest.push_back(&edits.children[i]);
    return in_array ? new_elements(count, std::move(rest), out) : new_fields(rest, out);
  }

 private:
  [[nodiscard]] bool sets(const Edit& edit) const noexcept {
    switch (edit.kind) {
      case Edit::Kind::set:
      case Edit::Kind::add:
        return true;
      case Edit::Kind::set_on_insert:
        return inserting_;
      case Edit::Kind::unset:
        return false;
      case Edit::Kind::inner:
        return std::ranges::any_of(edit.children, [&](const Edit& child) { return sets(child); });
    }
    return false;
  }

  Answer<Done> new_fields(const std::vector<const Edit*>& edits, bson_t* out) {
    for (const Edit* edit : edits)
      if (sets(*edit))
        if (Answer<Done> done = one(nullptr, *edit, false, out); !done) return done;
    return Done{};
  }

  Answer<Done> new_elements(std::int64_t count, std::vector<const Edit*> edits, bson_t* out) {
    std::erase_if(edits, [&](const Edit* edit) { return !sets(*edit); });
    for (const Edit* edit : edits)
      if (FieldPath::as_element(edit->name) < 0) return cannot_create(edit->name);
    const auto number = [](const Edit* edit) { return FieldPath::as_element(edit->name); };
    std::ranges::sort(edits, {}, number);
    for (const Edit* edit : edits) {
      if (number(edit) - count > most_padding)
        return {Code::bad_value, "cannot put more than 1500000 nulls before an array's element"};
      for (; count < number(edit); ++count) append_null(out, std::to_string(count));
      if (Answer<Done> done = one(nullptr, *edit, true, out); !done) return done;
      ++count;
    }
    return Done{};
  }

  /// `old` is null where the field is new.
  Answer<Done> one(const bson_iter_t* old, const Edit& edit, bool in_array, bson_t* out) {
    switch (edit.kind) {
      case Edit::Kind::set:
        append_value(out, edit.name, edit.operand.at);
        return Done{};
      case Edit::Kind::set_on_insert:
        if (inserting_ || old == nullptr)
          append_value(out, edit.name, edit.operand.at);
        else
          append_value(out, edit.name, *old);
        return Done{};
      case Edit::Kind::unset:
        if (in_array) append_null(out, edit.name);
        return Done{};
      case Edit::Kind::add:
        return append_sum(edit.name, old, edit.operand.at, out);
      case Edit::Kind::inner:
        break;
    }
    if (old != nullptr && is_array(*old)) {
      ArrayBuilder inner(out, edit.name);
      return fields(bytes_of(*old), edit, true, inner);
    }
    if (old != nullptr && !is_document(*old)) {
      if (sets(edit)) return cannot_create(edit.children.front().name);
      append_value(out, edit.name, *old);
      return Done{};
    }
    DocumentBuilder inner(out, edit.name);
    return fields(old != nullptr ? bytes_of(*old) : std::string_view(), edit, false, inner);
  }

  bool inserting_;
};

}  // namespace

Answer<Done> add_edit(Edit& root, const FieldPath& path, Edit::Kind kind,
                      const bson_iter_t& operand) {
  Edit* at = &root;
  for (std::size_t i = 0; i < path.parts().size(); ++i) {
    const bool is_last = i + 1 == path.parts().size();
    const auto child = std::ranges::find(at->children, path.parts()[i], &Edit::name);
    const bool is_new = child == at->children.end();
    if (!is_new && (is_last || child->kind != Edit::Kind::inner))
      return {Code::conflicting_update_operators,
              "updating the path '" + path.text() + "' would create a conflict with another path"};
    if (is_new) at->children.push_back({.name = path.parts()[i]});
    at = is_new ? &at->children.back() : &*child;
  }
  at->kind = kind;
  at->operand.at = operand;
  return Done{};
}

Answer<Done> rewrite_fields(std::string_view old, const Edit& root, bool inserting, bson_t* out) {
  return Rewriter(inserting).fields(old, root, false, out);
}

}  // namespace perdure::engine
