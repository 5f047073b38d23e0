// Record: a document with its key, as it lies in a segment.
//
//   byte 0      4        8    16       24          28         30       32
//        | crc  | segment | id | version | document | key bytes | extents | body ... | zeros to 64
//        B |
//                                          bytes
//   body, extents == 0   document, key
//   body, extents > 0    extent[extents], key; the document lies in blocks of the heap of its own
//
// B1  a record never changes once its intent is durable, but that the cleaner copies it elsewhere,
//     with another `segment`.
// B2  `crc` is the CRC-32C (Castagnoli) of bytes 8 .. 32, of the extents, the key and the document;
//     of a copy, too, because `segment` is not in it.
// B3  records of one id have ascending versions; `version` is one more than the last one's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "pm/pm.h"

namespace perdure::engine {

struct RecordHeader {
  std::uint32_t crc;
  std::uint32_t segment;  ///< number of the segment that it lies in
  std::uint64_t id;
  std::uint64_t version;
  std::uint32_t document_bytes;
  std::uint16_t key_bytes;
  std::uint16_t extents;
};
static_assert(sizeof(RecordHeader) == 32 && offsetof(RecordHeader, id) == 8);

/// A piece of a long document.
struct Extent {
  std::uint64_t offset;  ///< in the pool
  std::uint64_t bytes;
};
static_assert(sizeof(Extent) == 16);

inline constexpr std::size_t record_alignment = pm::cache_line_bytes;

/// Bytes that a record takes in its segment.
[[nodiscard]] constexpr std::uint64_t record_bytes(std::uint64_t key_bytes, std::uint64_t document,
                                                   std::uint64_t extents) noexcept {
  const std::uint64_t body = extents != 0 ? extents * sizeof(Extent) : document;
  const std::uint64_t bytes = sizeof(RecordHeader) + body + key_bytes;
  return (bytes + record_alignment - 1) / record_alignment * record_alignment;
}
[[nodiscard]] inline std::uint64_t record_bytes(const RecordHeader& header) noexcept {
  return record_bytes(header.key_bytes, header.document_bytes, header.extents);
}

/// Continues a CRC-32C over `text`; begin with 0.
[[nodiscard]] std::uint32_t extend_crc(std::uint32_t crc, std::string_view text) noexcept;

/// B2, from copies in DRAM.
[[nodiscard]] std::uint32_t crc_of(const RecordHeader& header, std::span<const Extent> extents,
                                   std::string_view key, std::string_view document) noexcept;

}  // namespace perdure::engine
