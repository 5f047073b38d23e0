// The table of all numbers of a Platform: the TOML reader, `describe` and range checks are loops
// over it.
//
// In a platform's file each field is `key = { value = NUMBER, source = "TEXT" }` in [section].
// `base = "OTHER"` at the top takes every field that the file does not give from platform OTHER.
// Outside the table: `name`, `title`, `base`, `persistence_domain` ("adr", "eadr", "none").
#pragma once

#include <span>
#include <string_view>

#include "platform/model/platform.h"

namespace perdure::platform {

enum class FieldKind : std::uint8_t { number, integer, boolean };

struct PlatformField {
  std::string_view section;  ///< "cpu"
  std::string_view key;      ///< "clock_ghz"; the unit is its last word
  std::string_view unit;     ///< "GHz"; empty for counts and switches
  FieldKind kind;
  double minimum, maximum;  ///< both allowed
  std::string_view what;    ///< one sentence
  double (*get)(const Platform&);
  void (*set)(Platform&, double);  ///< booleans: 0 or 1; the caller has checked kind and range
};

[[nodiscard]] std::span<const PlatformField> platform_fields() noexcept;

}  // namespace perdure::platform
