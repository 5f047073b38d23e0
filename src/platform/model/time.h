// Virtual time: whole picoseconds, so that sums are exact and equal on every machine.
#pragma once

#include <cstdint>

namespace perdure::platform {

using Time = std::uint64_t;  ///< ps since the start of the simulation

inline constexpr Time ns = 1000;
inline constexpr Time us = 1000 * ns;
inline constexpr Time ms = 1000 * us;

}  // namespace perdure::platform
