// What the references in DRAM share that have one class for both kinds of keys, made by
// Index<Keys>(huge_pages).
#pragma once

#include <memory>
#include <span>
#include <utility>

#include "index/common/bulk_check.h"
#include "index/registry.h"

namespace perdure {

/// For IndexInfo.
template <template <class> class Index, class Keys>
[[nodiscard]] MadeIndex<Keys> create_in_memory(const IndexPlace& place) {
  return std::unique_ptr<OrderedIndex<Keys>>(std::make_unique<Index<Keys>>(place.huge_pages));
}

/// A bulk load where order saves nothing. `clear()` empties the index again when memory is short.
/// Errors: usage, as of bulk_load_refusal; out_of_space.
template <class Keys, class Clear>
[[nodiscard]] Result<void> load_by_inserts(OrderedIndex<Keys>& index,
                                           std::span<const typename Keys::Record> records,
                                           Clear&& clear) {
  if (auto refusal = bulk_load_refusal(index.size() == 0, records)) return std::move(*refusal);
  for (const auto& record : records) {
    if (index.insert(record.key, record.value) == Outcome::ok) continue;
    clear();
    return Error{ErrorCode::out_of_space, "no memory for the records", "bulk load",
                 "load fewer records"};
  }
  return {};
}

}  // namespace perdure
