// Any bytes given as a platform file are read or refused with one line that names file, line and
// remedy; what is read has every value in its range, and one fingerprint.
//
//   platform_fuzz -max_total_time=60 -max_len=8000 $(mktemp -d) platforms/
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "platform/description/description.h"

namespace {

void expect(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace platform = perdure::platform;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto read = platform::parse_platform(text, "fuzz.toml");
  if (!read.ok()) {
    expect(!read.error().what.empty() && !read.error().remedy.empty());
    expect(read.error().line().find('\n') == std::string::npos);
    expect(read.error().where.find(".toml:") != std::string::npos);
    return 0;
  }
  for (const platform::PlatformField& field : platform::platform_fields()) {
    const double value = field.get(read->platform);
    expect(value >= field.minimum && value <= field.maximum);
  }
  expect(platform::check_platform(*read).ok());
  expect(platform::fingerprint_of(read->platform).size() == 16);
  static_cast<void>(platform::json_of(*read).dump());
  return 0;
}
