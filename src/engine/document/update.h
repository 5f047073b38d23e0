// Update: how one document is to change. Either a replacement, or $set, $unset, $inc and
// $setOnInsert on dotted paths; any other operator is an error that names it. `_id` never changes.
//
// The operators are kept as a tree of field names, so that a document is rewritten in one pass:
//   {$set: {"a.b": 1}, $unset: {"a.c": 1}}  ->  a ─┬─ b: set 1
//                                                  └─ c: unset
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/document/filter.h"

namespace perdure::engine {

/// What is to happen below one field name.
struct Edit {
  enum class Kind : std::uint8_t { inner, set, unset, add, set_on_insert };
  std::string name;
  Kind kind = Kind::inner;
  Value operand{};
  std::vector<Edit> children{};  ///< of inner
};

class Update {
 public:
  /// `document` has passed check_document; it is copied. Errors: failed_to_parse, bad_value,
  /// type_mismatch, conflicting_update_operators, and those of paths.
  [[nodiscard]] static Answer<Update> parse(std::string_view document);

  [[nodiscard]] bool is_replacement() const noexcept { return is_replacement_; }
  /// What becomes of `old`; equal to it where nothing changes. Errors: immutable_field,
  /// path_not_viable, type_mismatch, bad_value, bson_object_too_large.
  [[nodiscard]] Answer<Done> apply(std::string_view old, std::string& out) const;
  /// The document to insert where none matched `filter`: its equalities, then this. Besides the
  /// above: conflicting_update_operators.
  [[nodiscard]] Answer<Done> make(const Filter& filter, std::string& out) const;

 private:
  Answer<Done> read_operator(std::string_view name, const bson_iter_t& fields);
  Answer<Done> replace(std::string_view old, std::string& out) const;
  Answer<Done> rewrite(std::string_view old, bool inserting, std::string& out) const;

  std::shared_ptr<const std::string> document_;  ///< operands lie in it
  bool is_replacement_ = true;
  bool makes_deeper_ = false;  ///< a path has several parts
  Edit root_;
};

/// Adds an edit at `path` below `root`. Errors: conflicting_update_operators.
[[nodiscard]] Answer<Done> add_edit(Edit& root, const FieldPath& path, Edit::Kind kind,
                                    const bson_iter_t& operand);
/// Appends to `out` the fields of `old` (empty: there was nothing) as `root` changes them.
[[nodiscard]] Answer<Done> rewrite_fields(std::string_view old, const Edit& root, bool inserting,
                                          bson_t* out);

/// `document` with its `_id` first, made where it has none. False: it is so already.
[[nodiscard]] bool put_id_first(std::string_view document, std::string& out);
/// Errors: invalid_id_field for an array, a regular expression or undefined.
[[nodiscard]] Answer<Done> check_id(const bson_iter_t& id);

}  // namespace perdure::engine
