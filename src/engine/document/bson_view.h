// What libbson's reader and writer lack: documents as views of bytes, and a check of bytes that
// came from outside. Everything else here reads only what has passed the check.
#pragma once

#include <bson/bson.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/document/errors.h"

namespace perdure::engine {

inline constexpr unsigned max_nesting = 200;

/// A value that a container can hold: bson_iter_t alone claims an alignment that is no divisor of
/// its size. Its bytes lie elsewhere.
struct Value {
  bson_iter_t at;
};

/// One whole document, its elements within bounds, nested at most `max_nesting` deep.
/// Errors: invalid_bson.
[[nodiscard]] Answer<Done> check_document(std::string_view bytes);

/// Before the first field of a document that has passed the check.
[[nodiscard]] bson_iter_t fields_of(std::string_view document) noexcept;
/// Before the first field of an embedded document or array.
[[nodiscard]] bson_iter_t fields_of(const bson_iter_t& value) noexcept;
/// The bytes of an embedded document or array.
[[nodiscard]] std::string_view bytes_of(const bson_iter_t& value) noexcept;
/// Of a string, a symbol or code.
[[nodiscard]] std::string_view text_of(const bson_iter_t& value) noexcept;
[[nodiscard]] inline std::string_view name_of(const bson_iter_t& field) noexcept {
  return {bson_iter_key(&field), bson_iter_key_len(&field)};
}
/// True when there is such a field; `field` is at it then.
[[nodiscard]] bool find_field(std::string_view document, std::string_view name, bson_iter_t& field);
[[nodiscard]] inline bool is_document(const bson_iter_t& value) noexcept {
  return bson_iter_type(&value) == BSON_TYPE_DOCUMENT;
}
[[nodiscard]] inline bool is_array(const bson_iter_t& value) noexcept {
  return bson_iter_type(&value) == BSON_TYPE_ARRAY;
}
/// A number other than 0, or true.
[[nodiscard]] bool is_truthy(const bson_iter_t& value) noexcept;
/// Whether a number is whole and fits; 5.0 does.
[[nodiscard]] bool as_whole(const bson_iter_t& value, std::int64_t& whole) noexcept;

/// A document that is being written.
class Builder {
 public:
  Builder() : bson_(bson_new()) {}
  /// Room for `bytes` at once.
  explicit Builder(std::size_t bytes) : bson_(bson_sized_new(bytes)) {}
  ~Builder() { bson_destroy(bson_); }
  Builder(const Builder&) = delete;
  Builder& operator=(const Builder&) = delete;

  operator bson_t*() noexcept { return bson_; }
  /// Valid until the next change.
  [[nodiscard]] std::string_view bytes() const noexcept {
    return {reinterpret_cast<const char*>(bson_get_data(bson_)), bson_->len};
  }

 private:
  bson_t* bson_;
};

// Appends to `out`; false where libbson refuses, because the document would exceed 2 GB.
bool append_text(bson_t* out, std::string_view name, std::string_view text);
bool append_int32(bson_t* out, std::string_view name, std::int32_t value);
bool append_int64(bson_t* out, std::string_view name, std::int64_t value);
bool append_double(bson_t* out, std::string_view name, double value);
bool append_bool(bson_t* out, std::string_view name, bool value);
bool append_document(bson_t* out, std::string_view name, std::string_view document);
bool append_array(bson_t* out, std::string_view name, std::string_view array);
bool append_value(bson_t* out, std::string_view name, const bson_iter_t& value);
bool append_null(bson_t* out, std::string_view name);

/// One array within a document, from its first element to the end of its life.
class ArrayBuilder {
 public:
  ArrayBuilder(bson_t* parent, std::string_view name) : parent_(parent) {
    bson_append_array_begin(parent, name.data(), static_cast<int>(name.size()), &bson_);
  }
  ~ArrayBuilder() { bson_append_array_end(parent_, &bson_); }
  ArrayBuilder(const ArrayBuilder&) = delete;
  ArrayBuilder& operator=(const ArrayBuilder&) = delete;

  operator bson_t*() noexcept { return &bson_; }
  /// The name of the next element: its number.
  [[nodiscard]] std::string next() { return std::to_string(count_++); }

 private:
  bson_t* parent_;
  bson_t bson_;
  std::uint32_t count_ = 0;
};

/// One embedded document, likewise.
class DocumentBuilder {
 public:
  DocumentBuilder(bson_t* parent, std::string_view name) : parent_(parent) {
    bson_append_document_begin(parent, name.data(), static_cast<int>(name.size()), &bson_);
  }
  ~DocumentBuilder() { bson_append_document_end(parent_, &bson_); }
  DocumentBuilder(const DocumentBuilder&) = delete;
  DocumentBuilder& operator=(const DocumentBuilder&) = delete;

  operator bson_t*() noexcept { return &bson_; }

 private:
  bson_t* parent_;
  bson_t bson_;
};

/// For people and messages; long text is cut to `most` characters.
[[nodiscard]] std::string json_of(std::string_view document, std::size_t most = 1024);
/// The value of a field, as in {"x": ...}.
[[nodiscard]] std::string json_of(const bson_iter_t& value, std::size_t most = 256);

}  // namespace perdure::engine
