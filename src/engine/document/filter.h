// Filter: which documents a query is about. Equality (also with an element of an array), $eq $ne
// $gt $gte $lt $lte $in $nin $exists $not, $and $or $nor, with MongoDB's meaning; any other
// operator is an error that names it.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/document/path.h"
#include "engine/document/values.h"

namespace perdure::engine {

class Filter {
 public:
  enum class Kind : std::uint8_t {
    all,   ///< of the children: $and, and a document of several conditions
    any,   ///< $or
    none,  ///< $nor, $not, $ne, $nin
    equal,
    greater,
    greater_or_equal,
    less,
    less_or_equal,
    one_of,  ///< $in
    exists,
  };
  struct Node {
    Kind kind = Kind::all;
    std::vector<Node> children{};   ///< of all, any, none
    FieldPath path{};               ///< of the rest
    std::vector<Value> operands{};  ///< one, but of one_of any number, and of exists none
  };

  /// Matches everything.
  Filter() = default;
  /// `document` has passed check_document; it is copied. Errors: bad_value, failed_to_parse.
  [[nodiscard]] static Answer<Filter> parse(std::string_view document);

  /// Errors: unsupported_format, where a Decimal128 would have to be compared.
  [[nodiscard]] Answer<bool> matches(std::string_view document) const;
  /// The conditions that must all hold; some may be `any` or `none`.
  [[nodiscard]] const std::vector<Node>& conditions() const noexcept { return root_.children; }
  [[nodiscard]] bool is_empty() const noexcept { return root_.children.empty(); }

 private:
  std::shared_ptr<const std::string> document_;  ///< operands lie in it
  Node root_;
};

}  // namespace perdure::engine
