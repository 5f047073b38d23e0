// Checks of a key file before any of its lines is read.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "core/result.h"

namespace perdure::workload {

/// The content of a regular file. Errors: not_found, io, bad_input (a directory, device or pipe).
[[nodiscard]] Result<std::string> read_key_file(const std::filesystem::path& path);

/// True for a SOSD file: the number of keys, then the keys, as little-endian words of 8 bytes.
[[nodiscard]] bool is_sosd(std::string_view content) noexcept;

/// Errors: bad_input: what is compressed, binary, UTF-16 or a YCSB property file, or has a byte
/// order mark or lines that end in CR alone.
[[nodiscard]] Result<void> check_key_text(std::string_view content, std::string_view name);

/// True for lines as of YCSB's workloads/workloada.
[[nodiscard]] bool is_ycsb_properties(std::string_view content) noexcept;

}  // namespace perdure::workload
