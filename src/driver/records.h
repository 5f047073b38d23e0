// Walking every record of an ordered index through its scan.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "index/index.h"

namespace perdure::driver {

/// Calls `visit(key, value)` for every record, ascending. No other operation may run. Stops when a
/// scan brings nothing new, so an index that lies cannot hold it for ever. Returns the count.
template <class Keys, class Visit>
std::uint64_t for_each_record(OrderedIndex<Keys>& index, Visit&& visit) {
  constexpr std::size_t piece = 4096;
  using Owned = std::conditional_t<has_text_keys<Keys>, std::string, std::uint64_t>;
  typename Keys::Scan scan;
  scan.reserve(piece);
  Owned last{};
  std::uint64_t visited = 0;
  for (bool first = true;; first = false) {
    // Every piece starts with the last key of the one before, because the longest byte string has
    // no successor to start from.
    scan.clear();
    index.scan(last, piece, scan);
    const std::size_t skipped = !first && scan.size() != 0 && scan[0].key == last ? 1 : 0;
    for (std::size_t i = skipped; i < scan.size(); ++i) visit(scan[i].key, scan[i].value);
    visited += scan.size() - skipped;
    if (scan.size() < piece) return visited;
    if (!first && !(last < scan[scan.size() - 1].key)) return visited;
    last = Owned(scan[scan.size() - 1].key);
  }
}

}  // namespace perdure::driver
