// Lists as study pmidio publishes them (section 6.2), kept for what the explorer finds in them; the
// lists that hold are in src/lockfree/. "toy:published_tlog", "toy:published_logfree": of the
// latter the paper's text with flushes for its fences, as it says of designs for both modes.
#pragma once

#include <span>

#include "index/registry.h"

namespace perdure::crash {

[[nodiscard]] std::span<const IndexInfo> published_lists();

}  // namespace perdure::crash
