// Where the project's data files (workloads/, platforms/) are found, by name or by path.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace perdure {

/// A folder of TOML files: `folder` of the current directory, of the installation, or beside the
/// build. Empty: there is none.
[[nodiscard]] std::filesystem::path data_folder(const std::string& folder);

/// Names (without .toml) in that folder, sorted.
[[nodiscard]] std::vector<std::string> data_names(const std::string& folder);

/// `given` if it is a file or names a path, else the named file of the folder, else `given`.
[[nodiscard]] std::filesystem::path data_path(const std::string& folder, const std::string& given);

}  // namespace perdure
