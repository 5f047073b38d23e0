// Patterns of SCAN's MATCH and CONFIG GET, as Redis reads them.
#pragma once

#include <string_view>

namespace perdure::server::redis {

/// `*` any bytes, `?` one, `[a-z]` and `[^a-z]` one of a set, `\` the next byte itself.
/// Cost: at most the product of both lengths, whatever the pattern.
[[nodiscard]] bool matches_glob(std::string_view pattern, std::string_view text) noexcept;

}  // namespace perdure::server::redis
