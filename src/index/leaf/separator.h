// Separators: what inner nodes and anchors keep of the keys around them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace perdure {

/// The shortest key above `left` and not above `right`, where left < right: separators take less
/// room.
[[nodiscard]] inline std::uint64_t separator_between(std::uint64_t, std::uint64_t right) noexcept {
  return right;
}
[[nodiscard]] inline std::string_view separator_between(std::string_view left,
                                                        std::string_view right) noexcept {
  std::size_t shared = 0;
  while (shared < left.size() && left[shared] == right[shared]) ++shared;
  return right.substr(0, shared + 1);
}

}  // namespace perdure
