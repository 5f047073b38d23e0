#include "engine/document/bson_view.h"

#include <cmath>
#include <cstring>

namespace perdure::engine {
namespace {

const std::uint8_t* raw(std::string_view bytes) noexcept {
  return reinterpret_cast<const std::uint8_t*>(bytes.data());
}
int length_of(std::string_view name) noexcept { return static_cast<int>(name.size()); }

Failure invalid(const char* what) { return {Code::invalid_bson, what}; }

/// A string that libbson has found within bounds must also end where it says.
bool ends_with_zero(const bson_iter_t& value) {
  const std::string_view text = text_of(value);
  return text.data()[text.size()] == '\0';
}

Answer<Done> check_at_depth(std::string_view bytes, unsigned depth) {
  if (depth > max_nesting) return invalid("documents are nested too deeply");
  bson_iter_t fields;
  if (bytes.size() < 5 || bytes.back() != '\0' ||
      !bson_iter_init_from_data(&fields, raw(bytes), bytes.size()))
    return invalid("the length of a document is wrong");
  // libbson stops without an error both at the end and at a type 0 before it.
  std::size_t end = 4;
  while (bson_iter_next(&fields)) {
    end = fields.next_off;
    switch (bson_iter_type(&fields)) {
      case BSON_TYPE_DOCUMENT:
      case BSON_TYPE_ARRAY: {
        if (Answer<Done> inner = check_at_depth(bytes_of(fields), depth + 1); !inner) return inner;
        break;
      }
      case BSON_TYPE_CODEWSCOPE: {
        std::uint32_t length = 0;
        std::uint32_t scope_bytes = 0;
        const std::uint8_t* scope = nullptr;
        const char* code = bson_iter_codewscope(&fields, &length, &scope_bytes, &scope);
        if (code == nullptr || code[length] != '\0')
          return invalid("code with a scope is malformed");
        const std::string_view inner_bytes(reinterpret_cast<const char*>(scope), scope_bytes);
        if (Answer<Done> inner = check_at_depth(inner_bytes, depth + 1); !inner) return inner;
        break;
      }
      case BSON_TYPE_UTF8:
      case BSON_TYPE_SYMBOL:
      case BSON_TYPE_CODE:
        if (!ends_with_zero(fields)) return invalid("a string does not end with 0");
        break;
      default:
        break;
    }
  }
  if (fields.err_off != 0 || end + 1 != bytes.size())
    return invalid("a field of a document is malformed");
  return Done{};
}

}  // namespace

Answer<Done> check_document(std::string_view bytes) { return check_at_depth(bytes, 0); }

bson_iter_t fields_of(std::string_view document) noexcept {
  bson_iter_t fields;
  if (!bson_iter_init_from_data(&fields, raw(document), document.size()))
    std::memset(static_cast<void*>(&fields), 0, sizeof fields);
  return fields;
}

std::string_view bytes_of(const bson_iter_t& value) noexcept {
  std::uint32_t length = 0;
  const std::uint8_t* bytes = nullptr;
  if (is_array(value)) {
    bson_iter_array(&value, &length, &bytes);
  } else {
    bson_iter_document(&value, &length, &bytes);
  }
  return {reinterpret_cast<const char*>(bytes), length};
}

bson_iter_t fields_of(const bson_iter_t& value) noexcept { return fields_of(bytes_of(value)); }

std::string_view text_of(const bson_iter_t& value) noexcept {
  std::uint32_t length = 0;
  switch (bson_iter_type(&value)) {
    case BSON_TYPE_UTF8: {
      const char* text = bson_iter_utf8(&value, &length);
      return {text, length};
    }
    case BSON_TYPE_SYMBOL: {
      const char* text = bson_iter_symbol(&value, &length);
      return {text, length};
    }
    case BSON_TYPE_CODE: {
      const char* text = bson_iter_code(&value, &length);
      return {text, length};
    }
    default:
      return "";
  }
}

bool find_field(std::string_view document, std::string_view name, bson_iter_t& field) {
  field = fields_of(document);
  while (bson_iter_next(&field))
    if (name_of(field) == name) return true;
  return false;
}

bool is_truthy(const bson_iter_t& value) noexcept {
  switch (bson_iter_type(&value)) {
    case BSON_TYPE_BOOL:
      return bson_iter_bool(&value);
    case BSON_TYPE_INT32:
      return bson_iter_int32(&value) != 0;
    case BSON_TYPE_INT64:
      return bson_iter_int64(&value) != 0;
    case BSON_TYPE_DOUBLE:
      return bson_iter_double(&value) != 0;
    default:
      return false;
  }
}

bool as_whole(const bson_iter_t& value, std::int64_t& whole) noexcept {
  switch (bson_iter_type(&value)) {
    case BSON_TYPE_INT32:
      whole = bson_iter_int32(&value);
      return true;
    case BSON_TYPE_INT64:
      whole = bson_iter_int64(&value);
      return true;
    case BSON_TYPE_DOUBLE: {
      const double number = bson_iter_double(&value);
      if (!(std::fabs(number) < 9e18) || number != std::trunc(number)) return false;
      whole = static_cast<std::int64_t>(number);
      return true;
    }
    default:
      return false;
  }
}

bool append_text(bson_t* out, std::string_view name, std::string_view text) {
  return bson_append_utf8(out, name.data(), length_of(name), text.data(), length_of(text));
}
bool append_int32(bson_t* out, std::string_view name, std::int32_t value) {
  return bson_append_int32(out, name.data(), length_of(name), value);
}
bool append_int64(bson_t* out, std::string_view name, std::int64_t value) {
  return bson_append_int64(out, name.data(), length_of(name), value);
}
bool append_double(bson_t* out, std::string_view name, double value) {
  return bson_append_double(out, name.data(), length_of(name), value);
}
bool append_bool(bson_t* out, std::string_view name, bool value) {
  return bson_append_bool(out, name.data(), length_of(name), value);
}
bool append_null(bson_t* out, std::string_view name) {
  return bson_append_null(out, name.data(), length_of(name));
}
bool append_document(bson_t* out, std::string_view name, std::string_view document) {
  bson_t inner;
  return bson_init_static(&inner, raw(document), document.size()) &&
         bson_append_document(out, name.data(), length_of(name), &inner);
}
// bson_append_array would print a line where an array that came from outside is not numbered from
// 0.
bool append_array(bson_t* out, std::string_view name, std::string_view array) {
  bson_t inner;
  bson_t copy;
  return bson_init_static(&inner, raw(array), array.size()) &&
         bson_append_array_begin(out, name.data(), length_of(name), &copy) &&
         bson_concat(&copy, &inner) && bson_append_array_end(out, &copy);
}
bool append_value(bson_t* out, std::string_view name, const bson_iter_t& value) {
  if (is_array(value)) return append_array(out, name, bytes_of(value));
  return bson_append_iter(out, name.data(), length_of(name), &value);
}

std::string json_of(std::string_view document, std::size_t most) {
  bson_t whole;
  if (!bson_init_static(&whole, raw(document), document.size())) return "?";
  std::size_t length = 0;
  char* text = bson_as_relaxed_extended_json(&whole, &length);
  if (text == nullptr) return "?";
  std::string json(text, length);
  bson_free(text);
  if (json.size() > most) json.replace(most, std::string::npos, "...");
  return json;
}

std::string json_of(const bson_iter_t& value, std::size_t most) {
  Builder one;
  append_value(one, "", value);
  std::string json = json_of(one.bytes(), most + 16);
  const std::size_t begin = json.find(": ");  // { "" : value }
  if (begin == std::string::npos || json.size() < begin + 4) return json;
  json = json.substr(begin + 2);
  if (json.ends_with(" }")) json.resize(json.size() - 2);
  return json;
}

}  // namespace perdure::engine
