#include "engine/store/record.h"

#include <isa-l/crc.h>

namespace perdure::engine {

std::uint32_t extend_crc(std::uint32_t crc, std::string_view text) noexcept {
  // The library reads only; its signature lacks the const.
  auto* const bytes = reinterpret_cast<unsigned char*>(const_cast<char*>(text.data()));
  return ~crc32_iscsi(bytes, static_cast<int>(text.size()), ~crc);
}

std::uint32_t crc_of(const RecordHeader& header, std::span<const Extent> extents,
                     std::string_view key, std::string_view document) noexcept {
  constexpr std::size_t covered = offsetof(RecordHeader, id);
  std::uint32_t crc =
      extend_crc(0, {reinterpret_cast<const char*>(&header) + covered, sizeof header - covered});
  if (!extents.empty())
    crc = extend_crc(crc, {reinterpret_cast<const char*>(extents.data()), extents.size_bytes()});
  return extend_crc(extend_crc(crc, key), document);
}

}  // namespace perdure::engine
