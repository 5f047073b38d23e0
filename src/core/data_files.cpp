#include "core/data_files.h"

#include <algorithm>

namespace perdure {

namespace fs = std::filesystem;

fs::path data_folder(const std::string& folder) {
  std::error_code ignored;
  std::vector<fs::path> candidates = {fs::current_path(ignored) / folder};
  const fs::path program = fs::read_symlink("/proc/self/exe", ignored);
  candidates.push_back(program.parent_path().parent_path() / "share/perdure" / folder);
  constexpr int levels = 4;  // build/src/cli/perdure-native, and one to spare
  fs::path above = program.parent_path();
  for (int i = 0; i < levels && above.has_relative_path(); ++i) {
    above = above.parent_path();
    candidates.push_back(above / folder);
  }
  for (const fs::path& candidate : candidates)
    if (fs::is_directory(candidate, ignored)) return candidate;
  return {};
}

std::vector<std::string> data_names(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code ignored;
  const fs::path place = data_folder(folder);
  if (place.empty()) return names;
  for (const auto& entry : fs::directory_iterator(place, ignored))
    if (entry.path().extension() == ".toml") names.push_back(entry.path().stem().string());
  std::ranges::sort(names);
  return names;
}

fs::path data_path(const std::string& folder, const std::string& given) {
  std::error_code ignored;
  if (fs::is_regular_file(given, ignored) || given.find('/') != std::string::npos) return given;
  const fs::path named = data_folder(folder) / (given + ".toml");
  return fs::exists(named, ignored) ? named : fs::path(given);
}

}  // namespace perdure
