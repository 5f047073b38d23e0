// A cache line and the small numbers that name parts of a pool image.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace perdure::crash {

inline constexpr std::size_t line_bytes = 64;
inline constexpr std::size_t word_bytes = 8;
inline constexpr std::uint32_t words_a_line = line_bytes / word_bytes;

/// The content of a line, as the eight words that are each failure-atomic.
using LineContent = std::array<std::uint64_t, line_bytes / word_bytes>;

/// Bytes of a line, a bit each.
using Bytes = std::uint64_t;

/// Bytes [from, from + count) of a line.
[[nodiscard]] constexpr Bytes bytes_at(std::size_t from, std::size_t count) noexcept {
  const Bytes low = count >= line_bytes ? ~Bytes{0} : (Bytes{1} << count) - 1;
  return low << from;
}
/// Those of a word.
[[nodiscard]] constexpr Bytes bytes_of_word(Bytes bytes, std::size_t word) noexcept {
  return bytes >> word * word_bytes & bytes_at(0, word_bytes);
}
/// All bits of these bytes of a word.
[[nodiscard]] constexpr std::uint64_t bits_of(Bytes bytes) noexcept {
  std::uint64_t bits = 0;
  for (unsigned i = 0; i < word_bytes; ++i)
    if ((bytes >> i & 1) != 0) bits |= std::uint64_t{0xff} << 8 * i;
  return bits;
}

/// Bytes in which the contents differ.
[[nodiscard]] constexpr Bytes differing(const LineContent& a, const LineContent& b) noexcept {
  Bytes bytes = 0;
  for (unsigned word = 0; word < a.size(); ++word)
    for (std::uint64_t left = a[word] ^ b[word]; left != 0;) {
      const auto byte = static_cast<unsigned>(std::countr_zero(left)) / 8;
      bytes |= Bytes{1} << (word * word_bytes + byte);
      left &= ~(std::uint64_t{0xff} << 8 * byte);
    }
  return bytes;
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
