// Projection: which fields of a document a query wants: those named ({a: 1, "b.c": 1}), or all but
// those named ({a: 0}); `_id` is wanted unless it is named with 0. A path goes into each document
// of an array. Anything else is an error that names it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/document/path.h"

namespace perdure::engine {

class Projection {
 public:
  /// Wants all.
  Projection() = default;
  /// Errors: bad_value, projection_mixed, and those of paths.
  [[nodiscard]] static Answer<Projection> parse(std::string_view document);

  [[nodiscard]] bool wants_all() const noexcept {
    return keeps_id_ && names_.children.empty() && !includes_;
  }
  /// Writes what is wanted of `document`.
  void apply(std::string_view document, std::string& out) const;

 private:
  struct Name {
    std::string text;
    std::vector<Name> children{};  ///< none: the whole field
  };

  static Answer<Done> add(Name& root, const FieldPath& path);
  static const Name* find(const Name& names, std::string_view text);
  void copy_fields(std::string_view from, const Name& names, bson_t* out) const;
  void copy_elements(std::string_view from, const Name& names, bson_t* out) const;
  void copy_inside(const bson_iter_t& value, std::string_view name, const Name& names,
                   bson_t* out) const;

  bool includes_ = false;
  bool keeps_id_ = true;
  Name names_;  ///< without _id
};

}  // namespace perdure::engine
