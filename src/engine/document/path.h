// FieldPath: a dotted path ("a.b.0"), and what it reaches in a document, as MongoDB's filters see
// it: a path goes into each document of an array, and ends at each element of an array and at the
// whole. Filters and indexes use the same walk, so an index has an entry for all that a filter can
// match.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/document/bson_view.h"

namespace perdure::engine {

/// One thing that a path reaches.
struct Reached {
  const bson_iter_t* value = nullptr;  ///< null: the field is missing there
  bool through_array = false;          ///< an array was on the way, or it is an element of one
  bool is_whole_array = false;         ///< its elements have been reached before
};

class FieldPath {
 public:
  /// Errors: empty_field_name, dollar_prefixed_field_name for a part that begins with $.
  [[nodiscard]] static Answer<FieldPath> parse(std::string_view text);

  [[nodiscard]] const std::string& text() const noexcept { return text_; }
  [[nodiscard]] const std::vector<std::string>& parts() const noexcept { return parts_; }

  /// Calls `visit(Reached)` for all that the path reaches, until it returns false.
  template <class Visit>
  void walk(std::string_view document, Visit&& visit) const {
    in_document(document, 0, false, visit);
  }

  /// "0", "17"; -1 where `part` is no number of an element.
  [[nodiscard]] static std::int64_t as_element(std::string_view part) noexcept;

 private:
  template <class Visit>
  bool in_document(std::string_view document, std::size_t part, bool through_array,
                   Visit& visit) const {
    bson_iter_t value;
    if (!find_field(document, parts_[part], value)) return visit(Reached{nullptr, through_array});
    if (++part == parts_.size()) return at_end(value, through_array, visit);
    if (is_document(value)) return in_document(bytes_of(value), part, through_array, visit);
    if (is_array(value)) return in_array(value, part, visit);
    return visit(Reached{nullptr, through_array});
  }

  template <class Visit>
  bool at_end(const bson_iter_t& value, bool through_array, Visit& visit) const {
    if (!is_array(value)) return visit(Reached{&value, through_array});
    bson_iter_t element = fields_of(value);
    while (bson_iter_next(&element))
      if (!visit(Reached{&element, true})) return false;
    return visit(Reached{&value, true, true});
  }

  template <class Visit>
  bool in_array(const bson_iter_t& array, std::size_t part, Visit& visit) const {
    const std::int64_t wanted = as_element(parts_[part]);
    bson_iter_t element = fields_of(array);
    for (std::int64_t number = 0; bson_iter_next(&element); ++number) {
      if (is_document(element) && !in_document(bytes_of(element), part, true, visit)) return false;
      if (number != wanted) continue;
      if (part + 1 == parts_.size()) {
        if (!visit(Reached{&element, true})) return false;
      } else if (is_document(element)) {
        if (!in_document(bytes_of(element), part + 1, true, visit)) return false;
      } else if (is_array(element)) {
        if (!in_array(element, part + 1, visit)) return false;
      }
    }
    return true;
  }

  std::string text_;
  std::vector<std::string> parts_;
};

}  // namespace perdure::engine
