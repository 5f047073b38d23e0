// Size classes of the heaps: the spacing of blocks, known at compile time.
//
//   up to 64 B      steps of 16
//   up to 1 KiB     steps of 64: nodes of whole cache lines fit exactly (256 B: LB+-Tree)
//   up to 1 MiB     8 steps a doubling, so at most 1/9 is waste (1152 B is exact: FPTree)
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace perdure::size_classes {

inline constexpr std::size_t smallest_step = 16;
inline constexpr std::size_t line_step = 64;
inline constexpr std::size_t last_line_step = 1024;
inline constexpr std::size_t max_bytes = std::size_t{1} << 20;
inline constexpr unsigned steps_per_doubling_bits = 3;
inline constexpr unsigned steps_per_doubling = 1U << steps_per_doubling_bits;

inline constexpr unsigned first_line_class = 3;       ///< 64 B; 16, 32 and 48 B come before
inline constexpr unsigned first_doubling_class = 19;  ///< 1152 B
inline constexpr unsigned count = first_doubling_class + 10 * steps_per_doubling;

/// The class of a block of `bytes`, 1 .. max_bytes.
[[nodiscard]] constexpr unsigned class_of(std::size_t bytes) noexcept {
  if (bytes <= line_step - smallest_step)
    return static_cast<unsigned>((bytes + smallest_step - 1) / smallest_step) - 1;
  if (bytes <= last_line_step)
    return first_line_class + static_cast<unsigned>((bytes + line_step - 1) / line_step) - 1;
  const auto doubling = static_cast<unsigned>(std::bit_width(bytes - 1)) - 11;  // 0: (1, 2] KiB
  const unsigned step_bits = doubling + 10 - steps_per_doubling_bits;
  const std::size_t base = last_line_step << doubling;
  return first_doubling_class + doubling * steps_per_doubling +
         static_cast<unsigned>((bytes - base - 1) >> step_bits);
}

/// The spacing of the blocks of a class.
[[nodiscard]] constexpr std::size_t bytes_of(unsigned size_class) noexcept {
  if (size_class < first_line_class) return (size_class + 1) * smallest_step;
  if (size_class < first_doubling_class) return (size_class - first_line_class + 1) * line_step;
  const unsigned doubling = (size_class - first_doubling_class) / steps_per_doubling;
  const unsigned step = (size_class - first_doubling_class) % steps_per_doubling;
  const std::size_t base = last_line_step << doubling;
  return base + (step + 1) * (base >> steps_per_doubling_bits);
}

static_assert(bytes_of(class_of(1)) == 16 && bytes_of(class_of(48)) == 48);
static_assert(bytes_of(class_of(49)) == 64 && bytes_of(class_of(256)) == 256);
static_assert(bytes_of(class_of(1024)) == 1024 && bytes_of(class_of(1025)) == 1152);
static_assert(bytes_of(class_of(2048)) == 2048 && bytes_of(class_of(2049)) == 2304);
static_assert(class_of(max_bytes) == count - 1 && bytes_of(count - 1) == max_bytes);

}  // namespace perdure::size_classes
