// Figures as people read them.
#pragma once

#include <array>
#include <cstdint>
#include <cstdio>
#include <string>

namespace perdure::cli {

/// printf into a string; for short texts.
template <class... Arguments>
[[nodiscard]] std::string print(const char* format, Arguments... arguments) {
  std::array<char, 256> text{};
  std::snprintf(text.data(), text.size(), format, arguments...);
  return text.data();
}

/// 12345678 -> "12.35M"; 999 -> "999".
[[nodiscard]] std::string short_count(double value);
/// 67108864 -> "64.0 MiB".
[[nodiscard]] std::string short_bytes(std::uint64_t bytes);
/// 1234 -> "1.23 us".
[[nodiscard]] std::string short_time(std::uint64_t ns);

}  // namespace perdure::cli
