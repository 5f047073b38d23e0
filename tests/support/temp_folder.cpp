#include "support/temp_folder.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>

namespace perdure::testing {

TempFolder::TempFolder() {
  std::error_code ignored;
  std::string parent;
  if (const char* given = std::getenv("PERDURE_TEST_FOLDER"); given != nullptr && *given != '\0')
    parent = given;
  else if (std::filesystem::is_directory("/dev/shm", ignored))
    parent = "/dev/shm";
  else
    parent = std::filesystem::temp_directory_path(ignored).string();
  path_ = parent + "/perdure-test-XXXXXX";
  if (mkdtemp(path_.data()) == nullptr) {
    std::perror(path_.c_str());
    std::abort();
  }
}

TempFolder::~TempFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace perdure::testing
