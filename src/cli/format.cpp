#include "cli/format.h"

namespace perdure::cli {

std::string short_count(double value) {
  if (value >= 1e9) return print("%.2fG", value / 1e9);
  if (value >= 1e6) return print("%.2fM", value / 1e6);
  if (value >= 1e4) return print("%.1fk", value / 1e3);
  return print("%.0f", value);
}

std::string short_bytes(std::uint64_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (bytes >= 1ULL << 30) return print("%.2f GiB", value / 0x1p30);
  if (bytes >= 1ULL << 20) return print("%.1f MiB", value / 0x1p20);
  if (bytes >= 1ULL << 10) return print("%.1f KiB", value / 0x1p10);
  return print("%.0f B", value);
}

std::string short_time(std::uint64_t ns) {
  const auto value = static_cast<double>(ns);
  if (value >= 1e9) return print("%.2f s", value / 1e9);
  if (value >= 1e6) return print("%.2f ms", value / 1e6);
  if (value >= 1e3) return print("%.2f us", value / 1e3);
  return print("%.0f ns", value);
}

}  // namespace perdure::cli
