// Documents for tests: from JSON, and random ones.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "core/rng.h"
#include "engine/document/bson_view.h"

namespace perdure::engine {

/// From MongoDB's extended JSON; a mistake in it fails the test.
inline std::string document(std::string_view json) {
  bson_error_t error;
  bson_t* parsed = bson_new_from_json(reinterpret_cast<const std::uint8_t*>(json.data()),
                                      static_cast<ssize_t>(json.size()), &error);
  if (parsed == nullptr) {
    ADD_FAILURE() << json << ": " << error.message;
    return {"\5\0\0\0\0", 5};
  }
  std::string bytes(reinterpret_cast<const char*>(bson_get_data(parsed)), parsed->len);
  bson_destroy(parsed);
  return bytes;
}

/// The first value of a document that lives as long.
inline bson_iter_t first_value(const std::string& bytes) {
  bson_iter_t value = fields_of(bytes);
  EXPECT_TRUE(bson_iter_next(&value));
  return value;
}

/// Appends a field with a random value of any type but Decimal128; values are often near or equal.
void append_random_value(bson_t* out, std::string_view name, Rng& random, unsigned depth = 0);

}  // namespace perdure::engine
