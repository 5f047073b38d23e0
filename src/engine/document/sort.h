// Sort: the order of results. A document's sort key is a byte string, so that comparing two is one
// memcmp: for each field the encoding of its value, with all bits flipped where the order descends
// (which works, because no encoding is a prefix of another). Of an array the least element counts,
// or the greatest where the order descends, as for MongoDB.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/document/path.h"
#include "engine/document/values.h"

namespace perdure::engine {

class Sort {
 public:
  /// No order.
  Sort() = default;
  /// {field: 1, other: -1}. Errors: bad_value, and those of paths.
  [[nodiscard]] static Answer<Sort> parse(std::string_view document);

  struct Field {
    FieldPath path;
    bool descends = false;
  };
  [[nodiscard]] const std::vector<Field>& fields() const noexcept { return fields_; }
  [[nodiscard]] bool is_empty() const noexcept { return fields_.empty(); }
  /// Errors: unsupported_format, where a Decimal128 is a sort key.
  [[nodiscard]] Answer<std::string> key_of(std::string_view document) const;

 private:
  std::vector<Field> fields_;
};

/// Sorts documents in memory, all of them or the first few.
class Sorter {
 public:
  /// Keeps the first `most` documents; 0: all.
  Sorter(Sort sort, std::uint64_t most) : sort_(std::move(sort)), most_(most) {}
  /// Errors: query_exceeded_memory_limit.
  [[nodiscard]] Answer<Done> add(std::string document);
  /// In order; the sorter is empty then.
  [[nodiscard]] std::vector<std::string> take();

  static constexpr std::size_t max_bytes = 100U << 20;

 private:
  struct Item {
    std::string key;
    std::uint64_t number;  ///< equal keys stay in the order in which they came
    std::string document;
    [[nodiscard]] std::size_t bytes() const noexcept {
      return key.size() + document.size() + sizeof *this;
    }
    bool operator<(const Item& other) const noexcept {
      const int order = key.compare(other.key);
      return order != 0 ? order < 0 : number < other.number;
    }
  };

  Sort sort_;
  std::uint64_t most_;
  std::uint64_t count_ = 0;
  std::size_t bytes_ = 0;
  std::vector<Item> items_;  ///< with `most`: a heap, the last of them first
};

}  // namespace perdure::engine
