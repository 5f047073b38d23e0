#include "engine/document/filter.h"

#include <algorithm>

#include "engine/document/filter_parser.h"

namespace perdure::engine {
namespace {

/// Null, undefined and missing are one to filters.
bool is_nothing(const bson_iter_t* value) noexcept {
  if (value == nullptr) return true;
  const Rank rank = rank_of(bson_iter_type(value));
  return rank == Rank::null || rank == Rank::undefined;
}

bool accepts_equal(Filter::Kind kind) noexcept {
  return kind == Filter::Kind::equal || kind == Filter::Kind::greater_or_equal ||
         kind == Filter::Kind::less_or_equal;
}

/// Values of another type are neither less nor greater, but next to MinKey and MaxKey.
bool holds_across_types(Filter::Kind kind, const bson_iter_t& operand) noexcept {
  switch (kind) {
    case Filter::Kind::less:
    case Filter::Kind::less_or_equal:
      return bson_iter_type(&operand) == BSON_TYPE_MAXKEY;
    case Filter::Kind::greater:
    case Filter::Kind::greater_or_equal:
      return bson_iter_type(&operand) == BSON_TYPE_MINKEY;
    default:
      return false;
  }
}

class Matcher {
 public:
  explicit Matcher(std::string_view document) : document_(document) {}

  [[nodiscard]] bool matches(const Filter::Node& node) {
    switch (node.kind) {
      case Filter::Kind::all:
        return std::ranges::all_of(node.children,
                                   [&](const auto& child) { return matches(child); });
      case Filter::Kind::any:
        return std::ranges::any_of(node.children,
                                   [&](const auto& child) { return matches(child); });
      case Filter::Kind::none:
        return std::ranges::none_of(node.children,
                                    [&](const auto& child) { return matches(child); });
      default:
        return reaches_match(node);
    }
  }
  [[nodiscard]] bool has_decimal() const noexcept { return has_decimal_; }

 private:
  bool reaches_match(const Filter::Node& node) {
    bool found = false;
    node.path.walk(document_, [&](const Reached& reached) {
      found = holds(node, reached.value);
      return !found;
    });
    return found;
  }

  bool holds(const Filter::Node& node, const bson_iter_t* value) {
    if (node.kind == Filter::Kind::exists) return value != nullptr;
    if (node.kind == Filter::Kind::one_of)
      return std::ranges::any_of(node.operands, [&](const Value& operand) {
        return compares(Filter::Kind::equal, value, operand.at);
      });
    return compares(node.kind, value, node.operands.front().at);
  }

  bool compares(Filter::Kind kind, const bson_iter_t* value, const bson_iter_t& operand) {
    if (is_nothing(value) && is_nothing(&operand)) return accepts_equal(kind);
    if (value == nullptr || rank_of(bson_iter_type(value)) != rank_of(bson_iter_type(&operand)))
      return holds_across_types(kind, operand);
    if (is_nan(*value) || is_nan(operand))
      return is_nan(*value) && is_nan(operand) && accepts_equal(kind);
    const int order = compare(*value, operand, has_decimal_);
    switch (kind) {
      case Filter::Kind::greater:
        return order > 0;
      case Filter::Kind::less:
        return order < 0;
      case Filter::Kind::greater_or_equal:
        return order >= 0;
      case Filter::Kind::less_or_equal:
        return order <= 0;
      default:
        return order == 0;
    }
  }

  std::string_view document_;
  bool has_decimal_ = false;
};

}  // namespace

Answer<Filter> Filter::parse(std::string_view document) {
  Filter filter;
  filter.document_ = std::make_shared<const std::string>(document);
  FilterParser parser;
  if (Answer<Done> parsed = parser.conditions(*filter.document_, filter.root_.children); !parsed)
    return parsed.failure();
  return filter;
}

Answer<bool> Filter::matches(std::string_view document) const {
  Matcher matcher(document);
  const bool matched = matcher.matches(root_);
  if (matcher.has_decimal())
    return {Code::unsupported_format, "comparing values of type Decimal128 is not supported"};
  return matched;
}

}  // namespace perdure::engine
