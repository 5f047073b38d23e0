// A whole leaf of integers checked at once: most of what recovery does.
#pragma once

#include <optional>

#include "index/linetree/leaf.h"

namespace perdure::linetree {

/// The summary of a leaf of keys in `live` in which all is as it should be: every slot that is not
/// live is empty or holds a key beyond the interval, every live record lies in one of its two
/// lines, and no key is there twice (L3, L4). Else none, without saying what is wrong.
[[nodiscard]] std::optional<Summary> summarize_sound(const Shape& shape, const Leaf& leaf,
                                                     Interval live) noexcept;

}  // namespace perdure::linetree
