// KeyValues: what Redis clients see of a store, so that the session is tested without one.
// Every function is thread-safe; what has returned `ok` is durable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/store/document_store.h"

namespace perdure::server::redis {

inline constexpr std::size_t max_redis_key_bytes = 2044;  ///< the index's limit without our prefix

class KeyValues {
 public:
  KeyValues() = default;
  virtual ~KeyValues() = default;
  KeyValues(const KeyValues&) = delete;
  KeyValues& operator=(const KeyValues&) = delete;

  /// ok | not_found | corrupt.
  virtual engine::Status get(std::string_view key, std::string& value) = 0;
  /// ok | exists (insert) | not_found (update) | out_of_space | too_long.
  virtual engine::Status set(std::string_view key, std::string_view value, Put kind) = 0;
  /// The same, and tells the value before, read and replaced in one step. `had_value`: there was
  /// one, also where it was left. Besides: corrupt.
  virtual engine::Status exchange(std::string_view key, std::string_view value, Put kind,
                                  std::string& old, bool& had_value) = 0;
  /// ok | not_found | corrupt (it is removed all the same) | out_of_space.
  virtual engine::Status remove(std::string_view key) = 0;
  /// Appends at most `count` keys from `from` on, in order; `next` is where to go on, unless it is
  /// the end (false).
  virtual bool scan(std::string_view from, std::size_t count, std::vector<std::string>& keys,
                    std::string& next) = 0;
  [[nodiscard]] virtual std::uint64_t size() const = 0;
  [[nodiscard]] virtual engine::StoreUsage usage() const = 0;
};

}  // namespace perdure::server::redis
