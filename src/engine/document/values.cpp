#include "engine/document/values.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "engine/document/bson_view.h"

namespace perdure::engine {
namespace {

__extension__ using Wide = __int128;
constexpr double two_to_53 = 9007199254740992.0;
constexpr double two_to_63 = 9223372036854775808.0;

template <class T>
int order_of(const T& a, const T& b) noexcept {
  return a < b ? -1 : a == b ? 0 : 1;
}

/// Bytewise, then by length.
int compare_bytes(std::string_view a, std::string_view b) noexcept {
  const int order = a.compare(b);
  return order_of(order, 0);
}

void append_big_endian(std::uint64_t word, unsigned bytes, std::string& out) {
  for (unsigned i = bytes; i-- > 0;) out += static_cast<char>(word >> (8 * i) & 0xFF);
}

void append_signed(std::int64_t word, std::string& out) {
  append_big_endian(static_cast<std::uint64_t>(word) ^ (std::uint64_t{1} << 63), 8, out);
}

void append_escaped(std::string_view text, std::string& out) {
  for (;;) {
    const std::size_t zero = text.find('\0');
    out.append(text.substr(0, zero));
    if (zero == std::string_view::npos) break;
    out.append("\0\xFF", 2);
    text.remove_prefix(zero + 1);
  }
  out.append("\0\0", 2);
}

void append_double(double value, std::string& out) {
  if (std::isnan(value)) return append_big_endian(0, 8, out);
  if (value == 0) value = 0;  // -0
  const auto bits = std::bit_cast<std::uint64_t>(value);
  constexpr std::uint64_t sign = std::uint64_t{1} << 63;
  append_big_endian((bits & sign) != 0 ? ~bits : bits | sign, 8, out);
}

/// The greatest double that is not above `value`.
double round_down(std::int64_t value) noexcept {
  const auto nearest = static_cast<double>(value);
  return static_cast<Wide>(nearest) > value ? std::nextafter(nearest, -two_to_63) : nearest;
}

void append_number(const bson_iter_t& value, std::string& out) {
  double rounded = 0;
  std::uint64_t remainder = 0;
  if (bson_iter_type(&value) == BSON_TYPE_DOUBLE) {
    rounded = bson_iter_double(&value);
  } else {
    const std::int64_t whole = bson_iter_as_int64(&value);
    rounded = round_down(whole);
    remainder = static_cast<std::uint64_t>(whole - static_cast<Wide>(rounded));
  }
  append_double(rounded, out);
  if (std::fabs(rounded) >= two_to_53) append_big_endian(remainder, 2, out);
}

std::uint64_t timestamp_of(const bson_iter_t& value) noexcept {
  std::uint32_t seconds = 0;
  std::uint32_t increment = 0;
  bson_iter_timestamp(&value, &seconds, &increment);
  return std::uint64_t{seconds} << 32 | increment;
}

struct Binary {
  std::string_view bytes;
  bson_subtype_t subtype;
};
Binary binary_of(const bson_iter_t& value) noexcept {
  bson_subtype_t subtype{};
  std::uint32_t length = 0;
  const std::uint8_t* bytes = nullptr;
  bson_iter_binary(&value, &subtype, &length, &bytes);
  return {{reinterpret_cast<const char*>(bytes), length}, subtype};
}

struct Regex {
  std::string_view pattern;
  std::string_view options;
};
Regex regex_of(const bson_iter_t& value) noexcept {
  const char* options = nullptr;
  const char* pattern = bson_iter_regex(&value, &options);
  return {pattern, options};
}

struct DbPointer {
  std::string_view collection;
  std::string_view id;
};
DbPointer db_pointer_of(const bson_iter_t& value) noexcept {
  std::uint32_t length = 0;
  const char* collection = nullptr;
  const bson_oid_t* id = nullptr;
  bson_iter_dbpointer(&value, &length, &collection, &id);
  return {{collection, length}, {reinterpret_cast<const char*>(id->bytes), sizeof id->bytes}};
}

struct ScopedCode {
  std::string_view code;
  std::string_view scope;
};
ScopedCode scoped_code_of(const bson_iter_t& value) noexcept {
  std::uint32_t length = 0;
  std::uint32_t scope_bytes = 0;
  const std::uint8_t* scope = nullptr;
  const char* code = bson_iter_codewscope(&value, &length, &scope_bytes, &scope);
  return {{code, length}, {reinterpret_cast<const char*>(scope), scope_bytes}};
}

bool append_body(const bson_iter_t& value, std::string& out);

bool append_fields(const bson_iter_t& begin, bool with_names, std::string& out) {
  bson_iter_t fields = begin;
  while (bson_iter_next(&fields)) {
    out += static_cast<char>(rank_of(bson_iter_type(&fields)));
    if (with_names) out.append(bson_iter_key(&fields), bson_iter_key_len(&fields) + 1);
    if (!append_body(fields, out)) return false;
  }
  out += '\0';
  return true;
}

bool append_body(const bson_iter_t& value, std::string& out) {
  if (bson_iter_type(&value) == BSON_TYPE_DECIMAL128) return false;
  switch (rank_of(bson_iter_type(&value))) {
    case Rank::min_key:
    case Rank::undefined:
    case Rank::null:
    case Rank::max_key:
      return true;
    case Rank::number:
      append_number(value, out);
      return true;
    case Rank::string:
    case Rank::code:
      append_escaped(text_of(value), out);
      return true;
    case Rank::object:
      return append_fields(fields_of(value), true, out);
    case Rank::array:
      return append_fields(fields_of(value), false, out);
    case Rank::binary: {
      const Binary binary = binary_of(value);
      append_big_endian(binary.bytes.size(), 4, out);
      out += static_cast<char>(binary.subtype);
      out.append(binary.bytes);
      return true;
    }
    case Rank::object_id:
      out.append(reinterpret_cast<const char*>(bson_iter_oid(&value)->bytes), 12);
      return true;
    case Rank::boolean:
      out += bson_iter_bool(&value) ? '\1' : '\0';
      return true;
    case Rank::date:
      append_signed(bson_iter_date_time(&value), out);
      return true;
    case Rank::timestamp:
      append_big_endian(timestamp_of(value), 8, out);
      return true;
    case Rank::regex: {
      const Regex regex = regex_of(value);
      append_escaped(regex.pattern, out);
      append_escaped(regex.options, out);
      return true;
    }
    case Rank::db_pointer: {
      const DbPointer pointer = db_pointer_of(value);
      append_escaped(pointer.collection, out);
      out.append(pointer.id);
      return true;
    }
    case Rank::scoped_code: {
      const ScopedCode code = scoped_code_of(value);
      append_escaped(code.code, out);
      return append_fields(fields_of(code.scope), true, out);
    }
  }
  return false;
}

int compare_whole_with_double(std::int64_t whole, double other) noexcept {
  if (std::isnan(other) || other < -two_to_63) return 1;
  if (other >= two_to_63) return -1;
  const auto truncated = static_cast<std::int64_t>(other);
  if (whole != truncated) return whole < truncated ? -1 : 1;
  return order_of(0.0, other - static_cast<double>(truncated));
}

int compare_doubles(double a, double b) noexcept {
  if (std::isnan(a) || std::isnan(b)) return (std::isnan(b) ? 1 : 0) - (std::isnan(a) ? 1 : 0);
  return order_of(a, b);
}

int compare_numbers(const bson_iter_t& a, const bson_iter_t& b) noexcept {
  const bool a_is_double = bson_iter_type(&a) == BSON_TYPE_DOUBLE;
  const bool b_is_double = bson_iter_type(&b) == BSON_TYPE_DOUBLE;
  if (a_is_double && b_is_double)
    return compare_doubles(bson_iter_double(&a), bson_iter_double(&b));
  if (b_is_double) return compare_whole_with_double(bson_iter_as_int64(&a), bson_iter_double(&b));
  if (a_is_double) return -compare_whole_with_double(bson_iter_as_int64(&b), bson_iter_double(&a));
  return order_of(bson_iter_as_int64(&a), bson_iter_as_int64(&b));
}

int compare_bodies(const bson_iter_t& a, const bson_iter_t& b, bool& has_decimal);

int compare_fields(const bson_iter_t& begin_a, const bson_iter_t& begin_b, bool with_names,
                   bool& has_decimal) {
  bson_iter_t a = begin_a;
  bson_iter_t b = begin_b;
  for (;;) {
    const bool a_goes_on = bson_iter_next(&a);
    const bool b_goes_on = bson_iter_next(&b);
    if (!a_goes_on || !b_goes_on) return order_of(a_goes_on, b_goes_on);
    int order = order_of(rank_of(bson_iter_type(&a)), rank_of(bson_iter_type(&b)));
    if (order == 0 && with_names) order = compare_bytes(bson_iter_key(&a), bson_iter_key(&b));
    if (order == 0) order = compare_bodies(a, b, has_decimal);
    if (order != 0) return order;
  }
}

int compare_binaries(const Binary& a, const Binary& b) noexcept {
  if (a.bytes.size() != b.bytes.size()) return order_of(a.bytes.size(), b.bytes.size());
  if (a.subtype != b.subtype) return order_of(a.subtype, b.subtype);
  return compare_bytes(a.bytes, b.bytes);
}

/// Of two values whose types have one rank.
int compare_bodies(const bson_iter_t& a, const bson_iter_t& b, bool& has_decimal) {
  switch (rank_of(bson_iter_type(&a))) {
    case Rank::min_key:
    case Rank::undefined:
    case Rank::null:
    case Rank::max_key:
      return 0;
    case Rank::number:
      if (bson_iter_type(&a) != BSON_TYPE_DECIMAL128 && bson_iter_type(&b) != BSON_TYPE_DECIMAL128)
        return compare_numbers(a, b);
      has_decimal = true;
      return 0;
    case Rank::string:
    case Rank::code:
      return compare_bytes(text_of(a), text_of(b));
    case Rank::object:
      return compare_fields(fields_of(a), fields_of(b), true, has_decimal);
    case Rank::array:
      return compare_fields(fields_of(a), fields_of(b), false, has_decimal);
    case Rank::binary:
      return compare_binaries(binary_of(a), binary_of(b));
    case Rank::object_id:
      return order_of(bson_oid_compare(bson_iter_oid(&a), bson_iter_oid(&b)), 0);
    case Rank::boolean:
      return order_of(bson_iter_bool(&a), bson_iter_bool(&b));
    case Rank::date:
      return order_of(bson_iter_date_time(&a), bson_iter_date_time(&b));
    case Rank::timestamp:
      return order_of(timestamp_of(a), timestamp_of(b));
    case Rank::regex: {
      const int order = compare_bytes(regex_of(a).pattern, regex_of(b).pattern);
      return order != 0 ? order : compare_bytes(regex_of(a).options, regex_of(b).options);
    }
    case Rank::db_pointer: {
      const int order = compare_bytes(db_pointer_of(a).collection, db_pointer_of(b).collection);
      return order != 0 ? order : compare_bytes(db_pointer_of(a).id, db_pointer_of(b).id);
    }
    case Rank::scoped_code: {
      const ScopedCode left = scoped_code_of(a);
      const ScopedCode right = scoped_code_of(b);
      const int order = compare_bytes(left.code, right.code);
      if (order != 0) return order;
      return compare_fields(fields_of(left.scope), fields_of(right.scope), true, has_decimal);
    }
  }
  return 0;
}

}  // namespace

Rank rank_of(bson_type_t type) noexcept {
  switch (type) {
    case BSON_TYPE_MINKEY:
      return Rank::min_key;
    case BSON_TYPE_EOD:
    case BSON_TYPE_UNDEFINED:
      return Rank::undefined;
    case BSON_TYPE_NULL:
      return Rank::null;
    case BSON_TYPE_DOUBLE:
    case BSON_TYPE_INT32:
    case BSON_TYPE_INT64:
    case BSON_TYPE_DECIMAL128:
      return Rank::number;
    case BSON_TYPE_UTF8:
    case BSON_TYPE_SYMBOL:
      return Rank::string;
    case BSON_TYPE_DOCUMENT:
      return Rank::object;
    case BSON_TYPE_ARRAY:
      return Rank::array;
    case BSON_TYPE_BINARY:
      return Rank::binary;
    case BSON_TYPE_OID:
      return Rank::object_id;
    case BSON_TYPE_BOOL:
      return Rank::boolean;
    case BSON_TYPE_DATE_TIME:
      return Rank::date;
    case BSON_TYPE_TIMESTAMP:
      return Rank::timestamp;
    case BSON_TYPE_REGEX:
      return Rank::regex;
    case BSON_TYPE_DBPOINTER:
      return Rank::db_pointer;
    case BSON_TYPE_CODE:
      return Rank::code;
    case BSON_TYPE_CODEWSCOPE:
      return Rank::scoped_code;
    case BSON_TYPE_MAXKEY:
      break;
  }
  return Rank::max_key;
}

bool encode(const bson_iter_t& value, std::string& out) {
  out += static_cast<char>(rank_of(bson_iter_type(&value)));
  return append_body(value, out);
}

void encode_missing(std::string& out) { out += static_cast<char>(Rank::null); }

int compare(const bson_iter_t& a, const bson_iter_t& b, bool& has_decimal) {
  const int order = order_of(rank_of(bson_iter_type(&a)), rank_of(bson_iter_type(&b)));
  return order != 0 ? order : compare_bodies(a, b, has_decimal);
}

std::string end_of_prefix(std::string prefix) {
  while (!prefix.empty() && prefix.back() == '\xFF') prefix.pop_back();
  if (!prefix.empty()) prefix.back() = static_cast<char>(prefix.back() + 1);
  return prefix;
}

bool is_nan(const bson_iter_t& value) noexcept {
  return bson_iter_type(&value) == BSON_TYPE_DOUBLE && std::isnan(bson_iter_double(&value));
}

}  // namespace perdure::engine
