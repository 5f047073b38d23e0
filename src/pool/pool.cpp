#include "pool/pool.h"

namespace perdure {

std::string Pool::part_path(const std::string& path, unsigned part) {
  constexpr std::string_view place = "{part}";
  const std::size_t at = path.find(place);
  std::string text = path;
  if (at != std::string::npos) return text.replace(at, place.size(), std::to_string(part));
  return part == 0 ? text : text + "." + std::to_string(part);
}

}  // namespace perdure
