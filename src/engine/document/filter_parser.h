// FilterParser: reads a filter's document into nodes. Included by filter.cpp and filter_parser.cpp.
#pragma once

#include "engine/document/filter.h"

namespace perdure::engine {

class FilterParser {
 public:
  using Node = Filter::Node;
  using Kind = Filter::Kind;

  /// {field: condition, $and: [...], ...}; appends a node for each.
  Answer<Done> conditions(std::string_view document, std::vector<Node>& out);

 private:
  Answer<Done> top_operator(std::string_view name, const bson_iter_t& list, std::vector<Node>& out);
  Answer<Done> field(const FieldPath& path, const bson_iter_t& value, std::vector<Node>& out);
  Answer<Done> operators(const FieldPath& path, std::string_view document, std::vector<Node>& out);
  Answer<Done> one_operator(const FieldPath& path, const bson_iter_t& operation,
                            std::vector<Node>& out);
  Answer<Done> one_of(const FieldPath& path, const bson_iter_t& list, Node& out);
};

}  // namespace perdure::engine
