// "Did you mean": the nearest of a list of names.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace perdure {

/// "did you mean 'fptree'?" when a candidate is within two edits (or shares a prefix of three),
/// else `otherwise`.
[[nodiscard]] std::string suggestion(std::string_view given,
                                     std::span<const std::string> candidates,
                                     std::string_view otherwise);

}  // namespace perdure
