#include "engine/store/record_reader.h"

#include <cstring>

#include "engine/store/document_store.h"

namespace perdure::engine {

const RecordHeader* RecordReader::at(std::uint64_t offset) const noexcept {
  if (offset % record_alignment != 0 || !pool_.contains(offset, sizeof(RecordHeader)))
    return nullptr;
  const auto* header = pool_.at<RecordHeader>(offset);
  if (header->document_bytes > max_document_bytes || !pool_.contains(offset, record_bytes(*header)))
    return nullptr;
  return header;
}

std::uint64_t RecordReader::version_of(std::uint64_t word) const noexcept {
  if ((word & RecordTable::removed) != 0) return word & ~RecordTable::removed;
  const RecordHeader* header = of(word);
  return header == nullptr ? 0 : header->version;
}

std::string_view RecordReader::key(const RecordHeader& header) const noexcept {
  const std::uint64_t body =
      header.extents != 0 ? header.extents * sizeof(Extent) : header.document_bytes;
  return {reinterpret_cast<const char*>(&header) + sizeof header + body, header.key_bytes};
}

std::vector<Extent> RecordReader::extents(const RecordHeader& header) const {
  std::vector<Extent> extents(header.extents);
  if (extents.empty()) return extents;
  std::memcpy(extents.data(), &header + 1, header.extents * sizeof(Extent));
  std::uint64_t bytes = 0;
  for (const Extent& extent : extents) {
    if (extent.bytes > Heap::max_block_bytes || !pool_.contains(extent.offset, extent.bytes))
      return {};
    bytes += extent.bytes;
  }
  if (bytes != header.document_bytes) return {};
  return extents;
}

bool RecordReader::copy_document(const RecordHeader& header, std::string_view key,
                                 std::string& document) const {
  if (header.extents == 0) {
    document.assign(reinterpret_cast<const char*>(&header + 1), header.document_bytes);
    return crc_of(header, {}, key, document) == header.crc;
  }
  const std::vector<Extent> pieces = extents(header);
  if (pieces.empty()) return false;
  document.resize(header.document_bytes);
  std::size_t at = 0;
  for (const Extent& piece : pieces) {
    std::memcpy(document.data() + at, pool_.at<char>(piece.offset), piece.bytes);
    at += piece.bytes;
  }
  return crc_of(header, pieces, key, document) == header.crc;
}

bool RecordReader::copy(const RecordHeader& header, std::string& key, std::string& document) const {
  key = this->key(header);
  return copy_document(header, key, document);
}

}  // namespace perdure::engine
