// Values of BSON in MongoDB's order: compared, and encoded into byte strings whose order is the
// same.
//
// An encoding is a tag, which is the rank of the value's type, and a body:
//   number      double rounded down, 8 bytes in order; beyond 2^53 also value - double, 2 bytes
//   string      its bytes, 00 as 00 FF; then 00 00
//   object      for each field: tag, name 00, body of its value; then 00
//   array       for each element: tag, body; then 00
//   bindata     length, subtype, bytes
//   the rest    fixed bytes, or strings as above
//
// V1  memcmp of two encodings orders as `compare` orders the values.
// V2  no encoding is a prefix of another: so what follows an encoding does not disturb the order.
// V3  tags are less than 0x80, so that bytes from 0x80 up in a tag's place can mark what is no
// value.
#pragma once

#include <bson/bson.h>

#include <string>
#include <string_view>

namespace perdure::engine {

/// Where types stand in MongoDB's order; numbers share a rank, and so do strings and symbols.
enum class Rank : unsigned char {
  min_key = 1,
  undefined = 2,
  null = 7,
  number = 12,
  string = 17,
  object = 22,
  array = 27,
  binary = 32,
  object_id = 37,
  boolean = 42,
  date = 47,
  timestamp = 49,
  regex = 52,
  db_pointer = 57,
  code = 62,
  scoped_code = 67,
  max_key = 127,
};
[[nodiscard]] Rank rank_of(bson_type_t type) noexcept;

/// Appends the encoding of `value`. False: it is or holds a Decimal128, which has none; what was
/// appended is to be discarded.
[[nodiscard]] bool encode(const bson_iter_t& value, std::string& out);
/// Appends the encoding of what is not there: as null.
void encode_missing(std::string& out);

/// Negative, 0, positive. Sets `has_decimal` where a Decimal128 would have to be compared with a
/// number; the result is then meaningless.
[[nodiscard]] int compare(const bson_iter_t& a, const bson_iter_t& b, bool& has_decimal);

/// The least string that is greater than all that begin with `prefix`, which has a byte < 0xFF.
[[nodiscard]] std::string end_of_prefix(std::string prefix);

[[nodiscard]] inline bool is_number(const bson_iter_t& value) noexcept {
  return rank_of(bson_iter_type(&value)) == Rank::number;
}
[[nodiscard]] bool is_nan(const bson_iter_t& value) noexcept;

}  // namespace perdure::engine
