// Keys of documents and of their index entries in the store.
//
//   document    [collection, 4 bytes big-endian] [encoded _id]
//   entry       [FE] [collection, 4 bytes] [index number, 2 bytes] [encoded value]
// Collection 0 is the catalog: its documents describe the others. Collection 1 holds keys and
// values of Redis as they are. So no key begins with FE.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/document/path.h"
#include "engine/document/values.h"

namespace perdure::engine {

inline constexpr std::uint32_t catalog_collection = 0;
inline constexpr std::uint32_t raw_collection = 1;
inline constexpr std::uint32_t first_collection = 2;
inline constexpr std::uint32_t end_of_collections = 0xFE00'0000;
/// Of an entry: the store appends the id of the document.
inline constexpr std::size_t max_entry_bytes = 2040;

struct KeyRange {
  std::string from;
  std::string to;  ///< not of the range
  [[nodiscard]] bool contains(std::string_view key) const noexcept {
    return from <= key && key < to;
  }
};

[[nodiscard]] std::string collection_prefix(std::uint32_t collection);
[[nodiscard]] std::uint32_t collection_of(std::string_view key) noexcept;
[[nodiscard]] std::string index_prefix(std::uint32_t collection, std::uint16_t index);
/// All entries of a collection's indexes.
[[nodiscard]] std::string indexes_prefix(std::uint32_t collection);
[[nodiscard]] inline KeyRange range_of_prefix(std::string prefix) {
  return {prefix, end_of_prefix(prefix)};
}

/// Errors: key_too_long; unsupported_format for a Decimal128.
[[nodiscard]] Answer<std::string> key_of(std::uint32_t collection, const bson_iter_t& id);

/// Whether a document can have entries in an index.
enum class Indexable : std::uint8_t { yes, has_decimal, too_long };
/// The encodings of what `path` reaches in a document, sorted, each once; never none.
/// `through_array`: an array is on the path, which tells multikey indexes.
[[nodiscard]] Indexable index_values(const FieldPath& path, std::string_view document,
                                     std::vector<std::string>& values, bool& through_array);

/// Follows an index's prefix in an entry of documents with an array on the way to the field: so the
/// entries from `array` to its end tell whether an index is multikey.
inline constexpr std::string_view array_mark = "\x1b\xFF";
static_assert(array_mark[0] == static_cast<char>(Rank::array));

}  // namespace perdure::engine
