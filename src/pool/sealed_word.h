// A number in a word on media that damage does not turn into another: the upper half checks the
// lower. `purpose` keeps one word's content from passing for another's.
#pragma once

#include <cstdint>
#include <optional>

#include "core/rng.h"

namespace perdure {

[[nodiscard]] inline std::uint64_t sealed(std::uint32_t number, std::uint64_t purpose) noexcept {
  return mix64(purpose ^ number) >> 32 << 32 | number;
}

[[nodiscard]] inline std::optional<std::uint32_t> unsealed(std::uint64_t word,
                                                           std::uint64_t purpose) noexcept {
  const auto number = static_cast<std::uint32_t>(word);
  if (word != sealed(number, purpose)) return std::nullopt;
  return number;
}

}  // namespace perdure
