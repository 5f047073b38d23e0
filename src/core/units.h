// Numbers as people write them: counts ("10M", "1_000_000", "2e6") and byte sizes ("64KiB", "1G").
//
// One suffix, two readings, chosen by what is counted:
//   counts      k K M G T are powers of 1000: ten million records are "10M".
//   byte sizes  K M G T and KiB MiB GiB TiB are powers of 1024, as in truncate(1) and mount(8);
//               KB MB GB TB are powers of 1000, as the SI has it; B or nothing is bytes.
// A decimal point or an exponent is fine as long as the result is whole: "1.5M" is, "1.5" is not.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/result.h"

namespace perdure {

/// Reads a count. Errors: usage, with `where` (a flag or file:line) and a remedy.
[[nodiscard]] Result<std::uint64_t> parse_count(std::string_view text, std::string_view where = {});

/// Reads a size in bytes. Errors: usage, with `where` and a remedy.
[[nodiscard]] Result<std::uint64_t> parse_bytes(std::string_view text, std::string_view where = {});

/// The shortest text that parse_count reads back as `count`: 10'000'000 is "10M", 1'234 is "1234".
[[nodiscard]] std::string format_count(std::uint64_t count);

/// The shortest text that parse_bytes reads back as `bytes`: 65'536 is "64KiB", 100 is "100B".
[[nodiscard]] std::string format_bytes(std::uint64_t bytes);

}  // namespace perdure
