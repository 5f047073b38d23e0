// RecordReader: finds a record's parts and copies them, believing media in nothing. The caller is
// pinned, or no operation runs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/store/record.h"
#include "engine/store/record_table.h"
#include "pool/pool.h"

namespace perdure::engine {

class RecordReader {
 public:
  explicit RecordReader(const Pool& pool) noexcept : pool_(pool) {}

  /// The record at `offset`; null: none can be there.
  [[nodiscard]] const RecordHeader* at(std::uint64_t offset) const noexcept;
  /// The same for the word of a table; null, too, where it leads to no record.
  [[nodiscard]] const RecordHeader* of(std::uint64_t word) const noexcept {
    return RecordTable::is_present(word) ? at(word) : nullptr;
  }
  /// The version that a word stands for; 0 for one that was never used, or leads to no record.
  [[nodiscard]] std::uint64_t version_of(std::uint64_t word) const noexcept;

  [[nodiscard]] std::string_view key(const RecordHeader& header) const noexcept;
  /// Empty where the document is in the segment; also where they are damaged.
  [[nodiscard]] std::vector<Extent> extents(const RecordHeader& header) const;
  /// False: the record does not agree with its checksum.
  [[nodiscard]] bool copy(const RecordHeader& header, std::string& key,
                          std::string& document) const;
  /// The same for a record whose key is known.
  [[nodiscard]] bool copy_document(const RecordHeader& header, std::string_view key,
                                   std::string& document) const;

 private:
  const Pool& pool_;
};

}  // namespace perdure::engine
