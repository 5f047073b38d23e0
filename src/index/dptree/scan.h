// The readers of DPTree that take many records: the three trees in step.
#pragma once

#include <cstddef>
#include <cstdint>

#include "index/dptree/parts.h"

namespace perdure::dptree {

/// Fills `out` with the records from a key on, `count` at most; returns how many there are.
template <class Keys>
std::size_t scan(const Parts<Keys>& parts, typename Keys::Key from, std::size_t count,
                 typename Keys::Scan& out);

/// How many records the three trees have together.
template <class Keys>
[[nodiscard]] std::uint64_t count_records(const Parts<Keys>& parts);

}  // namespace perdure::dptree
