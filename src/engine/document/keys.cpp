#include "engine/document/keys.h"

#include <algorithm>

#include "index/index.h"

namespace perdure::engine {
namespace {

constexpr char entry_tag = '\xFE';
constexpr std::size_t index_prefix_bytes = 7;

void append_big_endian_word(std::uint32_t word, std::string& out) {
  for (const unsigned shift : {24U, 16U, 8U, 0U}) out += static_cast<char>(word >> shift & 0xFF);
}

}  // namespace

std::string collection_prefix(std::uint32_t collection) {
  std::string prefix;
  append_big_endian_word(collection, prefix);
  return prefix;
}

std::uint32_t collection_of(std::string_view key) noexcept {
  if (key.size() < 4) return catalog_collection;
  std::uint32_t collection = 0;
  for (std::size_t i = 0; i < 4; ++i)
    collection = collection << 8 | static_cast<unsigned char>(key[i]);
  return collection;
}

std::string indexes_prefix(std::uint32_t collection) {
  std::string prefix(1, entry_tag);
  append_big_endian_word(collection, prefix);
  return prefix;
}

std::string index_prefix(std::uint32_t collection, std::uint16_t index) {
  std::string prefix = indexes_prefix(collection);
  prefix += static_cast<char>(index >> 8);
  prefix += static_cast<char>(index & 0xFF);
  return prefix;
}

Answer<std::string> key_of(std::uint32_t collection, const bson_iter_t& id) {
  std::string key;
  key.reserve(32);
  append_big_endian_word(collection, key);
  if (!encode(id, key))
    return {Code::unsupported_format, "a Decimal128 in an _id is not supported"};
  if (key.size() > max_key_bytes)
    return {Code::key_too_long, "the _id takes " + std::to_string(key.size()) +
                                    " bytes as a key; at most " + std::to_string(max_key_bytes) +
                                    " are allowed"};
  return key;
}

Indexable index_values(const FieldPath& path, std::string_view document,
                       std::vector<std::string>& values, bool& through_array) {
  values.clear();
  through_array = false;
  Indexable indexable = Indexable::yes;
  path.walk(document, [&](const Reached& reached) {
    through_array = through_array || reached.through_array;
    std::string& value = values.emplace_back();
    if (reached.value == nullptr)
      encode_missing(value);
    else if (!encode(*reached.value, value))
      indexable = Indexable::has_decimal;
    if (index_prefix_bytes + value.size() > max_entry_bytes) indexable = Indexable::too_long;
    return indexable == Indexable::yes;
  });
  if (values.empty()) {
    // An array without documents is on the way; the document must still be found by its order.
    through_array = true;
    encode_missing(values.emplace_back());
  }
  std::ranges::sort(values);
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return indexable;
}

}  // namespace perdure::engine
