// What every reference index checks before a bulk load.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/result.h"
#include "index/index.h"

namespace perdure {

/// True when key and value keep the limits of index.h; integers always do.
[[nodiscard]] constexpr bool within_limits(std::uint64_t, std::uint64_t) noexcept { return true; }
[[nodiscard]] constexpr bool within_limits(std::uint64_t, std::string_view value) noexcept {
  return value.size() <= max_slot_value_bytes;
}
[[nodiscard]] constexpr bool within_limits(std::string_view key, std::string_view value) noexcept {
  return key.size() <= max_key_bytes && value.size() <= max_value_bytes;
}

/// Why `records` must not be bulk-loaded into an index that is empty or not; nothing when they may.
template <class Record>
[[nodiscard]] std::optional<Error> bulk_load_refusal(bool empty, std::span<const Record> records) {
  const auto refuse = [](std::string what, std::string remedy) {
    return Error{ErrorCode::usage, std::move(what), "bulk load", std::move(remedy)};
  };
  if (!empty) return refuse("the index is not empty", "use insert, or a new index");
  for (std::size_t i = 0; i < records.size(); ++i) {
    if (i > 0 && !(records[i - 1].key < records[i].key))
      return refuse("keys are not strictly ascending at record " + std::to_string(i),
                    "sort the records and drop duplicates");
    if (!within_limits(records[i].key, records[i].value))
      return refuse("key or value is too long at record " + std::to_string(i),
                    "keys hold up to 2048 B, values up to 64 KiB, or 120 B in slots");
  }
  return std::nullopt;
}

}  // namespace perdure
