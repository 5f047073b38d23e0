// Descriptions of platforms: the TOML files under platforms/, and those that users write.
//
//   name = "my-server"               # letters, digits, '-', '_', '.'; default: the file's name
//   title = "one line"
//   base = "optane100-8280l-2s"      # optional: gives every value that this file does not
//   persistence_domain = "adr"       # adr, eadr, none
//   [pm]
//   media_write_ns = { value = 106, source = "where the number comes from" }
//
// Sections and keys are those of platform/model/platform_fields.h. The reader is strict: a key that
// is misspelt, missing, of the wrong type, out of range, without a source, or in contradiction with
// another is an error that names file, line and remedy.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "platform/model/platform.h"
#include "platform/model/platform_fields.h"

namespace perdure::platform {

/// One number of a platform, and where it comes from.
struct DescribedValue {
  const PlatformField* field = nullptr;
  std::string source;
  std::string place;     ///< "file:line"
  std::string platform;  ///< whose file gave it: this one's name, or a base's
};

struct PlatformDescription {
  Platform platform;
  std::filesystem::path file;
  std::string base;                    ///< as written; empty: none
  std::string domain_place;            ///< "file:line" of persistence_domain
  std::vector<DescribedValue> values;  ///< one per field, in the order of platform_fields()
};

/// Reads `text` as the content of `file`; a base is looked up as `load_platform` does, a path from
/// the file's folder. Errors: bad_input; not_found for a base.
[[nodiscard]] Result<PlatformDescription> parse_platform(std::string_view text,
                                                         const std::filesystem::path& file);

/// `given`: the path of a file, or the name of one under platforms/. Errors: not_found, with the
/// nearest name; bad_input, io.
[[nodiscard]] Result<PlatformDescription> load_platform(const std::string& given);

/// Names under platforms/, sorted.
[[nodiscard]] std::vector<std::string> platform_names();

/// What contradicts what in a description whose fields are each in range. Errors: bad_input.
[[nodiscard]] Result<void> check_platform(const PlatformDescription& description);

/// 16 hexadecimal digits over all values: equal for platforms that behave equally, independent of
/// their names and sources.
[[nodiscard]] std::string fingerprint_of(const Platform& platform);

[[nodiscard]] const char* name_of(PersistenceDomain domain) noexcept;

/// Everything, for `describe platform --json`.
[[nodiscard]] nlohmann::ordered_json json_of(const PlatformDescription& description);

}  // namespace perdure::platform
