// Plan: how to find the documents that a filter may match: by _id, by a secondary index, or by
// looking at all of a collection. Whoever follows a plan evaluates the filter again.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/document/catalog.h"
#include "engine/document/filter.h"
#include "engine/document/sort.h"

namespace perdure::engine {

struct Plan {
  std::uint32_t collection = 0;
  std::optional<IndexInfo> index;  ///< none: by keys of documents
  bool is_points = false;          ///< each range is one key of a document: its `from`
  std::vector<KeyRange> ranges;    ///< ascending, disjoint
  bool is_sorted = false;          ///< the documents come in the order that was asked for
};

/// Reads the store where it must know whether an index is multikey.
[[nodiscard]] Plan make_plan(DocumentStore& store, const CollectionInfo& collection,
                             const Filter& filter, const Sort& sort);

}  // namespace perdure::engine
