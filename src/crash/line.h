// A cache line and the small numbers that name parts of a pool image.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace perdure::crash {

inline constexpr std::size_t line_bytes = 64;
inline constexpr std::size_t word_bytes = 8;

/// The content of a line, as the eight words that are each failure-atomic.
using LineContent = std::array<std::uint64_t, line_bytes / word_bytes>;

/// Words of a line, a bit each.
using Words = std::uint8_t;

/// Words in which the contents differ.
[[nodiscard]] constexpr Words differing(const LineContent& a, const LineContent& b) noexcept {
  unsigned words = 0;
  for (unsigned i = 0; i < a.size(); ++i) words |= static_cast<unsigned>(a[i] != b[i]) << i;
  return static_cast<Words>(words);
}

/// Number of a line within the pool: offset / 64.
using LineNumber = std::uint32_t;

enum class Domain : std::uint8_t { adr, eadr };
[[nodiscard]] const char* name_of(Domain domain) noexcept;

/// A 64-bit digest of one line's content at its place; states are told apart by XOR of these.
[[nodiscard]] constexpr std::uint64_t digest(LineNumber line, const LineContent& content) noexcept {
  std::uint64_t sum = line + 0x9e3779b97f4a7c15ULL;
  for (const std::uint64_t word : content) {
    sum = (sum ^ word) * 0xff51afd7ed558ccdULL;
    sum ^= sum >> 32;
  }
  sum *= 0xc4ceb9fe1a85ec53ULL;
  return sum ^ sum >> 29;
}

}  // namespace perdure::crash
