// Collections: the first four bytes of a key say whose document it is.
#pragma once

#include <cstdint>
#include <string>

namespace perdure::engine {

/// Keys and values of Redis clients.
inline constexpr std::uint32_t redis_collection = 1;

/// What the keys of a collection begin with: its number, big-endian, so that they are adjacent in
/// the index.
[[nodiscard]] inline std::string key_prefix(std::uint32_t collection) {
  return {static_cast<char>(collection >> 24), static_cast<char>(collection >> 16),
          static_cast<char>(collection >> 8), static_cast<char>(collection)};
}

}  // namespace perdure::engine
